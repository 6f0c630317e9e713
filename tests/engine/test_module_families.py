"""Every family of modules against plain PyTorch: equal, or refused by name."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from graphcollab import Tasks
from graphcollab._base.errors import UnsupportedError
from graphcollab.data.samples import Pool, Split
from graphcollab.data.schedule import make_schedule
from graphcollab.engine import SGD, Adam, AdamW, Engine, LocalSteps, Rows, Stacks
from graphcollab.engine.randomness import keyed_layers
from graphcollab.engine.stack import ParamSpec

sys.path.insert(0, str(Path(__file__).parent))  # files of tests do not form a package
from module_families import FAMILIES, OneNumber

from tests.raising import raises

pytestmark = pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
SIZES = (8, 6, 9, 5)  # in batches of 3, of which none is of one sample
KEY = {"seed": 3, "round_": 2}
FIT = {"batch_size": 3, "epochs": 2}
SHAPES = {"flat": (4,), "image": (1, 6, 6), "sequence": (5, 3)}
EPS = 1e-3  # Adam divides gradients by their size, also those that are 0 but for rounding
OPTIMIZERS = {
    "sgd": (SGD(lr=0.1, weight_decay=0.05), lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.05)),
    "momentum": (
        SGD(lr=0.05, momentum=0.9, weight_decay=0.05),
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.05),
    ),
    "adam": (
        Adam(lr=0.02, weight_decay=0.05, eps=EPS),
        lambda p: torch.optim.Adam(p, lr=0.02, weight_decay=0.05, eps=EPS),
    ),
    "adamw": (
        AdamW(lr=0.02, weight_decay=0.05, eps=EPS),
        lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.05, eps=EPS),
    ),
}
QUICK = (
    "mlp", "ReLU in place", "first in place", "batch norm", "batch norm, no tracking", "batch norm, cumulative",
    "layer norm", "conv 2d", "instance norm", "dropout", "embedding", "embedding, padding_idx",
    "embedding, scaled by frequency", "embedding, max_norm", "embedding, sparse", "LSTM", "transformer layer",
    "weight norm, old", "spectral norm", "pruned", "tied weights", "frozen parts", "unused parts", "writes its weights",
    "running average replaced", "keeps an activation", "centers on the batch", "batch norm by function",
    "hook on an activation's gradient", "hook on a parameter's gradient", "patched by a function",
)  # fmt: skip
ACCEPTED = [name for name, family in FAMILIES.items() if family.backend is not None]


def make(name):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        module = FAMILIES[name].make()
    return module if FAMILIES[name].kind.startswith("number") else module.double()


def nodes(name, module):
    """Return tasks of unequal nodes, and a model for each."""
    draw, total, takes = torch.Generator().manual_seed(0), sum(SIZES), FAMILIES[name].takes
    if takes == "tokens":
        inputs = torch.randint(6, (total, 4), generator=draw)
    else:
        inputs = torch.randn(total, *SHAPES[takes], generator=draw, dtype=torch.float64)
    split = Split.from_lists("all", list(torch.arange(total).split(list(SIZES))))
    tasks = Tasks({"all": Pool(inputs, torch.randint(3, (total,), generator=draw))}, {"train": split, "val": split})
    spec = ParamSpec.from_module(module)
    rows = spec.flatten(module).repeat(len(SIZES), 1)
    noise = torch.randn(len(SIZES), spec.num_parameters, generator=draw, dtype=torch.float64)
    rows[:, : spec.num_parameters] += 0.1 * noise.to(rows)
    return tasks, spec, Stacks.single(spec, rows)


def train_by_torch(module, spec, tasks, row, node, optimizer):
    """Train the plain module on a node's batches; return the row."""
    split, pool = tasks.splits["train"], tasks.pools["all"]
    schedule = make_schedule(split.sizes, tasks.ids, KEY["seed"], KEY["round_"], FIT["batch_size"], FIT["epochs"])
    spec.load_into(module, row).train()
    stepper = optimizer([p for p in module.parameters() if p.requires_grad])
    with keyed_layers(KEY["seed"], int(tasks.ids[node]), KEY["round_"]):
        for step in range(int(schedule.steps[node])):
            batch = split.of(node)[schedule.position[node, step, : int(schedule.size[node, step])]]
            stepper.zero_grad()
            F.cross_entropy(module(pool.inputs[batch].clone()), pool.targets[batch]).backward()
            for parameter in module.parameters():
                if parameter.grad is not None and parameter.grad.is_sparse:
                    parameter.grad = parameter.grad.to_dense()
            stepper.step()
    return spec.flatten(module)


def judged(module, spec, tasks, row, node):
    """Return the plain module's loss on a node's samples in evaluation mode, and its gradient."""
    own, pool = tasks.splits["val"].of(node), tasks.pools["all"]
    spec.load_into(module, row).eval()
    params = dict(module.named_parameters())
    loss = F.cross_entropy(module(pool.inputs[own].clone()), pool.targets[own])
    grads = torch.autograd.grad(
        loss, [params[n] for n in spec.names[: spec.num_named_parameters]], materialize_grads=True
    )
    return loss.detach(), torch.cat([g.to_dense().flatten() for g in grads])


def check(name, optimizers, backend="auto"):
    """Compare training, losses and gradients of all nodes with those of the plain module."""
    module = make(name)
    tasks, spec, models = nodes(name, module)
    engine = Engine(tasks, [module], [spec], backend=backend)
    before = models.tensors[0].clone()
    plain = make(name)
    close = {"rtol": 1e-9, "atol": 1e-10}
    for ours, theirs in (OPTIMIZERS[one] for one in optimizers):
        fitted = engine.fit(Rows.own(models), LocalSteps(optimizer=ours, **FIT), **KEY).models.tensors[0]
        for node, row in enumerate(before):
            torch.testing.assert_close(fitted[node], train_by_torch(plain, spec, tasks, row, node, theirs), **close)
    losses, gradients = engine.grad(Rows.own(models), "val")
    for node, row in enumerate(before):
        loss, gradient = judged(plain, spec, tasks, row, node)
        torch.testing.assert_close(losses[node], loss, **close)
        torch.testing.assert_close(gradients[node], gradient, **close)
    torch.testing.assert_close(engine.loss(Rows.own(models), "val"), losses, **close)
    assert torch.equal(models.tensors[0], before)
    return engine.plans[0]


def plan_of(name, module):
    tasks, spec, _ = nodes(name, module)
    return Engine(tasks, [module], [spec]).plans[0]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_plan(name):
    """What is documented is chosen, or refused by name before training."""
    family, module = FAMILIES[name], make(name)
    if family.backend is None:
        with raises(*family.refused):
            plan_of(name, module)
        return
    plan = plan_of(name, module)
    assert (plan.backend, plan.padding) == (family.backend, family.padding or plan.padding)
    assert re.search(family.says, plan.reason)


@pytest.mark.parametrize("name", QUICK)
def test_equal_to_plain_training(name):
    check(name, ("sgd", "momentum"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ACCEPTED)
def test_all_equal_to_plain_training(name):
    check(name, OPTIMIZERS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("backend", ["vmap", "loop"])
@pytest.mark.parametrize("name", ACCEPTED)
def test_all_with_each_backend(name, backend):
    """Equal, or refused by name; noise inside layers is keyed per chunk under vmap."""
    random = FAMILIES[name].kind == "dropout and noise" or "dropout" in name
    if backend == "vmap" and random:
        return
    try:
        plan = check(name, ("momentum", "adam"), backend)
    except UnsupportedError as error:
        if backend == "loop" or FAMILIES[name].backend == "vmap" or error.subject != "backend":
            raise
    else:
        assert plan.backend == backend


@pytest.mark.parametrize("backend", ["auto", "loop", "vmap"])
@pytest.mark.parametrize(
    ("loss", "plain"), [("bce", F.binary_cross_entropy_with_logits), ("mse", F.mse_loss)], ids=["bce", "mse"]
)
def test_outputs_of_one_number_per_sample(loss, plain, backend):
    """[B], where ``forward`` ends in ``.squeeze(-1)``."""
    draw = torch.Generator().manual_seed(0)
    data = [
        (torch.randn(n, 4, generator=draw).double(), torch.randint(2, (n,), generator=draw).double()) for n in (7, 3)
    ]
    split = Split.from_lists("all", list(torch.arange(10).split([7, 3])))
    pool = Pool(*(torch.cat(parts) for parts in zip(*data, strict=True)))
    metric = "accuracy" if loss == "bce" else "mse"
    tasks = Tasks({"all": pool}, {"train": split, "val": split}, loss=loss, metric=metric)
    module = OneNumber().double()
    spec = ParamSpec.from_module(module)
    engine = Engine(tasks, [module], [spec], backend=backend)
    assert engine.plans[0].backend == ("loop" if backend == "loop" else "vmap")
    models = Stacks.single(spec, spec.flatten(module).repeat(2, 1))
    before = models.tensors[0].clone()
    steps = LocalSteps(optimizer=SGD(lr=0.1), batch_size=9, epochs=2)
    fitted = engine.fit(Rows.own(models), steps, **KEY).models.tensors[0]
    losses = engine.loss(Rows.own(models), "val")
    for (inputs, targets), row, trained, judged in zip(data, before, fitted, losses, strict=True):
        spec.load_into(module, row.clone())
        torch.testing.assert_close(judged, plain(module(inputs), targets).detach(), rtol=1e-9, atol=1e-10)
        stepper = torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(2):
            stepper.zero_grad()
            plain(module(inputs), targets).backward()
            stepper.step()
        torch.testing.assert_close(trained, spec.flatten(module), rtol=1e-9, atol=1e-10)


PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def test_the_table_of_families():
    """What the page says is what the plans say: kind of module, and the backends on a CPU."""
    table = PAGE.read_text(encoding="utf-8").split("<!-- families -->")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", table, re.MULTILINE)[1:])
    found: dict[str, set[str]] = {}
    for family in FAMILIES.values():
        found.setdefault(family.kind, set()).add(family.backend or "refused")
    assert {kind: set(backends.split(", ")) for kind, backends in rows.items()} == found
    assert len(FAMILIES) >= 60
