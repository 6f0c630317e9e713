"""How images lie in memory changes how fast they are convolved, and nothing else."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab.data.schedule import make_schedule
from graphcollab.engine import SGD, Adam, Engine, LocalSteps, Rows
from graphcollab.engine.choice import check_plan
from graphcollab.engine.losses import as_objective
from graphcollab.engine.modules import copy_module
from graphcollab.engine.plan import Plan
from graphcollab.engine.stack import ParamSpec
from graphcollab.models import MLP
from graphcollab.models.classifiers import fedavg_cnn
from tests.raising import raises

KEY = {"seed": 3, "round_": 2}
FIT = {"batch_size": 3, "epochs": 2}
SHAPE = 2, 8, 8
SIZES = 8, 6, 9, 5


def cnn():
    head = nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 3)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, 1, 1), *head
    )


def normalized():
    body = nn.Conv2d(2, 4, 3, bias=False), nn.BatchNorm2d(4), nn.MaxPool2d(2)  # a bias's gradient would be rounding
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(36, 3))


def partly_frozen():
    module = cnn()
    module[0].weight.requires_grad_(False)
    return module


def from_numbers():
    """Makes images of its inputs itself, so that its weights alone tell how these lie."""
    return nn.Sequential(nn.Unflatten(1, SHAPE), *cnn())


class Viewing(nn.Module):
    """Takes a view that there is only where pixels of a channel lie side by side."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Conv2d(2, 4, 3), nn.Linear(144, 3)

    def forward(self, inputs):
        return self.head(self.body(inputs).view(len(inputs), -1))


MODULES = {
    "cnn": (cnn, SHAPE),
    "batch norm": (normalized, SHAPE),
    "frozen": (partly_frozen, SHAPE),
    "inside": (from_numbers, (128,)),
}


def formats(engine):
    return [plan.memory_format for plan in engine.plans]


def channels_first(engine, models):
    """The same engine with pixels of a channel side by side."""
    plan = Plan("loop", 2, "by hand", engine.plans[0].padding)
    return Engine(engine.tasks, [engine.backends[0].module], models.specs, plans=[plan])


def train_by_torch(engine, models, optimizer):
    """Train every node's model by an optimizer of torch, in the usual memory format; return rows [K, columns]."""
    spec, tasks = models.specs[0], engine.tasks
    split, pool, rows = tasks.splits["train"], tasks.pools["all"], []
    schedule = make_schedule(split.sizes, tasks.ids, 3, 2, FIT["batch_size"], FIT["epochs"])
    for node, row in enumerate(models.tensors[0]):
        module = spec.load_into(copy_module(engine.backends[0].module), row).train()
        stepper = optimizer([p for p in module.parameters() if p.requires_grad])
        for step in range(int(schedule.steps[node])):
            batch = split.of(node)[schedule.position[node, step, : int(schedule.size[node, step])]]
            stepper.zero_grad()
            F.cross_entropy(module(pool.inputs[batch]), pool.targets[batch]).backward()
            stepper.step()
        rows.append(spec.flatten(module))
    return torch.stack(rows)


@pytest.mark.parametrize(
    ("module", "shape", "settings", "expected"),
    [
        (cnn(), SHAPE, {}, "channels_last"),
        (nn.Sequential(nn.ConvTranspose2d(2, 4, 3), nn.Flatten(), nn.Linear(400, 3)), SHAPE, {}, "channels_last"),
        (cnn(), SHAPE, {"autocast": True}, "channels_last"),
        (cnn(), SHAPE, {"dtype": torch.float64}, "contiguous"),
        (cnn(), SHAPE, {"backend": "vmap"}, "contiguous"),
        (cnn(), SHAPE, {"backend": "loop"}, "channels_last"),
        (MLP(4, 5, 3), (4,), {"backend": "loop"}, "contiguous"),
        (nn.Sequential(nn.Conv1d(2, 4, 3), nn.Flatten(), nn.Linear(24, 3)), (2, 8), {}, "contiguous"),
        (Viewing(), SHAPE, {}, "contiguous"),
    ],
)
def test_rule(make_engine, module, shape, settings, expected):
    engine, _ = make_engine(module, shape, **{"dtype": torch.float32, **settings})
    assert formats(engine) == [expected]


def test_without_onednn_nothing_is_laid_out_otherwise(make_engine, monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert formats(make_engine(cnn(), SHAPE, dtype=torch.float32)[0]) == ["contiguous"]


OPTIMIZERS = [
    (SGD(lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    (SGD(lr=0.1, momentum=0.9), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    (Adam(lr=0.01), lambda p: torch.optim.Adam(p, lr=0.01)),
]


@pytest.mark.parametrize(
    ("kind", "ours", "theirs"),
    [(kind, *OPTIMIZERS[k % len(OPTIMIZERS)]) for k, kind in enumerate(MODULES)],
    ids=lambda one: "" if callable(one) else str(one),
)
def test_models_are_those_of_plain_training(make_engine, kind, ours, theirs):
    make, shape = MODULES[kind]
    engine, models = make_engine(make(), shape, SIZES, dtype=torch.float32)
    assert formats(engine) == ["channels_last"]
    fitted = engine.fit(Rows.own(models), LocalSteps(optimizer=ours, **FIT), **KEY)
    expected = train_by_torch(engine, models, theirs)
    torch.testing.assert_close(fitted.models.tensors[0], expected, rtol=1e-3, atol=2e-4)
    usual = channels_first(engine, models).fit(Rows.own(models), LocalSteps(optimizer=ours, **FIT), **KEY)
    for slot in ours.slots:
        torch.testing.assert_close(fitted.slots[slot].tensors, usual.slots[slot].tensors, rtol=1e-3, atol=2e-4)
    assert all(rows.is_contiguous() for rows in fitted.models.tensors)


@pytest.mark.parametrize("kind", MODULES)
def test_outputs_losses_and_gradients_are_the_same(make_engine, kind):
    make, shape = MODULES[kind]
    engine, models = make_engine(make(), shape, SIZES, dtype=torch.float32)
    usual, rows = channels_first(engine, models), Rows.own(models)
    assert formats(engine) != formats(usual)
    for one, two in zip(engine.grad(rows, "val"), usual.grad(rows, "val"), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(engine.loss(rows, "val"), usual.loss(rows, "val"))
    one, two = (e.batch_gradient(rows, seed=0, round_=0, batch_size=4) for e in (engine, usual))
    torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_what_is_asked_of_layers_is_laid_out_so(make_engine):
    seen = set()

    class Pooling(nn.MaxPool2d):
        def forward(self, inputs):
            seen.add(inputs.is_contiguous(memory_format=torch.channels_last))
            return super().forward(inputs)

    module = nn.Sequential(nn.Conv2d(1, 4, 3), Pooling(2), nn.Flatten(), nn.Linear(36, 3))
    engine, models = make_engine(module, (1, 8, 8), SIZES, dtype=torch.float32)
    seen.clear()
    engine.fit(Rows.own(models), LocalSteps(**FIT), **KEY)
    list(engine.predict(Rows.own(models), "val"))
    engine.grad(Rows.own(models), "val")
    assert seen == {True}


def test_a_plan_that_a_module_cannot_follow_is_refused():
    sample, objective = (torch.randn(5, *SHAPE), torch.arange(5) % 3), as_objective("cross_entropy")
    for module in (cnn(), Viewing()):
        check_plan(Plan("loop", 3, "stored"), module, ParamSpec.from_module(module), sample, objective)
    last = Plan("loop", 3, "stored", memory_format="channels_last")
    check_plan(last, cnn(), ParamSpec.from_module(cnn()), sample, objective)
    with raises("unsupported", "backend", "Viewing", "'loop'", "'channels_last'"):
        check_plan(last, Viewing(), ParamSpec.from_module(Viewing()), sample, objective)
    with raises("conflict", "memory_format", "'channels_last'"):
        Plan("vmap", 3, "stored", memory_format="channels_last")
    with raises("value", "memory_format", "'contiguous'", "'channels_last'", "'last'"):
        Plan("loop", 3, "stored", memory_format="last")


def test_the_plan_alone_says_the_precision(make_engine):
    half, models = make_engine(fedavg_cnn((1, 16, 16), 3), (1, 16, 16), dtype=torch.float32, autocast=True)
    whole, _ = make_engine(half.backends[0].module, (1, 16, 16), dtype=torch.float32)
    assert [engine.plans[0].precision for engine in (half, whole)] == ["bfloat16", "full"]
    again = Engine(half.tasks, [half.backends[0].module], models.specs, plans=half.plans)
    one, two, three = (e.grad(Rows.own(models), "val")[1] for e in (half, again, whole))
    assert torch.equal(one, two)
    assert not torch.equal(one, three)
    assert float((one - three).norm() / three.norm()) < 0.1  # numbers of 8 bits, through four layers
