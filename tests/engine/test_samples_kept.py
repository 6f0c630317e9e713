"""Samples are never changed, whatever a module, a loss or a metric does to what it is given."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab import Tasks, run
from graphcollab.analysis.metrics import Metric
from graphcollab.components import Fit
from graphcollab.engine import SGD, Views
from graphcollab.methods import fomo, l2c, local
from graphcollab.models import MLP
from graphcollab.train import Compute


class Writes(nn.Module):
    """Changes its input in place."""

    def __init__(self, first=False):
        super().__init__()
        self.first, self.head = first, nn.Linear(4, 3)

    def forward(self, inputs):
        inputs = inputs.clone() if self.first else inputs
        inputs -= 0.1
        return self.head(inputs)


def leading(copies):
    return nn.Sequential(nn.LeakyReLU(0.3, inplace=not copies), nn.Linear(4, 3))


def nested(copies):
    return nn.Sequential(nn.Sequential(nn.Identity(), nn.ELU(inplace=not copies)), nn.Flatten(), nn.Linear(4, 3))


def flat(copies):
    """An activation writes what the flattening only looks at in another shape."""
    return nn.Sequential(nn.Flatten(), nn.ReLU6(inplace=not copies), nn.Linear(4, 3))


MODULES = {"writes": Writes, "leading": leading, "nested": nested, "flat": flat}


def tasks(sizes=(6, 6, 6), **settings):
    draw = torch.Generator().manual_seed(0)
    samples = [(torch.randn(n, 4, generator=draw), torch.randint(3, (n,), generator=draw)) for n in sizes]
    return Tasks.from_samples(samples, samples, samples, **settings)


def pools(tasks):
    return copy.deepcopy({name: (pool.inputs, pool.targets) for name, pool in tasks.pools.items()})


def are_unchanged(before, tasks):
    return all(
        torch.equal(x, tasks.pools[name].inputs) and torch.equal(y, tasks.pools[name].targets)
        for name, (x, y) in before.items()
    )


def play(module, data, backend, method=None):
    """Some rounds; return the models and the history's numbers."""
    before = pools(data)
    result = run(method or local(lr=0.1), data, module, rounds=2, compute=Compute(backend=backend))
    assert are_unchanged(before, data)
    values = result.history.values
    return result.data.x.tensors[0], torch.stack([torch.stack(list(values[n])) for n in ("val_loss", "test_metric")])


def seeded(make, *args):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make(*args)


CASES = [(local, kind, backend) for kind in MODULES for backend in ("vmap", "loop")]
CASES += [(local, "flat", "auto"), (l2c, "writes", "auto"), (l2c, "flat", "loop")]  # which ask for gradients, too
CASES += [(fomo, "leading", "auto"), (fomo, "nested", "loop")]  # which judges models by data of others


@pytest.mark.parametrize(("method", "kind", "backend"), CASES)
def test_modules_that_write_their_input(kind, backend, method):
    """They train and are judged as those that copy it first."""
    settings = {"lr": 0.1, **({"samples": 2} if method is fomo else {})}
    writing, copying = (
        play(seeded(MODULES[kind], copies), tasks(), backend, method(**settings)) for copies in (False, True)
    )
    assert all(torch.equal(one, two) for one, two in zip(writing, copying, strict=True))


def writing_loss(outputs, targets):
    loss = F.cross_entropy(outputs, targets.clone())
    outputs.detach().mul_(-1)
    targets.fill_(0)
    return loss


def writing_metric(outputs, targets):
    value = (outputs.argmax(1) == targets).float().mean()
    outputs.fill_(0)
    targets.fill_(0)
    return float(value)


def plain_metric(outputs, targets):
    return float((outputs.argmax(1) == targets).float().mean())


@pytest.mark.parametrize("backend", ["vmap", "loop"])
@pytest.mark.parametrize("module", [MLP(4, 5, 3), Writes()], ids=["chain", "writes"])
def test_losses_and_metrics_that_write(module, backend):
    writing = play(
        module, tasks((6, 9, 4), loss=writing_loss, metric=Metric.per_node("accuracy", True, writing_metric)), backend
    )
    plain = play(
        module, tasks((6, 9, 4), loss=F.cross_entropy, metric=Metric.per_node("accuracy", True, plain_metric)), backend
    )
    assert all(torch.equal(one, two) for one, two in zip(writing, plain, strict=True))


def test_views_that_write():
    def darken(images):
        return images.mul_(0.5)

    data = tasks()
    method = local().replace(local=Fit(optimizer=SGD(lr=0.1), views=Views(darken, 2)))
    play(MLP(4, 5, 3), data, "auto", method)
