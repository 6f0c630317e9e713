"""Training and evaluation with weights of samples: by hand, against repeated samples, and against plain PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab import Tasks
from graphcollab.data.samples import Pool, Split
from graphcollab.data.schedule import make_schedule
from graphcollab.engine import (
    SGD,
    AddNoise,
    Engine,
    LocalSteps,
    Loss,
    Objective,
    Proximal,
    Rows,
    Stacks,
    SupervisedContrast,
    Views,
)
from graphcollab.engine.contrastive import PrototypeContrast
from graphcollab.engine.losses import as_objective
from graphcollab.engine.objective import Context, FirstView, require_weighted
from graphcollab.engine.stack import ParamSpec
from tests.raising import raises

SIZES = (7, 4, 10, 5)
KEY = {"seed": 3, "round_": 2}
CLOSE = {"rtol": 1e-9, "atol": 1e-10}


def mlp():
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))


class Skip(nn.Module):
    """No chain."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, inputs):
        return self.second(inputs + torch.tanh(self.first(inputs)))


def batch_norm():
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))


def with_weights(engine, weight):
    """The same engine, whose samples have weights."""
    pools = {name: replace(pool, weight=weight) for name, pool in engine.tasks.pools.items()}
    backend = engine.backends[0]
    tasks = replace(engine.tasks, pools=pools)
    return Engine(tasks, [backend.module], [backend.spec], backend=engine.plans[0].backend)


def weights():
    weight = torch.rand(sum(SIZES), generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    weight[::5] = 0
    return weight


def repeated(engine, counts):
    """The same engine, whose samples have no weights and come several times."""
    splits = {}
    for name, split in engine.tasks.splits.items():
        own = [split.of(k) for k in range(split.num_nodes)]
        splits[name] = Split.from_lists(split.pool, [index.repeat_interleave(counts[index]) for index in own])
    backend = engine.backends[0]
    tasks = replace(engine.tasks, splits=splits)
    return Engine(tasks, [backend.module], [backend.spec], backend=engine.plans[0].backend)


both = pytest.mark.parametrize("backend", ["vmap", "loop"])
modules = pytest.mark.parametrize("module", [mlp, Skip, batch_norm])


@both
def test_two_steps_by_hand(backend):
    """Model θ · x, x = 1, loss (θ - y)²: with mean target 3 of (1, 5, 5) by weights (2, 2, 0), θ ← θ - 0.2 (θ - 3)."""
    pool = Pool(torch.ones(3, 1), torch.tensor([1.0, 5.0, 5.0]), torch.tensor([2.0, 2.0, 0.0]))
    tasks = Tasks({"p": pool}, {"train": Split.from_lists("p", [torch.arange(3)])}, loss="mse", metric="mse")
    module = nn.Linear(1, 1, bias=False)
    spec = ParamSpec.from_module(module)
    engine, models = Engine(tasks, [module], [spec], backend=backend), Stacks.single(spec, torch.zeros(1, 1))
    fitted = engine.fit(Rows.own(models), LocalSteps(steps=2, batch_size=3, optimizer=SGD(lr=0.1)), **KEY)
    assert float(fitted.models.tensors[0]) == pytest.approx(0.6 + 0.2 * 2.4)
    assert float(fitted.told()[0]) == pytest.approx((13 + (0.4**2 + 4.4**2) / 2) / 2)
    assert float(engine.loss(Rows.own(models), "train")) == pytest.approx(13)
    loss, gradient = engine.grad(Rows.own(models), "train")
    assert (float(loss), float(gradient)) == pytest.approx((13, -6))


@both
@modules
def test_whole_weights_are_repetitions(make_engine, backend, module):
    """With full batches; batch normalization sees the samples beside it, so there none is repeated unequally."""
    counts = torch.arange(sum(SIZES)) % 3 if module is not batch_norm else torch.full((sum(SIZES),), 2)
    engine, models = make_engine(module(), backend=backend)
    weighted, again, rows = with_weights(engine, 0.4 * counts.double()), repeated(engine, counts), Rows.own(models)
    steps = LocalSteps(steps=3, batch_size=100, optimizer=SGD(lr=0.3, momentum=0.9))
    found, expected = (one.fit(rows, steps, **KEY) for one in (weighted, again))
    torch.testing.assert_close(found.models.part("all"), expected.models.part("all"), **CLOSE)
    torch.testing.assert_close(found.told()[0], expected.told()[0], **CLOSE)
    for split in ("train", "val"):
        torch.testing.assert_close(weighted.loss(rows, split), again.loss(rows, split), **CLOSE)
        torch.testing.assert_close(weighted.grad(rows, split), again.grad(rows, split), **CLOSE)
    found, expected = (one.batch_gradient(rows, **KEY, batch_size=100)[:2] for one in (weighted, again))
    torch.testing.assert_close(found, expected, **CLOSE)


def plain_steps(engine, models, size, epochs):
    """Train every node's module by torch.optim: batches of (1 / B) Σ w l, w scaled to 1 on average at the node."""
    spec, pool, split, rows = models.specs[0], engine.tasks.pools["all"], engine.tasks.splits["train"], []
    schedule = make_schedule(split.sizes, engine.tasks.ids, 3, 2, size, epochs)
    for node, row in enumerate(models.tensors[0]):
        module = spec.load_into(engine.backends[0].module, row).train()
        for parameter in module.parameters():
            parameter.data = parameter.data.clone()
        own = pool.weight[split.of(node)]
        stepper = torch.optim.SGD(module.parameters(), lr=0.2)
        for step in range(int(schedule.steps[node])):
            place = schedule.position[node, step, : int(schedule.size[node, step])]
            batch = split.of(node)[place]
            losses = F.cross_entropy(module(pool.inputs[batch]), pool.targets[batch], reduction="none")
            stepper.zero_grad()
            ((own / own.mean())[place] * losses).mean().backward()
            stepper.step()
        rows.append(spec.flatten(module))
    return torch.stack(rows)


@both
@modules
@pytest.mark.parametrize("size", [2, 3, 100])
def test_small_batches_against_plain_pytorch(make_engine, backend, module, size):
    sizes = (12, 6, 18, 6) if module is batch_norm else SIZES  # never a batch of one sample
    engine, models = make_engine(module(), backend=backend, sizes=sizes)
    weight = torch.rand(len(engine.tasks.pools["all"]), generator=torch.Generator().manual_seed(1)).double()
    weight[3] = 0
    engine = with_weights(engine, 5 * weight)
    expected = plain_steps(engine, models, size, 2)
    found = engine.fit(Rows.own(models), LocalSteps(epochs=2, batch_size=size, optimizer=SGD(lr=0.2)), **KEY)
    torch.testing.assert_close(found.models.tensors[0], expected, **CLOSE)


@pytest.mark.parametrize("chunk", [1, 3])
def test_backends_and_chunks_agree(make_engine, chunk):
    found = []
    for settings in ({"backend": "vmap"}, {"backend": "loop"}, {"backend": "vmap", "chunk": chunk}):
        engine, models = make_engine(Skip(), **settings)
        rows, engine = Rows.own(models), with_weights(engine, weights())
        gradient = engine.batch_gradient(rows, **KEY, batch_size=3)[1]
        noisy = {"views": Views(AddNoise(0.1), 2), "objective": as_objective("cross_entropy") + Proximal(0.1)}
        steps = LocalSteps(batch_size=3, optimizer=SGD(lr=0.1))
        fitted = [engine.fit(rows, steps, **KEY, anchor=models, **more) for more in ({}, noisy)]
        found.append((gradient, engine.loss(rows, "val"), *(one.models.tensors[0] for one in fitted)))
    torch.testing.assert_close(found[0], found[1], **CLOSE)
    torch.testing.assert_close(found[0], found[2], **CLOSE)


@both
def test_views_share_the_weight_of_their_sample(make_engine, backend):
    """Views that are the samples themselves train like the samples, and so does the first view alone."""
    engine, models = make_engine(backend=backend)
    engine, rows = with_weights(engine, weights()), Rows.own(models)
    steps = LocalSteps(batch_size=3, optimizer=SGD(lr=0.1))
    plain = engine.fit(rows, steps, **KEY).models.tensors[0]
    for objective in (None, FirstView(as_objective("cross_entropy"))):
        found = engine.fit(rows, steps, **KEY, views=Views(None, 2), objective=objective).models.tensors[0]
        torch.testing.assert_close(found, plain, **CLOSE)


def test_only_ratios_matter_and_equal_weights_change_nothing(make_engine):
    engine, models = make_engine()
    rows, steps = Rows.own(models), LocalSteps(batch_size=3, optimizer=SGD(lr=0.1))
    plain, *others = (
        one.fit(rows, steps, **KEY).models.tensors[0]
        for one in (
            engine,
            with_weights(engine, torch.full((sum(SIZES),), 7.0)),
            *(with_weights(engine, c * weights()) for c in (1.0, 1e6)),
        )
    )
    torch.testing.assert_close(others[0], plain, **CLOSE)
    torch.testing.assert_close(others[1], others[2], **CLOSE)
    assert (others[1] - plain).abs().max() > 0.01


def test_gradients_of_batches_are_unbiased(make_engine):
    """An epoch's batches of one length have the whole sample's gradient as their mean."""
    draw, nodes = torch.Generator().manual_seed(0), 300  # which draw their batches independently, of the same samples
    inputs, targets = torch.randn(6, 4, generator=draw).double(), torch.randint(3, (6,), generator=draw)
    engine, models = make_engine(
        sizes=(6,) * nodes, inputs=inputs.repeat(nodes, 1), targets=targets.repeat(nodes), backend="vmap"
    )
    engine = with_weights(engine, torch.tensor([0.0, 5.0, 1.0, 1.0, 2.0, 0.5]).repeat(nodes))
    models = models.like([models.tensors[0][:1].repeat(nodes, 1)])
    rows = Rows.own(models)
    steps = LocalSteps(steps=1, batch_size=2, optimizer=SGD(lr=1.0))
    draws = torch.cat([
        models.tensors[0] - engine.fit(rows, steps, seed=seed, round_=0).models.tensors[0] for seed in range(10)
    ])  # fmt: skip
    torch.testing.assert_close(draws.mean(0), engine.grad(rows, "train")[1][0], rtol=0, atol=0.03)


def test_many_samples_a_few_at_a_time(make_engine, monkeypatch):
    monkeypatch.setattr("graphcollab.engine.samples.CPU_BATCH_BYTES", 1)
    engine, models = make_engine(sizes=(90, 40))
    engine = with_weights(engine, torch.rand(130, generator=torch.Generator().manual_seed(2)).double())
    pool, split = engine.tasks.pools["all"], engine.tasks.splits["train"]
    losses, gradients = engine.grad(Rows.own(models), "train")
    for node in (0, 1):
        module, own = models.specs[0].load_into(engine.backends[0].module, models.tensors[0][node]), split.of(node)
        loss = F.cross_entropy(module(pool.inputs[own]), pool.targets[own], reduction="none")
        loss = (pool.weight[own] * loss).sum() / pool.weight[own].sum()
        expected = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(module.parameters()))])
        torch.testing.assert_close(gradients[node], expected, **CLOSE)
        torch.testing.assert_close(losses[node], loss.detach(), **CLOSE)
    torch.testing.assert_close(engine.loss(Rows.own(models), "train"), losses, **CLOSE)


def test_single_precision(make_engine):
    engine, models = make_engine(dtype=torch.float32)
    found = with_weights(engine, weights()).fit(Rows.own(models), LocalSteps(batch_size=3), **KEY)
    assert found.models.tensors[0].dtype == torch.float32


@dataclass(frozen=True)
class Deaf(Objective):
    """Averages by itself and does not say so."""

    def __call__(self, outputs, targets, context):
        return F.cross_entropy(outputs, targets)


def test_losses_that_do_not_heed_weights_are_refused(make_engine):
    own = lambda outputs, targets: F.cross_entropy(outputs, targets)  # noqa: E731
    engine, _ = make_engine()
    tasks = replace(engine.tasks, pools={"all": replace(engine.tasks.pools["all"], weight=weights())}, loss=own)
    with raises("contract", "loss"):
        Engine(tasks, [engine.backends[0].module], [engine.backends[0].spec])
    draw = torch.Generator().manual_seed(0)
    outputs, targets = torch.randn(2, 3, generator=draw), torch.tensor([0, 1])
    context = Context(None, {"w": torch.ones(2)}, {"w": torch.zeros(2)})
    with raises("contract", "objective"):
        require_weighted(Deaf(), outputs, targets, context)
    with raises("contract", "objective"):
        require_weighted(Proximal(0.1) + Deaf(), outputs, targets, context)
    heeds = Loss(nn.CrossEntropyLoss(reduction="none"), per_sample=True)
    for objective in (heeds, as_objective("cross_entropy"), Proximal(0.3), 2.0 * heeds + Proximal(0.1)):
        require_weighted(objective, outputs, targets, context)


def contrast_context(weight, draw):
    latent = torch.randn(6, 4, generator=draw)
    return Context(weight, {"prototypes": torch.randn(2, 4, generator=draw)}, latent=latent, projection=latent)


@pytest.mark.parametrize("objective", [SupervisedContrast(), PrototypeContrast()])
def test_contrast_leaves_out_samples_of_weight_0(objective):
    targets, outputs = torch.tensor([0, 1, 0, 1, 0, 0]), torch.zeros(6, 2)
    weight = torch.tensor([0.3, 0.2, 0.4, 0.1, 0.0, 0.0])
    context = contrast_context(weight, torch.Generator().manual_seed(0))
    fewer = replace(context, weight=weight[:4], latent=context.latent[:4], projection=context.projection[:4])
    found = objective(outputs, targets, context)
    torch.testing.assert_close(found, objective(outputs[:4], targets[:4], fewer))
    even = replace(fewer, weight=torch.full((4,), 0.25))
    plain = replace(fewer, weight=None)
    torch.testing.assert_close(objective(outputs[:4], targets[:4], even), objective(outputs[:4], targets[:4], plain))
    require_weighted(
        objective, outputs[:2], targets[:2], replace(plain, latent=context.latent[:2], projection=context.latent[:2])
    )


def test_the_terms_of_contrast_are_weighted():
    """By single terms: with all weight on one of them, the mean is that term times the weight."""
    targets, outputs = torch.tensor([0, 1, 0, 1]), torch.zeros(4, 2)
    draw = torch.Generator().manual_seed(0)
    context = contrast_context(None, draw)
    context = replace(context, projection=context.projection[:4])
    nearly = torch.full((4, 4), 1e-12).fill_diagonal_(1.0)  # 0 would leave a sample out
    terms = torch.stack([SupervisedContrast()(outputs, targets, replace(context, weight=w)) for w in nearly])
    weight = torch.tensor([0.1, 0.5, 0.2, 0.4])
    found = SupervisedContrast()(outputs, targets, replace(context, weight=weight))
    torch.testing.assert_close(found, (weight * terms).sum())
