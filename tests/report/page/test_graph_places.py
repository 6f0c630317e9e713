"""Groups of nodes, and where they are drawn."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import torch

from graphcollab.report.page.graph_places import groups_of, places_of
from graphcollab.report.page.other_charts import _bounds


def _blocks(*sizes: int) -> torch.Tensor:
    """Weights of nodes that listen to all of their block, and to nobody else."""
    block = torch.block_diag(*[torch.ones(size, size) for size in sizes])
    return block.fill_diagonal_(0)


def test_blocks_are_groups_the_largest_first() -> None:
    found = groups_of(_blocks(2, 5, 3))
    assert list(found.of) == [2, 2, 0, 0, 0, 0, 0, 1, 1, 1]
    assert list(found.sizes) == [5, 3, 2]
    inside = [1 / 28 * size * (size - 1) - (size * (size - 1) / 28) ** 2 for size in (5, 3, 2)]
    assert found.modularity == pytest.approx(sum(inside))  # Newman and Girvan, of 14 edges


def test_groups_are_apart() -> None:
    groups = groups_of(_blocks(20, 20, 10))
    places = places_of(groups, [0.0] * 50)
    assert all(-1 <= value <= 1 for place in places for value in place)
    centres = [
        tuple(sum(p[axis] for p, g in zip(places, groups.of, strict=True) if g == n) / size for axis in (0, 1))
        for n, size in enumerate(groups.sizes)
    ]
    for place, own in zip(places, groups.of, strict=True):
        assert min(range(3), key=lambda n: math.dist(place, centres[n])) == own
    assert min(math.dist(one, other) for one, other in combinations(places, 2)) > 0.02


def test_who_is_listened_to_most_is_in_the_middle() -> None:
    groups = groups_of(_blocks(12))
    heard = [0.0] * 12
    heard[7] = 3.0
    places = places_of(groups, heard)
    middle = [sum(place[axis] for place in places) / 12 for axis in (0, 1)]
    assert min(range(12), key=lambda k: math.dist(places[k], middle)) == 7


def test_few_are_on_a_circle() -> None:
    places = places_of(groups_of(_blocks(4)), [0.0] * 4)
    assert all(math.hypot(*place) == pytest.approx(1) for place in places)


@pytest.mark.parametrize(
    ("gains", "bounds"),
    [
        ([9.0, -9.0, 9.0], [-7, -5, -3, -1, 1, 3, 5, 7]),
        ([0.045], [-0.035, -0.025, -0.015, -0.005, 0.005, 0.015, 0.025, 0.035]),
        ([0.0], [-1.4, -1.0, -0.6, -0.2, 0.2, 0.6, 1.0, 1.4]),
    ],
)
def test_colours_meet_at_plain_numbers(gains: list[float], bounds: list[float]) -> None:
    assert _bounds(gains) == pytest.approx(bounds)
