"""The compiled local steps against plain PyTorch, node by node and step by step."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab._base.threads import same_threads
from graphcollab.data.samples import Pool
from graphcollab.data.schedule import Schedule
from graphcollab.engine import SGD, Adam, LocalSteps, Loss, Proximal, Rows, dense_steps, vmap_backend
from graphcollab.engine.choice import make_plan
from graphcollab.engine.dense_steps import INSTRUCTIONS, Dense, dense_layers, take_dense_steps
from graphcollab.engine.losses import as_objective
from graphcollab.engine.samples import Feed
from graphcollab.engine.stack import ParamSpec
from graphcollab.engine.stacked import make_chain
from tests.raising import raises

pytestmark = pytest.mark.skipif(not INSTRUCTIONS, reason="this machine had no compiler when the package was built")

CROSS_ENTROPY = as_objective("cross_entropy")
FIT = {"seed": 0, "round_": 3}
MODULES = {
    "one layer": lambda: nn.Linear(4, 3),
    "no bias": lambda: nn.Sequential(nn.Linear(4, 21, bias=False), nn.ReLU(), nn.Linear(21, 3)),
    "three layers": lambda: nn.Sequential(nn.Linear(4, 33), nn.Linear(33, 70), nn.ReLU(), nn.Linear(70, 3, bias=False)),
    "in place": lambda: nn.Sequential(nn.Flatten(), nn.Linear(4, 9), nn.ReLU(inplace=True), nn.Linear(9, 3)),
}


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def feed_of(inputs, targets, sizes, width):
    """Batches of rows with some sizes [r, S] of up to so many samples, drawn with repetition."""
    sizes = torch.tensor(sizes)
    index = torch.randint(len(inputs), (*sizes.shape, width), generator=torch.Generator().manual_seed(1))
    schedule = Schedule(index, sizes, (sizes > 0).sum(1))
    return Feed(Pool(inputs, targets), index, schedule, torch.arange(len(sizes)), 0, 0)


def steps_by_autograd(module, spec, row, feed, number, lr, decay):
    """The steps of one row, by autograd and one tensor after the other."""
    spec.load_into(module, row)
    losses = []
    for step, size in enumerate(feed.schedule.size[number].tolist()):
        if not size:
            losses.append(math.nan)
            continue
        take = feed.index[number, step, :size]
        loss = F.cross_entropy(module(feed.pool.inputs[take]), feed.pool.targets[take], reduction="none").mean()
        grads = torch.autograd.grad(loss, list(module.parameters()))
        with torch.no_grad():
            for parameter, grad in zip(module.parameters(), grads, strict=True):
                parameter -= lr * (grad + decay * parameter)
        losses.append(loss.item())
    return spec.flatten(module), torch.tensor(losses, dtype=torch.float64)


def test_one_step_by_hand():
    """Two classes with logits 0 and 0: the gradient of the first one's logit is -1/2, and so on."""
    feed = feed_of(torch.tensor([[2.0]]), torch.tensor([0]), [[1, 1]], 1)
    models = torch.zeros(1, 4)  # weights, then biases
    losses = take_dense_steps((Dense(0, 2, 1, 2, False),), models, feed, SGD(lr=0.1, weight_decay=0.0), CROSS_ENTROPY)
    weight = 0.1 * 0.5 * 2
    share = 1 / (1 + math.exp(-2 * (2 * weight + 0.05)))  # of the right class at the second step
    torch.testing.assert_close(losses, torch.tensor([[math.log(2)], [-math.log(share)]]))
    torch.testing.assert_close(models[0, 0], torch.tensor(weight + 0.1 * 2 * (1 - share)))
    torch.testing.assert_close(models[0, 3], torch.tensor(-0.05 - 0.1 * (1 - share)))


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("widths", [(1, 2), (5, 3), (16, 4, 2), (37, 19, 8, 11), (130, 64, 10)], ids=str)
def test_steps(instructions, dtype, widths):
    """Of layers that fill registers and of such that do not, and of batches of 1 to 13 samples, some rows at rest."""
    layers = [nn.Linear(*pair) for pair in itertools.pairwise(widths)]
    module = nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())][:-1]).to(dtype)
    spec = ParamSpec.from_module(module)
    feed = feed_of(
        normal(40, widths[0], dtype=dtype),
        torch.arange(40) % widths[-1],
        [[13, 13, 7], [11, 1, 0], [0, 0, 0], [6, 5, 4]],
        13,
    )
    before = 0.3 * normal(4, spec.num_columns, seed=2, dtype=dtype)
    models, settings = before.clone(), SGD(lr=0.2, weight_decay=0.1)
    told = dense_layers(make_chain(module), spec)
    losses = take_dense_steps(told, models, feed, settings, CROSS_ENTROPY, instructions)
    assert torch.equal(models[2], before[2])
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-13}
    for number, row in enumerate(before):
        expected, loss = steps_by_autograd(module, spec, row, feed, number, 0.2, 0.1)
        torch.testing.assert_close(models[number], expected, **close)
        torch.testing.assert_close(losses[:, number], loss.to(dtype), **close, equal_nan=True)


@pytest.mark.parametrize("name", MODULES)
def test_the_engine_gives_the_same_as_node_by_node(make_engine, name, monkeypatch):
    found, steps = [], LocalSteps(epochs=2, batch_size=3, optimizer=SGD(lr=0.3, weight_decay=0.05))
    for backend in ("vmap", "loop"):
        torch.manual_seed(0)
        engine, models = make_engine(module=MODULES[name](), backend=backend)
        if backend == "vmap":
            assert engine.backends[0].layers
            monkeypatch.setattr(engine.backends[0], "loss", None)  # which is not asked for
        found.append(engine.fit(Rows.own(models), steps, **FIT))
    torch.testing.assert_close(found[0].models.tensors[0], found[1].models.tensors[0], rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(found[0].told()[0], found[1].told()[0], rtol=1e-12, atol=1e-13)


def test_bits_depend_neither_on_other_rows_nor_threads_nor_instructions():
    module = nn.Sequential(nn.Linear(77, 50), nn.ReLU(), nn.Linear(50, 7))
    spec = ParamSpec.from_module(module)
    layers, before = dense_layers(make_chain(module), spec), 0.1 * normal(24, spec.num_columns, dtype=torch.float32)
    feed = feed_of(normal(60, 77, seed=1, dtype=torch.float32), torch.arange(60) % 7, [[11, 9, 10]] * 24, 11)

    def fitted(rows=slice(None), threads=1, instructions=None):
        models = before[rows].clone()
        schedule = Schedule(feed.index[rows], feed.schedule.size[rows], feed.schedule.steps[rows])
        own = Feed(feed.pool, feed.index[rows], schedule, feed.node_id[rows], 0, 0)
        with same_threads(threads):
            losses = take_dense_steps(layers, models, own, SGD(lr=0.1), CROSS_ENTROPY, instructions)
        return torch.cat([models, losses.T], 1)

    whole = fitted()
    assert torch.equal(fitted(threads=2), whole)
    assert torch.equal(fitted(slice(5, 9)), whole[5:9])
    for instructions in {"avx2", "avx512"} & {*INSTRUCTIONS}:
        assert torch.equal(fitted(instructions=instructions), whole)


def test_numbers_that_are_not_finite_are_seen(make_engine):
    """And stay with their node."""
    found = []
    for backend in ("vmap", "loop"):
        engine, models = make_engine(backend=backend)
        models.tensors[0][1, 0] = math.inf
        models.tensors[0][2] *= 1e200  # logits that overflow
        fitted = engine.fit(Rows.own(models), LocalSteps(batch_size=3, optimizer=SGD(lr=0.3)), **FIT)
        found.append((fitted.models.tensors[0], *fitted.told()))
    (ours, loss, bad), (theirs, other, worse) = found
    assert bad.tolist() == worse.tolist() == [-1, 0, 0, -1]
    torch.testing.assert_close(ours[[0, 3]], theirs[[0, 3]], rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(loss, other, rtol=1e-12, atol=1e-13, equal_nan=True)
    assert not ours[1].isfinite().all()
    assert not ours[2].isfinite().all()


def test_labels_that_are_no_class():
    layers, inputs = (Dense(0, -1, 2, 3, False),), normal(4, 2)
    for label in (3, -1):
        feed = feed_of(inputs, torch.tensor([0, 1, 2, label]), [[4, 4, 4, 4, 4, 4]], 4)
        with raises("range", "targets", kind=IndexError):
            take_dense_steps(layers, torch.zeros(1, 6, dtype=torch.float64), feed, SGD(), CROSS_ENTROPY)


def test_samples_that_are_not_in_the_pool():
    layers, inputs = (Dense(0, -1, 2, 3, False),), normal(4, 2)
    for place in (4, -1):
        feed = feed_of(inputs, torch.tensor([0, 1, 2, 0]), [[4, 4]], 4)
        feed.index[0, 1, 3] = place
        with raises("range", "schedule", kind=IndexError):
            take_dense_steps(layers, torch.zeros(1, 6, dtype=torch.float64), feed, SGD(), CROSS_ENTROPY)


def test_labels_that_pytorch_ignores():
    module = nn.Linear(2, 3).double()
    spec = ParamSpec.from_module(module)
    feed = feed_of(normal(4, 2), torch.tensor([0, -100, 2, -100]), [[4, 4], [3, 1]], 4)
    before = normal(2, 9, seed=4)
    models = before.clone()
    losses = take_dense_steps(dense_layers(make_chain(module), spec), models, feed, SGD(lr=0.5), CROSS_ENTROPY)
    for number in range(2):
        expected, loss = steps_by_autograd(module, spec, before[number], feed, number, 0.5, 0.0)
        torch.testing.assert_close(models[number], expected)
        torch.testing.assert_close(losses[:, number], loss.double())


def test_rows_of_a_larger_tensor():
    """The stacks of a run are rows of memory that has more columns, and shares of the processes."""
    feed = feed_of(normal(5, 2), torch.arange(5) % 3, [[2], [2]], 2)
    wide = torch.full((2, 20), 7.0, dtype=torch.float64)
    wide[:, :9] = normal(2, 9)
    alone = wide[:, :9].clone()
    layers = (Dense(0, 6, 2, 3, False),)
    for models in (wide[:, :9], alone):
        take_dense_steps(layers, models, feed, SGD(lr=0.1), CROSS_ENTROPY)
    assert torch.equal(wide[:, :9], alone)
    assert (wide[:, 9:] == 7).all()


def frozen(name):
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    getattr(module[0], name).requires_grad_(False)
    return module


def replaced(**parameters):
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    for name, shape in parameters.items():
        setattr(module[0], name, nn.Parameter(torch.zeros(shape)))
    return module


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)),
        nn.Sequential(nn.ReLU(), nn.Linear(4, 3)),
        nn.Sequential(nn.Linear(4, 3), nn.ReLU()),
        nn.Sequential(nn.Linear(4, 5), nn.Flatten(), nn.Linear(5, 3)),
        nn.Sequential(*[nn.Linear(3, 3) for _ in range(dense_steps.MOST_LAYERS + 1)]),
        frozen("weight"),
        frozen("bias"),
        replaced(bias=1),
        replaced(weight=(6, 4), bias=6),
    ],
    ids=lambda module: repr(module)[:30],
)
def test_chains_of_other_layers_are_left_to_pytorch(module):
    assert dense_layers(make_chain(module), ParamSpec.from_module(module)) is None


def test_steps_that_are_wrong_are_found_when_a_plan_is_made(monkeypatch):
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    sample = normal(5, 4, dtype=torch.float32), torch.arange(5) % 3
    whole = vmap_backend.take_dense_steps

    def wrong(layers, new, *rest):
        found = whole(layers, new, *rest)
        if found is not None:
            new += 0.01
        return found

    assert make_plan(module, ParamSpec.from_module(module), sample, CROSS_ENTROPY).backend == "vmap"
    monkeypatch.setattr(vmap_backend, "take_dense_steps", wrong)
    plan = make_plan(module, ParamSpec.from_module(module), sample, CROSS_ENTROPY)
    assert plan.backend == "loop"
    assert "parameters after a step without momentum" in plan.reason


def test_a_class_that_is_masked_stays_so():
    """A bias of minus infinity is no step from NaN without weight decay."""
    models = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0, -math.inf]])
    feed = feed_of(torch.ones(2, 1), torch.tensor([0, 1]), [[2, 2]], 2)
    losses = take_dense_steps((Dense(0, 3, 1, 3, False),), models, feed, SGD(lr=0.1), CROSS_ENTROPY)
    assert losses.isfinite().all()
    assert models[0, 5] == -math.inf
    assert models[0, :5].isfinite().all()


def test_batches_that_lie_otherwise_in_memory():
    feed = feed_of(normal(9, 2), torch.arange(9) % 3, [[3, 2], [1, 3]], 3)
    turned = Feed(
        Pool(feed.pool.inputs, torch.stack([feed.pool.targets, feed.pool.targets], 1)[:, 0]),
        feed.index.permute(2, 1, 0).contiguous().permute(2, 1, 0),
        Schedule(feed.index, feed.schedule.size.T.contiguous().T, feed.schedule.steps),
        feed.node_id, 0, 0,
    )  # fmt: skip
    found = [normal(2, 9, seed=3), normal(2, 9, seed=3)]
    for one, models in zip((feed, turned), found, strict=True):
        take_dense_steps((Dense(0, 6, 2, 3, False),), models, one, SGD(lr=0.1), CROSS_ENTROPY)
    assert torch.equal(*found)


def test_bfloat16_is_left_to_pytorch(make_engine):
    engine, models = make_engine(dtype=torch.float32, backend="vmap")
    half, _ = make_engine(dtype=torch.float32, backend="vmap", autocast=True)
    steps = LocalSteps(batch_size=3, optimizer=SGD(lr=0.3))
    whole, rounded = (one.fit(Rows.own(models), steps, **FIT).models.tensors[0] for one in (engine, half))
    assert (whole - rounded).abs().max() > 1e-5


class Slower(SGD):
    """Somebody's own update."""

    def _step(self, params, grads, state, step):
        super()._step(params, [0.5 * grad for grad in grads], state, step)


class Louder(Loss):
    """And their own loss."""

    def rows(self, outputs, targets, context):
        return 2 * super().rows(outputs, targets, context)


def test_whatever_else_is_left_to_pytorch():
    inputs, targets, sizes = normal(6, 2), torch.arange(6) % 3, [[2, 2]]
    feed = feed_of(inputs, targets, sizes, 2)
    layers, models = (Dense(0, 6, 2, 3, False),), normal(1, 9)

    def taken(feed=feed, optimizer=None, objective=CROSS_ENTROPY, models=models):
        return take_dense_steps(layers, models.clone(), feed, optimizer or SGD(lr=0.1), objective)

    assert taken() is not None
    assert taken(models=models.float()) is None  # of other numbers than the inputs
    assert taken(optimizer=SGD(lr=0.1, momentum=0.9)) is None
    assert taken(optimizer=Adam()) is None
    assert taken(optimizer=Slower(lr=0.1)) is None
    assert taken(objective=Louder(CROSS_ENTROPY.function, per_sample=True)) is None
    assert take_dense_steps(layers, normal(1, 18)[:, ::2], feed, SGD(lr=0.1), CROSS_ENTROPY) is None
    assert taken(objective=CROSS_ENTROPY + Proximal(0.1)) is None
    assert taken(objective=as_objective("mse")) is None
    assert taken(objective=as_objective(F.cross_entropy)) is None
    for name, value in (("views", 1), ("weight", torch.ones(1, 2, 2)), ("scale", {"all": torch.ones(1)})):
        assert taken(feed=Feed(feed.pool, feed.index, feed.schedule, feed.node_id, 0, 0, **{name: value})) is None
    assert taken(feed_of(normal(6, 2, 1), targets, sizes, 2)) is not None  # which the chain has flattened
    assert taken(feed_of(normal(6, 2, 2), targets, sizes, 2)) is None
    assert taken(feed_of(normal(2, 6).T, targets, sizes, 2)) is None
    assert taken(feed_of(inputs, targets.double(), sizes, 2)) is None
    assert taken(feed_of(inputs, targets.int(), sizes, 2)) is None
    assert taken(feed_of(inputs, targets[:, None], sizes, 2)) is None
    many = dense_steps.MOST_SAMPLES + 1
    assert taken(feed_of(inputs, targets, [[many]], many)) is None


def test_large_steps_of_several_threads_are_shared_by_pytorch(monkeypatch):
    feed = feed_of(normal(6, 2), torch.arange(6) % 3, [[2, 2]], 2)
    monkeypatch.setattr(dense_steps, "LARGE_STEP", 11)
    for threads, taken in ((1, True), (2, False)):
        with same_threads(threads):
            found = take_dense_steps((Dense(0, 6, 2, 3, False),), normal(1, 9), feed, SGD(), CROSS_ENTROPY)
        assert (found is not None) is taken


def test_without_the_kernel_numbers_are_the_same_up_to_rounding(make_engine, monkeypatch):
    steps = LocalSteps(epochs=2, batch_size=3, optimizer=SGD(lr=0.3))
    found = []
    for known in (INSTRUCTIONS, []):
        monkeypatch.setattr(dense_steps, "INSTRUCTIONS", known)
        engine, models = make_engine(backend="vmap")
        found.append(engine.fit(Rows.own(models), steps, **FIT).models.tensors[0])
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-13)
