"""Methods that look for peers meet all there are where these are fewer than they ask for."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from graphcollab import methods, run
from graphcollab._base.errors import MissingError, UnknownError
from graphcollab.components import Exchanger
from graphcollab.data.partition import linear_regression_tasks
from graphcollab.methods.method import last_graph
from graphcollab.testing import Scene
from tests.methods.quick import early
from tests.raising import raises

EARLY = {"pens": {"explore_rounds": 1}, "panm": {"explore_rounds": 1, "every": 1}}


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", [name for name in methods.__all__ if methods.get_method(name)().finds_peers])
def test_default_settings(name, count):
    """Two of its stages; the weights of every node sum to 1, or to at most 1 where gains may all be negative."""
    tasks = linear_regression_tasks(nodes=(count,), seed=0)
    method = getattr(methods, name)(**EARLY.get(name, {}))
    result = run(method, tasks, torch.nn.Linear(10, 1), rounds=3)
    (sender, receiver), weight = last_graph(result.data)
    total = torch.zeros(count).index_add_(0, receiver, weight)
    if name == "fomo":
        assert (total < 1 + 1e-5).all()
    else:
        torch.testing.assert_close(total, torch.ones(count))
    assert result.stacks.part("all").isfinite().all()
    if name in ("dac", "random_peers", "oracle"):  # the others choose
        assert ((sender != receiver) & (weight > 0)).sum() == count * (count - 1)


@pytest.mark.filterwarnings("ignore:.*never played")
def test_pens_and_panm_choose_among_those_there_are():
    """At three nodes two others are met: PENS takes both (top_m = 2), PANM its k = 5 neighbors as far as they go."""
    tasks = linear_regression_tasks(nodes=(3,), seed=0)
    for method in (methods.pens(explore_rounds=1), methods.panm(explore_rounds=1, every=1)):
        result = run(method, tasks, torch.nn.Linear(10, 1), rounds=1)
        (sender, receiver), weight = last_graph(result.data)
        assert ((sender != receiver) & (weight > 0)).sum() == 6


def test_one_node_alone_is_told_so():
    tasks = linear_regression_tasks(nodes=(1,), seed=0)
    with raises("too-few", "nodes"):
        run(methods.dac(), tasks, torch.nn.Linear(10, 1), rounds=1)


@pytest.mark.filterwarnings("ignore:.*never played", "ignore:.*weights are")
@pytest.mark.parametrize("name", methods.__all__)
def test_models_without_the_parts_that_a_method_needs_are_refused_with_advice(name):
    """Whether by default or by what is asked for."""
    tasks = Scene.small(torch.float32).tasks
    for settings in ({}, {"part": "tail"}):
        method = early(name, epochs=1, fraction=1.0, **settings)
        parts = {piece.part for piece in method.walk() if isinstance(piece, Exchanger)}
        fits = parts <= {"all", "slopes"} and not method.embeds
        with nullcontext() if fits else pytest.raises((MissingError, UnknownError)):
            run(method, tasks, torch.nn.Linear(4, 3), rounds=1)
