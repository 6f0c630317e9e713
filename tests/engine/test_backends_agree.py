"""Both backends against each other, and against plain modules trained one by one with ``torch.optim``."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab.data.schedule import make_schedule
from graphcollab.engine import SGD, Adam, AdamW, LocalSteps, Proximal, Rows

SIZES = (7, 4, 10, 5)
KEY = {"seed": 3, "round_": 2}
FIT = {"batch_size": 3, "epochs": 2}


def mlp():
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3, bias=False))


def group_norm_cnn():
    layers = nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3)
    return nn.Sequential(*layers)


def batch_norm():
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))


def layer_norm_and_embedding():
    return nn.Sequential(nn.Embedding(6, 4), nn.LayerNorm(4), nn.Flatten(), nn.Linear(8, 3))


class Scaled(nn.Module):
    """A parameter without dimensions, one used twice, and one that is not used."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.weight = nn.Parameter(torch.eye(4, 3))
        self.idle = nn.Parameter(torch.ones(2))

    def forward(self, inputs):
        return self.scale * F.linear(torch.tanh(inputs @ self.weight @ self.weight.T), self.weight.T)


MODULES = {
    "mlp": (mlp, (4,)),
    "cnn": (group_norm_cnn, (1, 6, 6)),
    "batch_norm": (batch_norm, (4,)),
    "scaled": (Scaled, (4,)),
}


def train_by_torch(engine, models, optimizer, loss=F.cross_entropy):
    """Train every node's plain module with an optimizer of torch; return the rows [K, columns]."""
    spec, tasks = models.specs[0], engine.tasks
    split, pool, rows = tasks.splits["train"], tasks.pools["all"], []
    schedule = make_schedule(split.sizes, tasks.ids, 3, 2, FIT["batch_size"], FIT["epochs"])
    for node, row in enumerate(models.tensors[0]):
        module = spec.load_into(engine.backends[0].module, row).train()
        for parameter in module.parameters():
            parameter.data = parameter.data.clone()
        stepper = optimizer([p for n, p in module.named_parameters()])
        for step in range(int(schedule.steps[node])):
            size = int(schedule.size[node, step])
            batch = split.of(node)[schedule.position[node, step, :size]]
            stepper.zero_grad()
            value = loss(module(pool.inputs[batch]), pool.targets[batch])
            value.backward()
            for parameter in module.parameters():
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
            stepper.step()
        rows.append(spec.flatten(module))
    return torch.stack(rows)


OPTIMIZERS = [
    (SGD(lr=0.1, weight_decay=0.01), lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01)),
    (
        SGD(lr=0.1, weight_decay=0.01, momentum=0.9),
        lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01, momentum=0.9),
    ),
    (SGD(lr=0.1, momentum=0.9, nesterov=True), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)),
    (Adam(lr=0.05, weight_decay=0.1), lambda p: torch.optim.Adam(p, lr=0.05, weight_decay=0.1)),
    (AdamW(lr=0.05, weight_decay=0.1), lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1)),
]


@pytest.mark.parametrize("backend", ["vmap", "loop"])
@pytest.mark.parametrize(("ours", "theirs"), OPTIMIZERS, ids=lambda o: repr(o) if not callable(o) else "")
def test_optimizers_equal_separate_ones_of_torch(make_engine, ours, theirs, backend):
    engine, models = make_engine(mlp(), backend=backend)
    fitted = engine.fit(Rows.own(models), LocalSteps(optimizer=ours, **FIT), **KEY)
    torch.testing.assert_close(fitted.models.tensors[0], train_by_torch(engine, models, theirs), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("backend", ["vmap", "loop"])
@pytest.mark.parametrize("kind", MODULES)
def test_modules_equal_plain_training_buffers_included(make_engine, kind, backend):
    make, shape = MODULES[kind]
    engine, models = make_engine(make(), shape, sizes=(8, 6, 9, 5), backend=backend)
    fitted = engine.fit(Rows.own(models), LocalSteps(optimizer=SGD(lr=0.1), **FIT), **KEY)
    expected = train_by_torch(engine, models, lambda p: torch.optim.SGD(p, lr=0.1))
    torch.testing.assert_close(fitted.models.tensors[0], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", MODULES)
def test_losses_gradients_and_outputs_agree(make_engine, kind):
    make, shape = MODULES[kind]
    (vmap, models), (loop, _) = (make_engine(make(), shape, sizes=(8, 6, 9, 5), backend=b) for b in ("vmap", "loop"))
    rows = Rows.own(models)
    for one, two in zip(vmap.grad(rows, "val"), loop.grad(rows, "val"), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(vmap.loss(rows, "val"), loop.loss(rows, "val"), rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(vmap.loss(rows, "val"), vmap.grad(rows, "val")[0], rtol=1e-9, atol=1e-10)


def test_whole_number_inputs(make_engine):
    results = []
    for backend in ("vmap", "loop"):
        words = torch.randint(6, (sum(SIZES), 2), generator=torch.Generator().manual_seed(1))
        engine, models = make_engine(layer_norm_and_embedding(), inputs=words, backend=backend)
        results.append(engine.fit(Rows.own(models), LocalSteps(optimizer=SGD(lr=0.1), **FIT), **KEY).models.tensors[0])
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-10)


def test_a_users_loss_is_called_with_real_batches_only(make_engine):
    """It cannot weigh samples, so nodes are grouped by batch length and never padded."""
    lengths = set()

    def worst(outputs, targets):
        lengths.add(len(targets))
        return F.cross_entropy(outputs, targets, reduction="none").max()

    results = []
    for backend in ("vmap", "loop"):
        engine, models = make_engine(mlp(), loss=worst, backend=backend)
        lengths.clear()
        results.append(engine.fit(Rows.own(models), LocalSteps(optimizer=SGD(lr=0.1), **FIT), **KEY).models.tensors[0])
        assert lengths == {1, 2, 3}
        expected = train_by_torch(engine, models, lambda p: torch.optim.SGD(p, lr=0.1), worst)
        torch.testing.assert_close(results[-1], expected, rtol=1e-9, atol=1e-10)
        losses, gradients = engine.grad(Rows.own(models), "val")
        torch.testing.assert_close(losses, engine.loss(Rows.own(models), "val"), rtol=1e-9, atol=1e-10)
        results.append(gradients)
    torch.testing.assert_close(results[1], results[3], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("loss", ["mse", "bce"])
def test_other_losses(make_engine, loss):
    targets = torch.linspace(0, 1, 26, dtype=torch.float64)
    targets = targets.round() if loss == "bce" else targets
    plain = {
        "mse": lambda o, t: F.mse_loss(o[:, 0], t),
        "bce": lambda o, t: F.binary_cross_entropy_with_logits(o[:, 0], t),
    }[loss]
    for backend in ("vmap", "loop"):
        engine, models = make_engine(nn.Linear(4, 1), loss=loss, targets=targets, backend=backend)
        fitted = engine.fit(Rows.own(models), LocalSteps(optimizer=SGD(lr=0.1), **FIT), **KEY)
        expected = train_by_torch(engine, models, lambda p: torch.optim.SGD(p, lr=0.1), plain)
        torch.testing.assert_close(fitted.models.tensors[0], expected, rtol=1e-9, atol=1e-10)


def test_anchors(make_engine):
    """(μ/2)‖θ - anchor‖² is added to the loss, each row with its own anchor."""
    results = []
    for backend in ("vmap", "loop"):
        engine, models = make_engine(mlp(), backend=backend)
        objective = engine.objective + Proximal(10.0)
        anchor = models.map(torch.zeros_like)
        fitted = engine.fit(
            Rows.own(models), LocalSteps(optimizer=SGD(lr=0.1), **FIT), objective=objective, anchor=anchor, **KEY
        )
        results.append(fitted.models.tensors[0])
        expected = train_by_torch(engine, models, lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=10.0))
        torch.testing.assert_close(results[-1], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_autocast_computes_in_half_precision_and_keeps_models_whole(make_engine, backend):
    whole, models = make_engine(mlp(), dtype=torch.float32, backend=backend)
    half, _ = make_engine(mlp(), dtype=torch.float32, backend=backend, autocast=True)
    one, two = (
        e.fit(Rows.own(models), LocalSteps(optimizer=SGD(lr=0.1), **FIT), **KEY).models.tensors[0]
        for e in (whole, half)
    )
    assert two.dtype == torch.float32
    assert not torch.equal(one, two)
    torch.testing.assert_close(one, two, rtol=0.05, atol=0.02)


def test_the_callers_module_is_left_alone(make_engine):
    module = batch_norm().double().train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    for backend in ("vmap", "loop"):
        engine, models = make_engine(module, sizes=(8, 6), backend=backend)
        engine.fit(Rows.own(models), LocalSteps(optimizer=SGD(lr=0.1), **FIT), **KEY)
        engine.loss(Rows.own(models), "val")
        assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
        assert module.training


def test_frozen_parameters_are_not_trained(make_engine):
    """The others train as they would beside constants of the same values."""
    for backend in ("vmap", "loop"):
        module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 3))
        module[0].requires_grad_(False)
        module[2].bias.requires_grad_(False)
        engine, models = make_engine(module, backend=backend)
        spec, before = models.specs[0], models.tensors[0].clone()
        fitted = engine.fit(Rows.own(models), LocalSteps(optimizer=Adam(lr=0.1), batch_size=20), seed=0, round_=0)
        after, own = fitted.models.tensors[0], engine.backends[0].module
        assert spec.num_columns == after.shape[1] == 5 * 5 + 5 * 3 + 3
        assert own[0].weight.data_ptr() == module[0].weight.data_ptr()
        assert not (after == before).all(1).any()
        assert engine.grad(Rows.own(models), "val")[1].shape == (4, spec.num_parameters)
        for node in range(4):  # one full batch: a single step of Adam by torch
            reference = spec.load_into(module, before[node])
            optimizer = torch.optim.Adam([p for p in reference.parameters() if p.requires_grad], lr=0.1)
            optimizer.zero_grad()
            owned, pool = engine.tasks.splits["train"].of(node), engine.tasks.pools["all"]
            nn.functional.cross_entropy(reference(pool.inputs[owned]), pool.targets[owned]).backward()
            optimizer.step()
            torch.testing.assert_close(after[node], spec.flatten(reference))


class Centered(nn.Module):
    """Keeps a running average of its inputs, as users do: in place, or by assignment."""

    def __init__(self, in_place):
        super().__init__()
        self.head, self.in_place = nn.Linear(4, 3), in_place
        self.register_buffer("center", torch.zeros(4))

    def forward(self, inputs):
        if self.training:
            now = inputs.detach().mean(0)
            if self.in_place:
                self.center.mul_(0.9).add_(0.1 * now)
            else:
                self.center = 0.9 * self.center + 0.1 * now
        return self.head(inputs - self.center)


@pytest.mark.parametrize(("backend", "in_place"), [("vmap", True), ("loop", True), ("loop", False)])
def test_a_users_buffers_are_every_nodes_own(make_engine, backend, in_place):
    engine, models = make_engine(Centered(in_place), backend=backend)
    fitted = engine.fit(Rows.own(models), LocalSteps(optimizer=SGD(lr=0.0), batch_size=20), seed=0, round_=0)
    pool, split = engine.tasks.pools["all"], engine.tasks.splits["train"]
    means = torch.stack([pool.inputs[split.of(node)].mean(0) for node in range(4)])
    torch.testing.assert_close(fitted.models.part("buffers"), 0.1 * means)
    assert not models.part("buffers").any()


@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_judging_a_model_does_not_change_it(make_engine, backend):
    """Not even where it changes its buffers in evaluation mode."""
    module = Centered(True)
    module.eval = module.train
    engine, models = make_engine(module, backend=backend)
    before = models.tensors[0].clone()
    engine.loss(Rows.own(models), "val")
    engine.grad(Rows.own(models), "val")
    assert torch.equal(models.tensors[0], before)
