"""What tests need: settings of hypothesis, where real data lies, and nodes whose rounds are done by hand."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import settings
from joblib.externals.loky.backend import context as loky
from torch import nn
from torch_geometric.data import Data

from graphcollab import Tasks
from graphcollab.comm import Plane
from graphcollab.components import Env
from graphcollab.engine import Stacks, engine
from graphcollab.engine.stack import ParamSpec
from graphcollab.testing import Scene
from graphcollab.testing.claims import NotApplicable
from tests import forked  # noqa: F401, which says what is loaded in the process to fork from
from tests.plans import computed_once

# Times on a shared machine say nothing about the code; in CI, every run tries the same examples.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# Three times a test pytest would begin to listen to some fifty loggers of PyTorch that pass nothing on.
for logger in logging.root.manager.loggerDict.values():
    if isinstance(logger, logging.Logger):
        logger.propagate = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Count a check of the contract that says nothing about a method as skipped."""
    try:
        yield
    except NotApplicable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session", autouse=True)
def plans_made_once() -> Iterator[None]:
    """Engines remember what they have tried; ``make_plan`` itself does not."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("make_plan", "check_plan"):
            patch.setattr(engine, name, computed_once(getattr(engine, name)))
        yield


@pytest.fixture(scope="session", autouse=True)
def processes_forked() -> Iterator[None]:
    """Processes of joblib are forked from one that has loaded PyTorch; those of scripts begin as a user's do."""
    before = loky.get_start_method()
    loky.set_start_method("forkserver", force=True)
    yield
    loky.set_start_method(before, force=True)


@pytest.fixture(scope="session", autouse=True)
def nothing_waits_for_the_disk() -> Iterator[None]:
    """Files survive a process that is killed without it, and no test cuts the power; that it is asked for is tested."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def data_root(pytestconfig: pytest.Config) -> Path:
    """The folder with the real datasets; a test that asks for it is skipped where none is named."""
    named = pytestconfig.getoption("--data-root")
    if not named:
        pytest.skip("needs real data: name its folder with --data-root or GRAPHCOLLAB_DATA")
    root = Path(named)
    if not root.is_dir():
        pytest.fail(
            f"expected a folder with datasets (--data-root or GRAPHCOLLAB_DATA), got {named!r}, which is not one"
        )
    return root


# Nodes whose model is a point and whose loss is its squared distance to targets: rounds can be worked out by hand.


class Point(nn.Module):
    """Outputs its parameters, times the input: 1, or the square root of a curvature."""

    def __init__(self, width):
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(width, dtype=torch.float64))

    def forward(self, inputs):
        return inputs * self.theta


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
    """Return a function that makes nodes from their targets c (one list of points each), a graph, and curvatures a.

    A node's loss is the mean of (a / 2) ‖x - c‖².
    """

    def make(train, val=None, edges=None, seed=0, curvature=None):
        def samples(many):
            targets = [torch.tensor(t, dtype=torch.float64) for t in many]
            roots = [a**0.5 for a in curvature or [1.0] * len(many)]
            return [(torch.full_like(t, root), root * t) for t, root in zip(targets, roots, strict=True)]

        tasks = Tasks.from_samples(
            samples(train), samples(train if val is None else val), loss=half_square, metric="mse"
        )
        pools = {name: type(pool)(pool.inputs.double(), pool.targets.double()) for name, pool in tasks.pools.items()}
        tasks = Tasks(pools, tasks.splits, tasks.names, tasks.loss, tasks.metric)
        graph = torch.tensor(edges) if isinstance(edges, list) and len(edges) == 2 else edges
        return Points(Scene(tasks, [Point(len(train[0][0]))], graph, seed=seed))

    return make


# Graphs whose models are short vectors, for stages that are tested without training.


@pytest.fixture
def make_graph():
    """Return a function that puts vectors on a graph: x_start, x (default: the same), edges."""

    def make(x_start, x=None, edges=((), ()), **fields):
        start = torch.as_tensor(x_start)
        module = nn.ParameterDict({"theta": nn.Parameter(torch.zeros(start.shape[1]))})
        spec = ParamSpec.from_module(module)
        edge_index = torch.as_tensor(edges, dtype=torch.int64)
        count = len(start)
        data = Data(num_nodes=count, edge_index=edge_index, node_id=torch.arange(count))
        data.x_init = data.x_start = Stacks.single(spec, start)
        data.x = data.x_start if x is None else Stacks.single(spec, torch.as_tensor(x))
        data.trains = data.serves = data.present = torch.ones(count, dtype=torch.bool)
        data.isolated = torch.zeros(count, dtype=torch.bool)
        data.bytes_sent = torch.zeros(count, dtype=torch.float64)
        data.edge_weight = torch.zeros(edge_index.shape[1])
        data.round = data.phase_start = 0
        for name, value in fields.items():
            data[name] = value
        return data

    return make


@pytest.fixture
def make_env():
    """Return a function that makes an environment whose nodes have some numbers of training samples."""

    def make(sizes=(), seed=0):
        tasks = SimpleNamespace(sizes=lambda split: torch.as_tensor(sizes))
        return Env(SimpleNamespace(tasks=tasks), Plane(), seed)

    return make
