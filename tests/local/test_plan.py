from __future__ import annotations

import copy
import re

import pytest
import torch
from torch import nn

from graphcollab.local import CrossEntropy, UserLoss, make_plan
from graphcollab.models import MLP, FedAvgCNN
from graphcollab.stack import ParamSpec
from graphcollab.typing import Embedded


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
    return make_plan(module, ParamSpec.from_module(module), sample, objective or CrossEntropy(), **settings)


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
        (Replacing(), (2,), "loop", "no stacked form: its buffers are replaced in training"),
        (FedAvgCNN.for_shape((1, 16, 16), 3), (1, 16, 16), "loop", "Conv2d on a CPU"),
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

    assert plan(MLP(2, 4, 3), objective=UserLoss(loss)).backend == "loop"


def test_chunks_follow_the_size_of_a_model():
    assert plan(MLP(2, 4, 3)).chunk == 8 * 2**20 // (4 * 27)
    assert plan(MLP(2, 4, 3), chunk=5).chunk == 5
    assert plan(nn.Linear(2, 3_000_000)).chunk == 1


def test_asking_for_a_backend():
    assert plan(FedAvgCNN.for_shape((1, 16, 16), 3), (1, 16, 16), backend="vmap").reason == "asked for"
    assert plan(MLP(2, 4, 3), backend="loop").as_dict()["reason"] == "asked for"
    with pytest.raises(ValueError, match=r"Recurrent cannot be stacked \(.*\): use backend 'loop' or 'auto'"):
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
    ("settings", "message"),
    [({"backend": "jit"}, "unknown backend 'jit'"), ({"chunk": 0}, "chunk must be at least 1 row, got 0")],
)
def test_refusals(settings, message):
    with pytest.raises(ValueError, match=message):
        plan(MLP(2, 4, 3), **settings)
