"""The graph of who listens to whom: places and lines."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import torch

from graphcollab.report.page.listening import _lines, _places


def _blocks(*sizes: int) -> torch.Tensor:
    """Weights of nodes that listen to all of their block, and to nobody else."""
    block = torch.block_diag(*[torch.ones(size, size) for size in sizes])
    return block.fill_diagonal_(0)


@pytest.mark.parametrize("sizes", [(4,), (20, 20, 10)])
def test_nodes_have_places_of_their_own(sizes: tuple[int, ...]) -> None:
    places = _places(_blocks(*sizes))
    assert all(-1.01 <= value <= 1.01 for place in places for value in place)
    assert min(math.dist(one, other) for one, other in combinations(places, 2)) > 0.01
    assert places == _places(_blocks(*sizes))


def test_the_largest_weights_of_every_receiver_are_lines_until_the_next_round_drawn() -> None:
    weights = torch.tensor([[[0.0, 0.5, 0.25], [0.0, 0.0, 0.0], [1 / 3, 0.0, 0.0]], [[0.0, 0.0, 0.125]] * 3])
    assert _lines(weights, [2, 6], 1) == [
        (2, 6, 1, 0, 0.5),
        (2, 6, 0, 2, 0.333),
        *((6, 7, 2, k, 0.125) for k in range(3)),
    ]
