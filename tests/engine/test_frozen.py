"""Frozen weights are in memory once, and nobody writes to them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import vmap
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from graphcollab import Tasks, run
from graphcollab.data.schedule import make_schedule
from graphcollab.engine import SGD, Adam, LocalSteps, Rows, trial
from graphcollab.engine.guards import Frozen, FrozenWeightsError, unwritten
from graphcollab.engine.losses import as_objective
from graphcollab.engine.modules import copy_module
from graphcollab.engine.stack import ParamSpec
from graphcollab.engine.stacked import stacked_linear, stacked_ops
from graphcollab.methods import dpsgd
from graphcollab.train import Callback, Compute
from tests.raising import raises

BACKENDS = ("vmap", "loop")
SIZES = (7, 4, 10, 5)
FIT = {"batch_size": 3, "epochs": 2}


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def two_class_tasks():
    """Two classes at three nodes of eight samples."""
    return Tasks.from_samples([(normal(8, 4, seed=k).float(), torch.arange(8) % 2) for k in range(3)])


class Adapted(nn.Module):
    """A frozen layer with a small trained detour, as adapters are, and angles that are computed and not saved."""

    def __init__(self, width=5):
        super().__init__()
        self.base = nn.Linear(4, width).requires_grad_(False)
        self.down, self.up, self.head = (
            nn.Linear(4, 2, bias=False),
            nn.Linear(2, width, bias=False),
            nn.Linear(width, 3),
        )
        self.register_buffer("angles", torch.arange(float(width)), persistent=False)

    def forward(self, inputs):
        return self.head(torch.sin(self.base(inputs) + self.up(self.down(inputs)) + self.angles))


def chain(*frozen):
    """A chain of layers, some of whose parameters are frozen."""
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 3))
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name not in frozen)
    return module


def attention():
    """A transformer's layer of which the biases and the normalization alone are trained."""

    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(4, 2, 6, 0.0, batch_first=True)
            self.head = nn.Linear(4, 3)
            for name, parameter in self.layer.named_parameters():
                parameter.requires_grad_("bias" in name or "norm" in name)

        def forward(self, inputs):
            return self.head(self.layer(inputs.unflatten(1, (-1, 4))).mean(1))

    return Attends()


MODULES = {
    "weights": lambda: chain("0.weight", "0.bias", "2.weight", "2.bias"),
    "weights alone": lambda: chain("0.weight", "2.weight", "4.weight"),
    "biases alone": lambda: chain("0.bias", "4.bias"),
    "adapters": Adapted,
    "attention": attention,
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 3, 2).requires_grad_(False), nn.Flatten(), nn.Linear(3, 3)
    ),
}


def train_by_torch(module, engine, models):
    """Train every node's copy of a module by Adam of torch; return rows [K, P] and the last model's frozen weights."""
    spec, tasks, rows = models.specs[0], engine.tasks, []
    split, pool = tasks.splits["train"], tasks.pools["all"]
    schedule = make_schedule(split.sizes, tasks.ids, 3, 2, FIT["batch_size"], FIT["epochs"])
    for node, row in enumerate(models.tensors[0]):
        own = spec.load_into(copy_module(module), row).train()
        stepper = torch.optim.Adam([p for p in own.parameters() if p.requires_grad], lr=0.1)
        for step in range(int(schedule.steps[node])):
            batch = split.of(node)[schedule.position[node, step, : int(schedule.size[node, step])]]
            stepper.zero_grad()
            F.cross_entropy(own(pool.inputs[batch]), pool.targets[batch]).backward()
            stepper.step()
        rows.append(spec.flatten(own))
    return torch.stack(rows)


@pytest.mark.parametrize(
    ("kind", "backend"),
    [(kind, backend) for kind in MODULES for backend in BACKENDS if (kind, backend) != ("attention", "vmap")],
)
def test_training_is_that_of_plain_pytorch(make_engine, kind, backend):
    torch.manual_seed(0)
    module = MODULES[kind]().double()
    kept = {name: p.clone() for name, p in module.named_parameters() if not p.requires_grad}
    engine, models = make_engine(module, backend=backend)
    expected = train_by_torch(module, engine, models)
    fitted = engine.fit(Rows.own(models), LocalSteps(optimizer=Adam(lr=0.1), **FIT), seed=3, round_=2)
    torch.testing.assert_close(fitted.models.tensors[0], expected)
    loss, grads = engine.grad(Rows.own(models), "val")
    for node, row in enumerate(models.tensors[0]):
        own = models.specs[0].load_into(copy_module(module), row)
        owned, pool = engine.tasks.splits["val"].of(node), engine.tasks.pools["all"]
        named = dict(own.named_parameters())
        value = F.cross_entropy(own(pool.inputs[owned]), pool.targets[owned])
        slopes = torch.autograd.grad(value, [named[name] for name in models.specs[0].names])
        torch.testing.assert_close(loss[node], value.detach())
        torch.testing.assert_close(grads[node], torch.cat([slope.flatten() for slope in slopes]))
    assert all(torch.equal(p, kept[name]) for name, p in module.named_parameters() if name in kept)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 4), (2, 3, 5, 4)])
@pytest.mark.parametrize("same", ["", "weight", "bias", "weight and bias", "weight, no bias"])
def test_linear_layers_whose_weights_are_the_same_for_all_rows(shape, same):
    x = normal(*shape)
    weight = normal(6, 4, seed=1) if "weight" in same else normal(2, 6, 4, seed=1)
    bias = None if "no" in same else normal(6, seed=2) if "bias" in same else normal(2, 6, seed=2)
    own = [weight if weight.dim() == 2 else weight[r] for r in range(2)]
    added = [None if bias is None else bias if bias.dim() == 1 else bias[r] for r in range(2)]
    expected = torch.stack([F.linear(x[r], own[r], added[r]) for r in range(2)])
    torch.testing.assert_close(stacked_linear(x, weight, bias), expected)
    dims = [0, 0 if weight.dim() == 3 else None, 0 if bias is not None and bias.dim() == 2 else None]
    with stacked_ops():
        torch.testing.assert_close(vmap(F.linear, tuple(dims))(x, weight, bias), expected)


def test_copies_share_what_is_frozen_and_nothing_else():
    module = Adapted()
    copied = copy_module(module)
    shared = {"base.weight", "base.bias", "angles"}
    own = dict(copied.named_parameters()) | dict(copied.named_buffers())
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        assert own[name] is not tensor
        assert (own[name].data_ptr() == tensor.data_ptr()) == (name in shared), name
    copied.requires_grad_(True)
    assert not module.base.weight.requires_grad
    copied.double()
    assert module.base.weight.dtype == torch.float32


def test_frozen_parameters_that_are_tied_or_have_hooks_are_copied_once():
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1))
    module[0].weight.register_hook(lambda grad: 2 * grad)
    module[1].weight = module[0].weight
    module[0].weight.requires_grad_(False)
    copied = copy_module(module)
    assert copied[0].weight is copied[1].weight
    assert copied[0].weight.data_ptr() == module[0].weight.data_ptr()


class Large(TorchDispatchMode):
    """Notes what makes tensors of at least so many numbers, elsewhere than where one lies that is known."""

    def __init__(self, least, known):
        super().__init__()
        self.least, self.known, self.seen = least, known.untyped_storage().data_ptr(), []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for one in found if isinstance(found, list | tuple) else [found]:
            large = isinstance(one, torch.Tensor) and one.numel() >= self.least
            if large and one.untyped_storage().data_ptr() != self.known:
                self.seen.append((str(func), tuple(one.shape)))
        return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_run_copies_the_base(tmp_path, backend):
    """Neither the trial, training, mixing, evaluation nor checkpoints, nor the models that come out of it."""

    class Own(nn.Sequential):
        """Unknown to the suite, which tries it every time (`tests.plans`)."""

    module = Own(nn.Linear(500, 500), nn.LayerNorm(500), nn.Linear(500, 2))
    module[0].requires_grad_(False)
    tasks = Tasks.from_samples([(normal(8, 500, seed=k).float(), torch.arange(8) % 2) for k in range(3)])
    with Large(500 * 500, module[0].weight) as large:
        result = run(dpsgd(epochs=1), tasks, module, rounds=2, compute=Compute(backend=backend), checkpoint=tmp_path)
        models = result.models()
    assert large.seen == []
    assert {model[0].weight.data_ptr() for model in models.values()} == {module[0].weight.data_ptr()}
    assert len({model[2].weight.data_ptr() for model in models.values()}) == 3


def test_a_large_base_is_not_made_double(monkeypatch):
    monkeypatch.setattr(trial, "MOST_DOUBLED", 25)
    for width, doubled in ((3, True), (10, False)):
        module, sample = Adapted(width), (torch.randn(5, 4), torch.arange(5) % 3)
        one = trial.Trial(module, ParamSpec.from_module(module), sample, as_objective("cross_entropy"))
        exact = one._in_double()
        assert (exact is not None) == doubled
        if exact is not None:
            torch.testing.assert_close(exact["gradient"].float(), one.expected["gradient"])


class Writes(Adapted):
    """Writes to what all share when it computes."""

    def __init__(self, write, only=None):
        super().__init__()
        self.write, self.only = write, only

    def forward(self, inputs):
        if self.only is None or self.training == (self.only == "training"):
            with torch.no_grad():
                self.write(self)
        return super().forward(inputs)


WRITES = {
    "in place": (lambda m: m.base.weight.mul_(1.5), "parameter 'base.weight'"),
    "by data": (lambda m: m.base.weight.data.mul_(1.5), "parameter 'base.weight'"),
    "a view": (lambda m: m.base.bias[1:].zero_(), "parameter 'base.bias'"),
    "several": (lambda m: torch._foreach_mul_([m.base.bias], 2.0), "parameter 'base.bias'"),
    "as output": (lambda m: torch.sin(m.base.bias, out=m.base.bias), "parameter 'base.bias'"),
    "a buffer": (lambda m: m.angles.add_(1), "buffer 'angles'"),
}


@pytest.mark.parametrize("mode", [None, "training", "evaluation"])
@pytest.mark.parametrize("how", WRITES)
def test_a_forward_pass_that_writes_is_refused(how, mode):
    write, what = WRITES[how]
    with raises("contract", what, "Writes", kind=FrozenWeightsError):
        run(dpsgd(), two_class_tasks(), Writes(write, mode), rounds=1)


@pytest.mark.parametrize("mode", [None, "training", "evaluation"])
@pytest.mark.parametrize("how", WRITES)
def test_a_trial_finds_it_too(make_engine, how, mode):
    write, what = WRITES[how]
    with raises("contract", what, "Writes", kind=FrozenWeightsError):
        make_engine(Writes(write, mode))


def test_an_embedding_that_renormalizes_frozen_weights_is_refused():
    module = nn.Sequential(nn.Embedding(3, 4, max_norm=0.1), nn.Flatten(), nn.Linear(8, 2))
    module[0].requires_grad_(False)
    tasks = Tasks.from_samples([(torch.arange(8).view(4, 2) % 3, torch.arange(4) % 2)] * 2)
    with raises("contract", "parameter '0.weight'", kind=FrozenWeightsError):
        run(dpsgd(), tasks, module, rounds=1)


def test_what_reads_views_and_writes_elsewhere_is_left_alone():
    module = nn.Linear(3, 2).requires_grad_(False)
    memory = torch.zeros(12)
    module.bias = nn.Parameter(memory[2:4], requires_grad=False)
    with unwritten(module):
        module(torch.ones(1, 3)).mul_(2).add_(module.weight.T[:1].sum())
        memory[:2] = memory[4:6] = 1  # beside it
    with raises("contract", "parameter 'bias'", kind=FrozenWeightsError), unwritten(module):
        memory[1:3] = 2
    assert memory[:6].tolist() == [1, 2, 2, 0, 1, 1]


class WritesLater(Callback):
    """Somebody else's code that has the same weights."""

    def __init__(self, module):
        self.module = module

    def on_round(self, data, history):
        with torch.no_grad():
            self.module.base.bias.add_(1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_whoever_writes_between_rounds_is_found(backend):
    module = Adapted()
    with raises("contract", "parameter 'base.bias'", kind=FrozenWeightsError):
        run(
            dpsgd(),
            two_class_tasks(),
            module,
            rounds=3,
            compute=Compute(backend=backend),
            callbacks=[WritesLater(module)],
        )


@pytest.mark.parametrize("compute", ["fit", "grad", "loss"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_whatever_is_computed_looks(make_engine, backend, compute):
    module = Adapted()
    engine, models = make_engine(module, backend=backend)
    rows = Rows.own(models)
    acts = {
        "fit": lambda: engine.fit(rows, LocalSteps(optimizer=SGD(lr=0.1), **FIT), seed=0, round_=0),
        "grad": lambda: engine.grad(rows, "val"),
        "loss": lambda: engine.loss(rows, "val"),
    }
    acts[compute]()
    with torch.no_grad():
        module.angles.add_(1)
    with raises("contract", "buffer 'angles'", kind=FrozenWeightsError):
        acts[compute]()


def test_weights_of_inference_mode_cannot_be_watched():
    with torch.inference_mode():
        module = Adapted()
    frozen = Frozen(module)
    assert {*frozen.tensors} == {"base.weight", "base.bias", "angles"}
    frozen.require_unchanged()
