"""Ids that embeddings have no row for: refused, and never looked up among the rows of another node."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphcollab import Tasks, join, load, run
from graphcollab.analysis.metrics import Metric
from graphcollab.engine import Objective
from graphcollab.engine.objective import Context
from graphcollab.methods import fedavg, local
from graphcollab.train import Compute
from tests.raising import raises

NAMES = ["a", "b", "c"]
LABELS = torch.arange(30) % 2


class Model(nn.Module):
    """Mean embeddings of ids in 0 to 19, looked up in a way of one's own."""

    def __init__(self, look=F.embedding):
        super().__init__()
        self.look, self.weight, self.head = look, nn.Parameter(torch.randn(20, 4)), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        found = self.look(x, self.weight)
        return self.head(found.mean(1) if found.dim() == 3 else found)


MODELS = {
    "layer": lambda: nn.Sequential(nn.Embedding(20, 4), nn.Flatten(), nn.Linear(24, 2)),
    "padding": lambda: nn.Sequential(nn.Embedding(20, 4, padding_idx=0), nn.Flatten(), nn.Linear(24, 2)),
    "bag": lambda: nn.Sequential(nn.EmbeddingBag(20, 4), nn.Linear(4, 2)),
    "function": Model,
    "by name": lambda: Model(lambda x, w: F.embedding(input=x, weight=w)),
    "derived": lambda: Model(lambda x, w: F.embedding(x.float().long(), w)),
    "one hot": lambda: Model(lambda x, w: F.one_hot(x, 20).to(w.dtype) @ w),
}


def ids_of(**wrong: int) -> Tensor:
    """Return ids [3, 30, 6], with a wrong one at some nodes."""
    ids = torch.randint(0, 20, (3, 30, 6), generator=torch.Generator().manual_seed(0))
    for name, value in wrong.items():
        ids[NAMES.index(name), 23, 3] = value
    return ids


def tasks_of(ids: Tensor, **more: Tensor) -> Tasks:
    pairs = {name: [(x, LABELS) for x in of] for name, of in more.items()}
    return Tasks.from_samples([(x, LABELS) for x in ids], names=NAMES, val_fraction=0.0, **pairs)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("node", "wrong"), [("b", 20), ("a", -1), ("c", 1000)])
def test_ids_without_a_row_are_refused(model, node, wrong):
    for backend in ("auto", "loop"):
        with pytest.raises((IndexError, RuntimeError), match=r"id|index|Class"):
            run(local(), tasks_of(ids_of(**{node: wrong})), MODELS[model], rounds=1, compute=Compute(backend=backend))


def test_of_all_splits_newcomers_and_new_samples(tmp_path):
    good, bad = ids_of(), ids_of(b=20)
    for split in ("val", "test"):
        with pytest.raises(IndexError, match="out of range"):
            run(local(), tasks_of(good, **{split: bad}), MODELS["layer"], rounds=1)
    result = run(fedavg(), tasks_of(good), MODELS["layer"], rounds=1)
    with pytest.raises(IndexError, match="out of range"):
        join(result, tasks_of(bad))
    result.save(tmp_path / "models")
    for models in (result, load(tmp_path / "models", model=result.model)):
        with raises("range", "samples", "'c'", "20", "0", "19"):
            models.predict("c", bad[1])
        assert len(models.predict("c", good[1])) == 30


def test_nodes_of_another_architecture_have_ids_of_their_own():
    models = [nn.Sequential(nn.Embedding(v, 4), nn.Flatten(), nn.Linear(24, 2)) for v in (20, 30)]
    run(local(), tasks_of(ids_of(b=29)), models, architecture=[0, 1, 0], rounds=1)
    with pytest.raises(IndexError, match="out of range"):
        run(local(), tasks_of(ids_of(b=30)), models, architecture=[0, 1, 0], rounds=1)


@pytest.mark.parametrize("wrong", [20, -1])
@pytest.mark.parametrize("table", [F.embedding, lambda x, w: torch.embedding(w, x)])
def test_no_id_is_looked_up_among_rows_of_another_node(wrong, table):
    class Masks(Model):  # ids of its own in training, as those that hide tokens have
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.masked_fill(x == 77, wrong) if self.training else x.clamp(max=19))

    with pytest.raises(IndexError, match="out of range"):
        run(
            local(batch_size=30),
            tasks_of(ids_of(b=77)),
            lambda: Masks(table),
            rounds=1,
            compute=Compute(backend="vmap"),
        )


def test_a_step_with_embeddings_is_that_of_plain_pytorch():
    ids, model = ids_of(), MODELS["layer"]()
    result = run(
        local(lr=0.5, batch_size=30, epochs=1, weight_decay=0.0),
        tasks_of(ids),
        model,
        rounds=1,
        compute=Compute(backend="vmap"),
    )
    for name, x in zip(NAMES, ids, strict=True):
        own = nn.Sequential(nn.Embedding(20, 4), nn.Flatten(), nn.Linear(24, 2))
        own.load_state_dict(model.state_dict())
        F.cross_entropy(own(x), LABELS).backward()
        torch.testing.assert_close(result.model(name)[0].weight, own[0].weight - 0.5 * own[0].weight.grad)


def test_numbers_of_other_nodes_are_not_filled():
    class Hides(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(x.float()).index_fill(0, x[0, :1], 0.0)

    x = torch.zeros(3, 8, 6, dtype=torch.int64)
    last = x.clone()
    last[1, :, 0] = -1  # hides the last sample of b, and nothing of others
    tasks = [Tasks.from_samples([(own, LABELS[:8]) for own in of], names=NAMES, val_fraction=0.0) for of in (x, last)]
    model, method = Hides(), local(batch_size=8, lr=0.5)
    one, other = (run(method, of, model, rounds=1, compute=Compute(backend="vmap")) for of in tasks)
    alone = run(method, tasks[1], model, rounds=1, compute=Compute(backend="loop"))
    for name in NAMES:
        torch.testing.assert_close(other.model(name).head.bias, alone.model(name).head.bias)
        assert torch.equal(one.model(name).head.bias, other.model(name).head.bias) == (name != "b")


def test_nor_by_an_objective():
    @dataclass(frozen=True)
    class ToRows(Objective):
        def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
            return context.mean((outputs - F.embedding(targets, context.params["weight"])).square().mean(1))

    x, y = torch.randn(20, 4), torch.arange(20) % 4
    other = y.clone()
    other[7] = 4
    none = Metric.per_node("none", False, lambda outputs, targets: 0.0)
    tasks = Tasks.from_samples([(x, y), (x, other), (x, y)], val_fraction=0.0, loss=ToRows(), metric=none)
    with pytest.raises(IndexError, match="out of range"):
        run(local(batch_size=20), tasks, nn.Linear(4, 4), rounds=1, compute=Compute(backend="vmap"))
