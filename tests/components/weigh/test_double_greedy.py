"""The randomized double greedy search, on one parameter: L(θ) = (θ - c)², whose sets were worked out by hand."""

from __future__ import annotations

import itertools

import pytest
import torch

from graphcollab.components.weigh.double_greedy import double_greedy
from tests.pretend import DEVICE, Accelerator


def chosen_set(theta, c, order, budget, uniform=0.5):
    """The set of node 0, which looks at candidates in an order; the others choose nobody."""
    many = len(theta)
    edges = torch.tensor([[0, *order, *range(1, many)], [0, *[0] * len(order), *range(1, many)]])
    values = torch.tensor(theta)[edges[0]]

    def losses(members):
        mean = torch.zeros(many).double().index_add_(0, edges[1], (values * members).double())
        mean /= torch.bincount(edges[1][members], minlength=many)
        return (mean - c) ** 2

    candidates = edges[0] != edges[1]
    turn = torch.tensor([0, *range(len(order)), *[0] * (many - 1)])
    chosen = double_greedy(losses, edges, candidates, turn, torch.full((edges.shape[1],), uniform), budget)
    assert chosen[~candidates].all()
    return set(edges[0][chosen & (edges[1] == 0)].tolist()), losses(chosen)[0].item()


FOUR = [0.0, 2.0, -1.0, 8.0]


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1)])
@pytest.mark.parametrize("uniform", [0.01, 0.99])
def test_certain_steps(order, uniform):
    """All probabilities are 0 or 1 here; the set's mean is 1/3, so that (10 - L) / 10 = .997222."""
    members, loss = chosen_set(FOUR, 0.5, order, 4, uniform)
    assert members == {0, 1, 2}
    assert (10 - loss) / 10 == pytest.approx(0.997222, abs=1e-6)


def test_a_candidate_that_harms_is_added_where_leaving_it_out_harms_too():
    members, loss = chosen_set(FOUR, 0.5, (2, 1, 3), 2)
    assert members == {0, 2}
    assert (10 - loss) / 10 == pytest.approx(0.9)  # alone it is .975


def test_the_probability_in_between():
    """θ = (0, 2, 3), c = .75, z = 1 first: a = .05 and b = .027778 of (10 - L) / 10, so p = 9 / 14."""
    assert 1 in chosen_set([0.0, 2.0, 3.0], 0.75, (1, 2), 2, uniform=9 / 14 - 1e-6)[0]
    assert 1 not in chosen_set([0.0, 2.0, 3.0], 0.75, (1, 2), 2, uniform=9 / 14 + 1e-6)[0]


@pytest.mark.parametrize("budget", [1, 2, 3, 4])
def test_no_set_is_larger_than_the_budget(budget):
    for order in itertools.permutations((1, 2, 3)):
        for uniform in (0.2, 0.8):
            assert len(chosen_set(FOUR, 0.5, order, budget, uniform)[0]) <= budget
    assert chosen_set(FOUR, 0.5, (1, 2, 3), 1)[0] == {0}


@pytest.mark.parametrize(
    ("place", "budget", "sets", "waits"),
    [("cpu", 3, 2 + 2 * 2, 0), ("cpu", 21, 2 + 2 * 20, 0), (DEVICE, 3, 2 + 2 * 5, 2), (DEVICE, 21, 2 + 2 * 20, 4)],
)
def test_how_long_it_takes_and_how_often_a_device_is_waited_for(place, budget, sets, waits):
    """Node 0 has 0, the other 20 have 1, which is what it wants: the first ones are added until its set is full.

    On a device that is asked before the 6th, the 11th and the 16th candidate only; waited for are answers and result.
    """
    edges = torch.stack([torch.arange(21), torch.zeros(21, dtype=torch.int64)])
    theta = (edges[0] > 0).double()
    asked = []
    with Accelerator() as device:
        values = theta.to(place, non_blocking=True)

        def losses(members):
            asked.append(members)
            weight = members.to(place, non_blocking=True).double()
            return (((weight * values).sum() / weight.sum() - 1) ** 2)[None]

        settings = edges, edges[0] > 0, (edges[0] - 1).clamp(min=0), torch.full((21,), 0.5)
        found = double_greedy(losses, *settings, budget)
        assert sum(device.waits.values()) == waits
    assert found.tolist() == [True] * budget + [False] * (21 - budget)
    assert len(asked) == sets
