from __future__ import annotations

import copy
import re
import threading
import warnings

import pytest
import torch
from torch import nn

from graphcollab._base.typing import Embedded
from graphcollab.engine import Loss, choice, stacked
from graphcollab.engine.choice import backend_of, check_plan, make_plan
from graphcollab.engine.losses import as_objective
from graphcollab.engine.plan import Plan
from graphcollab.engine.stack import ParamSpec
from graphcollab.models import MLP
from graphcollab.models.classifiers import fedavg_cnn
from tests.raising import raises, warns

CROSS_ENTROPY = as_objective("cross_entropy")
SQUARED_ERROR = as_objective("mse")


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, 4, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, inputs):
        return self.head(self.lstm(inputs)[0][:, -1])


class Branching(nn.Module):
    """Branches on its input's values, which vmap cannot."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 3)

    def forward(self, inputs):
        return self.head(inputs if bool(inputs.sum() > 0) else -inputs)


class Functional(nn.Module):
    """Drops units by a function, which no list of layers shows."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 3)

    def forward(self, inputs):
        return nn.functional.dropout(self.head(inputs), 0.5, self.training)


class Replacing(nn.Module):
    """Assigns its buffer anew, which a stacked forward pass loses."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, inputs):
        if self.training:
            self.seen = self.seen + 1
        return self.head(inputs)


class Splits(nn.Module):
    """Its latents go through another module, where they are asked for."""

    def __init__(self, projection):
        super().__init__()
        self.head, self.projection = nn.Linear(2, 3), projection

    def forward(self, inputs, embed=False):
        logits = self.head(inputs)
        return Embedded(logits, inputs, self.projection(inputs)) if embed else logits


class UnlessPositive(nn.Module):
    """Branches on its input's values."""

    def forward(self, inputs):
        return inputs if bool(inputs.sum() > 0) else -inputs


def plan(module, shape=(2,), objective=None, **settings):
    sample = torch.zeros(1, *shape), torch.zeros(1, dtype=torch.int64)
    return make_plan(module, ParamSpec.from_module(module), sample, objective or CROSS_ENTROPY, **settings)


@pytest.mark.parametrize(
    ("module", "shape", "backend", "reason"),
    [
        (MLP(2, 4, 3), (2,), "vmap", "all layers have a stacked form"),
        (Recurrent(), (5, 2), "loop", "LSTM has no stacked form"),
        (nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5), nn.Linear(4, 3)), (2,), "loop", "keyed per node"),
        (nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.0), nn.Linear(4, 3)), (2,), "vmap", "stacked form"),
        (Functional(), (2,), "loop", "keyed per node"),
        (Splits(nn.BatchNorm1d(2)), (2,), "vmap", "stacked form"),
        (Splits(nn.Dropout(0.5)), (2,), "loop", "keyed per node"),
        (Splits(UnlessPositive()), (2,), "loop", "no stacked form: vmap"),
        (Splits(nn.BatchNorm1d(2, momentum=None)), (2,), "loop", "no stacked form: .*item"),
        (nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)), (2,), "vmap", "stacked form"),
        (nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8, momentum=None)), (2,), "loop", "no stacked form: .*item"),
        (Replacing(), (2,), "loop", "no stacked form: its buffers after a step"),
        (fedavg_cnn((1, 16, 16), 3), (1, 16, 16), "loop", "Conv2d on a CPU"),
        (Branching(), (2,), "loop", "no stacked form: .*data-dependent control flow"),
    ],
)
def test_rule(module, shape, backend, reason):
    chosen = plan(module, shape)
    assert chosen.backend == backend
    assert re.search(reason, chosen.reason)


def test_a_loss_without_a_stacked_form():
    def loss(outputs, targets):
        return outputs.sum() if float(outputs.detach().sum()) > 0 else -outputs.sum()

    assert plan(MLP(2, 4, 3), objective=Loss(loss)).backend == "loop"


def test_chunks_follow_the_size_of_a_model(monkeypatch):
    assert plan(MLP(2, 4, 3)).chunk == 8 * 2**20 // (4 * 27)
    assert plan(MLP(2, 4, 3), chunk=5).chunk == 5
    monkeypatch.setattr(choice, "CPU_CHUNK_BYTES", 4 * 27 - 1)
    assert plan(MLP(2, 4, 3)).chunk == 1


def test_asking_for_a_backend():
    assert plan(fedavg_cnn((1, 16, 16), 3), (1, 16, 16), backend="vmap").reason == "asked for"
    assert plan(MLP(2, 4, 3), backend="loop").reason == "asked for"
    with raises("unsupported", "backend", "'loop'", "'auto'"):
        plan(Recurrent(), (5, 2), backend="vmap")


def test_planning_leaves_module_and_generator_alone():
    module = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)).eval()
    before, generator = copy.deepcopy(module.state_dict()), torch.get_rng_state()
    for backend in ("auto", "vmap"):
        plan(module, backend=backend)
    assert torch.equal(torch.get_rng_state(), generator)
    assert not module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"backend": "jit"}, ("unknown", "backend", "'jit'")),
        ({"chunk": 0}, ("value", "chunk")),
    ],
)
def test_refusals(settings, wanted):
    with raises(*wanted):
        plan(MLP(2, 4, 3), **settings)


# What a plan is tried on, and what becomes of it.


def tokens(**settings):
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(5, 4, **settings), nn.Linear(8, 3)

        def forward(self, inputs):
            return self.head(self.table(inputs).flatten(1))

    return Words(), (torch.tensor([[1, 0], [2, 1], [3, 3], [0, 4], [1, 1]]), torch.tensor([0, 1, 2, 0, 1]))


def plan_of(module, sample, backend="auto"):
    return make_plan(module, ParamSpec.from_module(module), sample, CROSS_ENTROPY, backend)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"padding_idx": 0}, "an embedding's padding_idx is trained under vmap"),
        ({"scale_grad_by_freq": True}, "counts the tokens of all nodes"),
        ({"max_norm": 0.1}, "changes its weights in the forward pass"),
    ],
)
def test_embeddings_that_do_more_than_look_up(settings, reason):
    module, sample = tokens(**settings)
    chosen = plan_of(module, sample)
    assert chosen.backend == "loop"
    assert reason in chosen.reason
    with raises("unsupported", "backend", "Words", reason):
        plan_of(module, sample, "vmap")


def test_a_stored_plan_is_checked():
    module, sample = tokens(padding_idx=0)
    spec = ParamSpec.from_module(module)
    check_plan(Plan("loop", 3, "stored"), module, spec, sample, CROSS_ENTROPY)
    with raises("mismatch", "plan"):
        check_plan(Plan("vmap", 3, "stored"), module, spec, sample, CROSS_ENTROPY)
    stacked = Scaled(2, 3)
    sample = torch.randn(5, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0, 1])
    with raises("unsupported", "backend", "'vmap'"):
        check_plan(Plan("vmap", 3, "stored"), stacked, ParamSpec.from_module(stacked), sample, CROSS_ENTROPY)
    check_plan(Plan("loop", 3, "stored"), stacked, ParamSpec.from_module(stacked), sample, CROSS_ENTROPY)
    centered = Centered(2, 3)
    with raises("mismatch", "plan", "'always'"):
        check_plan(Plan("vmap", 3, "stored"), centered, ParamSpec.from_module(centered), sample, CROSS_ENTROPY)


class Scaled(nn.Linear):
    """Scales a gradient by its own length."""

    def forward(self, inputs):
        outputs = super().forward(inputs)
        if outputs.requires_grad:
            outputs.register_hook(lambda grad: grad / grad.norm())
        return outputs


class Centered(nn.Linear):
    def forward(self, inputs):
        return super().forward(inputs - inputs.mean(0))


class Counts(nn.Linear):
    """Counts its calls, and makes nothing of it."""

    calls = 0

    def forward(self, inputs):
        self.calls += 1
        return super().forward(inputs)


def test_a_count_that_nodes_would_share_is_mentioned():
    with warns("contract", "attribute 'calls'", "Counts"):
        plan(Counts(2, 3))


def test_rounding_is_no_difference():
    """Batch normalization of two alike samples blows rounding up; it stays stacked."""
    module = nn.Sequential(nn.Linear(2, 50), nn.BatchNorm1d(50), nn.Tanh(), nn.Linear(50, 50), nn.BatchNorm1d(50))
    sample = torch.full((5, 2), 0.1) + 1e-5 * torch.arange(10).view(5, 2), torch.tensor([0, 1, 2, 0, 1])
    assert plan_of(nn.Sequential(*module, nn.Linear(50, 3)), sample).backend == "vmap"


def test_chains_with_a_patched_forward_are_none():
    module = MLP(2, 4, 3)
    module.head.forward = lambda inputs: nn.functional.linear(inputs, torch.ones(3, 4))
    chosen = make_plan(module, ParamSpec.from_module(module), (torch.randn(5, 2), torch.arange(5) % 3), CROSS_ENTROPY)
    inputs = torch.randn(2, 4, 2)
    flat = ParamSpec.from_module(module).flatten(module).repeat(2, 1)
    outputs = backend_of(chosen, module, ParamSpec.from_module(module)).predict(flat, inputs)
    torch.testing.assert_close(outputs, torch.stack([module(own).detach() for own in inputs]))


def noisy(outputs, targets):
    return nn.functional.cross_entropy(outputs + 0.1 * torch.randn_like(outputs), targets)


@pytest.mark.parametrize("module", [MLP(2, 4, 3), nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4), nn.Linear(4, 3))])
def test_losses_that_draw_random_numbers_are_keyed_per_node(module):
    chosen = plan(module, objective=Loss(noisy))
    assert (chosen.backend, chosen.padding) == ("loop", "evaluation")
    assert "keyed per node" in chosen.reason
    assert plan(module, objective=Loss(noisy), backend="vmap").backend == "vmap"
    centered = Centered(2, 3)
    sample = torch.randn(5, 2, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0, 1])
    assert make_plan(centered, ParamSpec.from_module(centered), sample, Loss(noisy)).padding == "never"


def test_chains_are_tried_too(monkeypatch):
    module, sample = (
        nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3)),
        (torch.randn(5, 2), torch.arange(5) % 3),
    )
    spec = ParamSpec.from_module(module)
    assert make_plan(module, spec, sample, CROSS_ENTROPY).backend == "vmap"
    whole = stacked.stacked_linear
    monkeypatch.setattr(stacked, "stacked_linear", lambda *inputs: 1.01 * whole(*inputs))
    plan = make_plan(module, spec, sample, CROSS_ENTROPY)
    assert (plan.backend, plan.reason) == (
        "loop",
        "no stacked form: its outputs differ from plain PyTorch's",
    )


class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, inputs):
        return self.head(self.first(inputs).relu())


def test_numbers_that_overflow_are_no_difference():
    inputs = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    inputs[:2] *= 1e25  # another node's are as they should be
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = TwoLayers()
    make_plan(module, ParamSpec.from_module(module), (inputs, torch.zeros(5, 2)), SQUARED_ERROR)


def test_plans_made_in_two_threads_at_once_are_those_made_alone(monkeypatch):
    """One thread's model is computed row by row; what PyTorch says of that must reach its own plan only."""

    class Products(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Bilinear(4, 4, 3)

        def forward(self, inputs):
            return self.body(inputs, inputs)

    wide = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    sample, plans, before = (torch.randn(5, 4), torch.arange(5) % 3), set(), list(warnings.filters)
    both, whole = threading.Barrier(2, timeout=60), choice.Trial.difference

    def together(trial, backend):
        """Begin and end the trial under vmap while the other thread is in its own."""
        if backend.name == "loop":
            return whole(trial, backend)
        both.wait()
        try:
            return whole(trial, backend)
        finally:
            both.wait()

    def work(module):
        for _ in range(12):
            made = make_plan(module, ParamSpec.from_module(module), sample, CROSS_ENTROPY)
            plans.add((type(module).__name__, made.backend, made.reason))

    monkeypatch.setattr(choice.Trial, "difference", together)
    workers = [threading.Thread(target=work, args=(module,)) for module in (Products(), wide)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert plans == {
        ("Products", "loop", "no stacked form: vmap computes aten::bilinear row by row"),
        ("Sequential", "vmap", "all layers have a stacked form"),
    }
    assert warnings.filters == before


def test_a_loss_that_writes_its_targets_is_blamed_and_not_the_model():
    def loss(outputs, targets):
        value = nn.functional.cross_entropy(outputs, targets)
        targets.fill_(0)
        return value

    with raises("contract", "loss"):
        plan(nn.Linear(2, 3), objective=Loss(loss))
