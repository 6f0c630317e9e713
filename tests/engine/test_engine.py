from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab.engine import SGD, Adam, Engine, LocalSteps, Objective, Rows, Stacks
from graphcollab.engine.losses import as_objective
from graphcollab.engine.objective import Reads, Sum
from graphcollab.engine.samples import take_samples
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods import local
from graphcollab.models import MLP, SplitModel
from graphcollab.testing import Scene

CROSS_ENTROPY = as_objective("cross_entropy")

KEY = {"seed": 0, "round_": 0}
FIT = {"batch_size": 3, "epochs": 2}


def test_fit_leaves_its_input_alone_and_reports_losses(make_engine):
    engine, models = make_engine()
    before = models.tensors[0].clone()
    fitted = engine.fit(Rows.own(models), LocalSteps(optimizer=SGD(lr=0.0), **FIT), **KEY)
    assert torch.equal(models.tensors[0], before)
    assert torch.equal(fitted.models.tensors[0], before)
    assert fitted.step.tolist() == [6, 4, 8, 4]
    assert fitted.told()[1].tolist() == [-1] * 4
    # steps of a pass hold 3, 3 and 1 samples: the mean over steps, not over samples
    assert torch.isfinite(fitted.told()[0]).all()


def test_a_row_is_any_model_on_any_nodes_data(make_engine):
    engine, models = make_engine()
    rows = Rows(models, node=torch.tensor([2, 0, 2]), index=torch.tensor([1, 3, 0]))
    losses, gradients = engine.grad(rows, "train")
    for r, (node, model) in enumerate([(2, 1), (0, 3), (2, 0)]):
        index = engine.tasks.splits["train"].of(node)
        pool, module = engine.tasks.pools["all"], engine.backends[0].module
        models.specs[0].load_into(module, models.tensors[0][model])
        module.zero_grad()
        loss = F.cross_entropy(module(pool.inputs[index]), pool.targets[index])
        loss.backward()
        torch.testing.assert_close(losses[r], loss.detach())
        torch.testing.assert_close(gradients[r], torch.cat([p.grad.flatten() for p in module.parameters()]))


def test_midpoints_and_mixtures(make_engine):
    engine, models = make_engine()
    x = models.tensors[0]
    rows = Rows(models, torch.tensor([0, 1]), torch.tensor([[0, 1], [2, 3]]), torch.tensor([[0.5, 0.5], [2.0, -1.0]]))
    plain = Stacks.single(models.specs[0], torch.stack([(x[0] + x[1]) / 2, 2 * x[2] - x[3]]))
    torch.testing.assert_close(engine.loss(rows, "val"), engine.loss(Rows.own(plain), "val"))
    torch.testing.assert_close(engine.grad(rows, "val"), engine.grad(Rows.own(plain), "val"))


def test_gradients_are_reduced_inside_a_chunk(make_engine):
    engine, models = make_engine(chunk=3)
    node = torch.arange(4)
    pairs = torch.cartesian_prod(node, node)
    rows, widths = Rows(models, pairs[:, 0], pairs[:, 1]), []

    def product(gradients, which):
        widths.append(len(gradients))
        return (gradients * models.tensors[0][pairs[which, 0]]).sum(1)

    _, all_at_once = engine.grad(rows, "val")
    _, scores = engine.grad(rows, "val", reduce=product)
    torch.testing.assert_close(scores, (all_at_once * models.tensors[0][pairs[:, 0]]).sum(1))
    assert max(widths) <= 3
    assert sum(widths) == 16


def test_gradient_of_a_part(make_engine):
    engine, models = make_engine(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)))
    _, whole = engine.grad(Rows.own(models), "val")
    _, head = engine.grad(Rows.own(models), "val", part="2")
    assert torch.equal(head, whole[:, 25:])


def test_many_samples_are_taken_a_few_at_a_time(make_engine, monkeypatch):
    engine, models = make_engine(sizes=(150, 70, 33))
    rows = Rows.own(models)
    whole = engine.grad(rows, "val"), engine.loss(rows, "val")
    monkeypatch.setattr(sys.modules[take_samples.__module__], "CPU_BATCH_BYTES", 1)
    torch.testing.assert_close((engine.grad(rows, "val"), engine.loss(rows, "val")), whole)


@dataclass(frozen=True)
class Ridge(Objective):
    """Cross-entropy and the squared length of the parameters."""

    alike: bool = False

    @property
    def reads(self):
        return Reads(whole=True, alike=self.alike)

    def __call__(self, outputs, targets, context):
        loss = context.mean(F.cross_entropy(outputs, targets, reduction="none"))
        return loss + sum(p.square().sum() for p in context.params.values())


@pytest.mark.parametrize("backend", ["vmap", "loop"])
@pytest.mark.parametrize("loss", [Ridge(), Ridge(alike=True), CROSS_ENTROPY + Ridge()])
def test_loss_and_gradient_agree_on_objectives_that_read_parameters(make_engine, monkeypatch, backend, loss):
    """The penalty counts once, also where samples are taken a few at a time."""
    engine, models = make_engine(sizes=(70, 40, 33), loss=loss, backend=backend)
    monkeypatch.setattr(sys.modules[take_samples.__module__], "CPU_BATCH_BYTES", 1)
    rows, plain = Rows.own(models), make_engine(sizes=(70, 40, 33))[0]
    losses, gradients = engine.grad(rows, "val")
    times = 2 if isinstance(loss, Sum) else 1
    x = models.tensors[0]
    torch.testing.assert_close(losses, times * plain.loss(rows, "val") + x.square().sum(1))
    torch.testing.assert_close(gradients, times * plain.grad(rows, "val")[1] + 2 * x)
    torch.testing.assert_close(engine.loss(rows, "val"), losses)


def test_predict_masks_padding_and_skips_nodes_without_samples(make_engine):
    engine, models = make_engine(sizes=(3, 0 + 1, 2), chunk=1)
    seen = {}
    for chunk in engine.predict(Rows.own(models), "val"):
        for row, outputs, targets, mask in zip(chunk.rows, chunk.outputs, chunk.targets, chunk.mask, strict=True):
            seen[int(row)] = int(mask.sum())
            own = engine.tasks.splits["val"].of(int(row))
            assert torch.equal(targets[mask], engine.tasks.pools["all"].targets[own])
            assert outputs.shape[-1] == 3
    assert seen == {0: 2, 1: 1, 2: 3}


@pytest.mark.parametrize("backend", ["vmap", "loop"])
@pytest.mark.parametrize("chunk", [1, 3, 4])
def test_predict_yields_latents_and_projections(make_engine, monkeypatch, backend, chunk):
    """In evaluation mode, of any model on any node's samples, however few are taken at a time."""
    module = SplitModel(nn.Linear(4, 5), (4,), 3, latent=6, projection=7)  # with batch normalization
    engine, models = make_engine(module, backend=backend, chunk=chunk, sizes=(70, 4, 10, 5))
    monkeypatch.setattr(sys.modules[take_samples.__module__], "CPU_BATCH_BYTES", 1)  # then 32 at a time
    rows = Rows(models, node=torch.tensor([2, 0, 3, 1]), index=torch.tensor([1, 3, 0, 2]))
    seen = []
    for out in engine.predict(rows, "train", embed=True):
        plain = [o for o in engine.predict(rows, "train") if torch.equal(o.rows, out.rows)]
        torch.testing.assert_close(out.outputs, plain[0].outputs)
        assert (plain[0].latent, plain[0].projection) == (None, None)
        for r, row in enumerate(out.rows.tolist()):
            node, model = int(rows.node[row]), int(rows.index[row])
            models.specs[0].load_into(module, models.tensors[0][model])
            inputs = engine.tasks.pools["all"].inputs[engine.tasks.splits["train"].of(node)]
            with torch.no_grad():
                expected = module.eval()(inputs, embed=True)
            real = out.mask[r]
            assert int(real.sum()) == len(inputs)
            for name, got in (("logits", out.outputs), ("latent", out.latent), ("projection", out.projection)):
                torch.testing.assert_close(got[r][real], getattr(expected, name))
            seen.append(row)
    assert sorted(seen) == [0, 1, 2, 3]


def test_predict_yields_latents_of_several_architectures():
    scene = Scene.small(shared_head=True, embeds=True)
    data, env = scene.begin(local())
    found = {int(r): out for out in env.engine.predict(Rows.own(data.x), "train", embed=True) for r in out.rows}
    assert sorted(found) == list(range(6))
    assert {(out.latent.shape[2], out.projection.shape[2]) for out in found.values()} == {(5, 4)}


def test_predict_of_a_model_without_latents(make_engine):
    engine, models = make_engine()
    with pytest.raises(TypeError, match="embed"):
        list(engine.predict(Rows.own(models), "train", embed=True))


def test_loss_is_nan_where_a_node_has_no_samples(make_engine):
    engine, models = make_engine()
    losses = engine.loss(Rows.own(models), "val")
    assert torch.isfinite(losses).all()
    splits = dict(engine.tasks.splits)
    lists = [torch.tensor(places, dtype=torch.int64) for places in ([0, 1], [], [2], [])]
    splits["test"] = type(splits["val"]).from_lists("all", lists)
    engine.tasks = type(engine.tasks)(engine.tasks.pools, splits)
    for loss in ("cross_entropy", F.cross_entropy):
        engine.objective = as_objective(loss)
        assert torch.isfinite(engine.loss(Rows.own(models), "test")).tolist() == [True, False, True, False]


@pytest.mark.parametrize("backend", ["vmap", "loop"])
@pytest.mark.parametrize("optimizer", [SGD(lr=0.1, momentum=0.9), Adam(lr=0.05)], ids=["sgd", "adam"])
def test_results_do_not_depend_on_chunk_or_order_of_rows(make_engine, backend, optimizer):
    engine, models = make_engine(backend=backend, chunk=4)
    whole = engine.fit(Rows.own(models), LocalSteps(optimizer=optimizer, **FIT), **KEY)
    for chunk, order in ((1, [0, 1, 2, 3]), (3, [2, 0, 3, 1]), (2, [3, 1]), (4, [1, 3, 2])):
        other, _ = make_engine(backend=backend, chunk=chunk)
        nodes = torch.tensor(order)
        some = other.fit(Rows.own(models, nodes), LocalSteps(optimizer=optimizer, **FIT), **KEY)
        torch.testing.assert_close(some.models.tensors[0], whole.models.tensors[0][nodes], rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(some.told()[0], whole.told()[0][nodes], rtol=1e-12, atol=1e-13)
        for slot in optimizer.slots:
            torch.testing.assert_close(some.slots[slot].tensors[0], whole.slots[slot].tensors[0][nodes])


def test_rows_with_other_step_counts_take_their_own_corrections(make_engine):
    """Adam's bias correction follows every row's own count of steps, not the chunk's."""
    optimizer = Adam(lr=0.05)
    steps = LocalSteps(batch_size=3, optimizer=optimizer)
    for backend in ("vmap", "loop"):
        engine, models = make_engine(backend=backend)
        # nodes 0 and 2 have trained a round before, 1 and 3 rested
        ahead = torch.tensor([0, 2])
        first = engine.fit(Rows.own(models, ahead), steps, seed=0, round_=0)
        x, step = models.tensors[0].clone(), torch.zeros(4, dtype=torch.int64)
        x[ahead], step[ahead] = first.models.tensors[0], first.step
        state = {
            s: models.like([torch.zeros_like(x).index_copy(0, ahead, first.slots[s].tensors[0])])
            for s in optimizer.slots
        }
        together = engine.fit(Rows.own(models.like([x])), steps, seed=0, round_=1, slots=state, step=step)
        for node in range(4):
            alone = torch.tensor([node])
            own = {s: Stacks.single(models.specs[0], v.tensors[0][alone]) for s, v in state.items()}
            rows = Rows.own(models.like([x]), alone)
            one = engine.fit(rows, steps, seed=0, round_=1, slots=own, step=step[alone])
            torch.testing.assert_close(
                together.models.tensors[0][node], one.models.tensors[0][0], rtol=1e-12, atol=1e-13
            )
        assert together.step.tolist() == [6, 2, 8, 2]


def test_two_architectures_are_computed_by_their_own_backends():
    scene = Scene.small(shared_head=True)
    data, env = scene.begin(local())
    engine: Engine = env.engine
    rows = Rows.own(data.x)
    losses, head = engine.grad(rows, "val", part="head")
    assert head.shape == (6, 21)
    for node in range(6):
        spec, row = data.x.row(node)
        module = spec.load_into(MLP(4, ((7, 6), (6,))[node % 2], 3).double(), row)
        index = scene.tasks.splits["val"].of(node)
        pool = scene.tasks.pools["train"]
        loss = F.cross_entropy(module(pool.inputs[index]), pool.targets[index])
        loss.backward()
        torch.testing.assert_close(losses[node], loss.detach())
        torch.testing.assert_close(head[node], torch.cat([p.grad.flatten() for p in module.head.parameters()]))
    some = torch.tensor([5, 2, 1])
    whole = engine.fit(rows, LocalSteps(optimizer=SGD(lr=0.1), **FIT), **KEY)
    part = engine.fit(Rows.own(data.x, some), LocalSteps(optimizer=SGD(lr=0.1), **FIT), **KEY)
    for position, node in enumerate(some.tolist()):
        torch.testing.assert_close(part.models.row(position)[1], whole.models.row(node)[1])


def test_no_rows(make_engine):
    engine, models = make_engine()
    none = torch.empty(0, dtype=torch.int64)
    width = models.specs[0].num_parameters
    rows = Rows.own(models, none)
    assert [found.shape for found in engine.grad(rows, "val")] == [(0,), (0, width)]
    assert engine.grad(rows, "val", reduce=lambda gradients, rows: gradients[:, 0])[1].shape == (0,)
    assert engine.batch_gradient(rows, seed=0, round_=0, batch_size=2)[1].shape == (0, width)


def test_stored_plans_are_repeated(make_engine):
    engine, models = make_engine(backend="loop", chunk=2)
    again = Engine(engine.tasks, [engine.backends[0].module], models.specs, plans=engine.plans)
    assert again.plans == engine.plans
    assert again.backends[0].name == "loop"


def test_specs_follow_modules(make_engine):
    engine, _ = make_engine()
    with pytest.raises(ValueError, match="zip"):
        Engine(engine.tasks, [engine.backends[0].module] * 2, [ParamSpec.from_module(engine.backends[0].module)])
