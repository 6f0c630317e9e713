"""Nodes whose model is a point and whose loss is its squared distance to targets: rounds can be worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from graphcollab.stack import Stacks
from graphcollab.tasks import Tasks
from graphcollab.testing import Scene


class Point(nn.Module):
    """Outputs its parameters whatever the input."""

    def __init__(self, width):
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(width, dtype=torch.float64))

    def forward(self, inputs):
        return inputs * 0 + self.theta


def half_square(outputs, targets):
    return 0.5 * (outputs - targets).square().sum(-1).mean()


@dataclass(frozen=True)
class Points:
    """A scene of points, and its state."""

    scene: Scene

    def begin(self, method, x=None, **fields):
        """Start a run from given points [K, D]."""
        data, env = self.scene.begin(method)
        if x is not None:
            rows = torch.tensor(x, dtype=torch.float64)
            data.x = data.x_init = Stacks.single(data.x.specs[0], rows)
        return data, env


@pytest.fixture
def points():
    """Return a function that makes nodes from their targets (one list of points each) and edges."""

    def make(train, val=None, edges=None, seed=0):
        def samples(many):
            targets = [torch.tensor(t, dtype=torch.float64) for t in many]
            return [(torch.zeros_like(t), t) for t in targets]

        tasks = Tasks.from_samples(
            samples(train), samples(train if val is None else val), loss=half_square, metric="mse"
        )
        pools = {name: type(pool)(pool.inputs.double(), pool.targets.double()) for name, pool in tasks.pools.items()}
        tasks = Tasks(pools, tasks.splits, tasks.names, tasks.loss, tasks.metric)
        edge_index = None if edges is None else torch.tensor(edges)
        return Points(Scene(tasks, [Point(len(train[0][0]))], edge_index, seed=seed))

    return make
