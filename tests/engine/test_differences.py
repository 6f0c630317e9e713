"""What a trial on a few samples finds, with backends that are wrong in one thing each."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab.engine.loop_backend import LoopBackend
from graphcollab.engine.losses import as_objective
from graphcollab.engine.padding import padding_of
from graphcollab.engine.plan import Plan
from graphcollab.engine.stack import ParamSpec
from graphcollab.engine.trial import RATE, Trial
from graphcollab.engine.vmap_backend import VmapBackend

CROSS_ENTROPY = as_objective("cross_entropy")
SQUARED_ERROR = as_objective("mse")

DRAW = torch.Generator().manual_seed(0)
SAMPLE = torch.randn(5, 4, generator=DRAW), torch.tensor([0, 1, 2, 0, 1])


def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))


def trial(module, objective=None, sample=SAMPLE):
    return Trial(module, ParamSpec.from_module(module), sample, objective or CROSS_ENTROPY)


def test_numbers_by_hand():
    """y = w x, squared error: the second node has the samples (1, 3) and (2, 0), so dL/dw = (1·(w−3) + 2·(2w−0))."""
    module = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        module.weight.fill_(1.0)
    sample = torch.tensor([[1.0], [2.0], [4.0], [0.0], [5.0]]), torch.tensor([3.0, 0.0, 1.0, 0.0, 5.0])
    tried = trial(module, SQUARED_ERROR, sample)
    numbers = tried.expected
    first, second = 1.0, 1.0 + 0.01 * 2.0  # moved by cos(0) = 1 hundredth of 1 + |w|
    assert tried.flat.flatten().tolist() == pytest.approx([first, second])
    assert numbers["outputs"].tolist() == pytest.approx([4, 0, 4, 5, second, 2 * second])
    gradient = (second - 3) + 2 * (2 * second)
    # the first node: 4, 0, 4, 5 with the targets 1, 0, 1, 5
    assert numbers["gradient"].flatten().tolist() == pytest.approx([(2 * 4 * 3 * 2) / 4, gradient])
    assert numbers["loss"].tolist() == pytest.approx([18 / 4, ((second - 3) ** 2 + (2 * second) ** 2) / 2])
    assert numbers["parameters after a step"].flatten().tolist() == pytest.approx(
        [first - RATE * 12, second - RATE * gradient]
    )


def backend_for(kind, tried):
    """A backend for the models of a trial, which look across the batch in training."""
    return kind(tried.module, tried.spec, Plan(kind.name, 2, "by hand", "evaluation"))


@pytest.mark.parametrize("kind", [VmapBackend, LoopBackend])
def test_right_backends(kind):
    tried = trial(network())
    assert tried.difference(backend_for(kind, tried)) is None


def wrong(kind, **methods):
    """A backend with some methods that change what the right ones return."""

    def change(name, edit):
        return lambda self, *args, **kwargs: edit(getattr(kind, name)(self, *args, **kwargs))

    return type("Wrong", (kind,), {name: change(name, edit) for name, edit in methods.items()})


def at(values, column, by=0.1):
    values = values.clone()
    values[-1, column] += by
    return values


@pytest.mark.parametrize("kind", [VmapBackend, LoopBackend])
@pytest.mark.parametrize(
    ("methods", "wanted"),
    [
        ({"predict": lambda out: out + 0.01}, "its outputs"),
        ({"gradient": lambda out: (out[0] + 0.1, out[1])}, "its loss"),
        ({"gradient": lambda out: (out[0], at(out[1], 0))}, "its gradient ('0.weight')"),
        ({"gradient": lambda out: (out[0], at(out[1], 24))}, "its gradient ('0.bias')"),
        ({"fit": lambda out: (out[0], out[1], out[2] + 0.1)}, "its loss in training"),
        ({"fit": lambda out: (at(out[0], 25), out[1], out[2])}, "its parameters after a step ('1.weight')"),
        ({"fit": lambda out: (at(out[0], 60), out[1], out[2])}, "its buffers after a step ('1.running_var')"),
    ],
)
def test_what_is_wrong_is_named(kind, methods, wanted):
    tried = trial(network())
    assert tried.spec.num_parameters == 53
    assert tried.difference(backend_for(wrong(kind, **methods), tried)) == wanted


class Looks(nn.Linear):
    """Looks across the batch, by how much."""

    def __init__(self, share, training_only=False):
        super().__init__(4, 3)
        self.share, self.training_only = share, training_only

    def forward(self, inputs):
        mean = inputs.mean(0) if self.training or not self.training_only else 0
        return super().forward(inputs - self.share * mean)


@pytest.mark.parametrize(
    ("module", "padding"),
    [
        (nn.Linear(4, 3), "always"),
        (Looks(0.0), "always"),
        (Looks(0.01), "never"),
        (Looks(0.01, True), "evaluation"),
        (network(), "evaluation"),
        (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, track_running_stats=False)), "never"),
        (nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)), "evaluation"),
    ],
    ids=["linear", "no look", "look", "look in training", "batch norm", "no tracking", "dropout"],
)
def test_padding(module, padding):
    assert padding_of(trial(module)) == padding


def test_losses_that_cannot_weigh_are_not_padded():
    from graphcollab.engine import Loss

    assert padding_of(trial(nn.Linear(4, 3), Loss(nn.functional.cross_entropy))) == "evaluation"
