"""The graph of who listens to whom: groups, places and the words below it."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import torch

from graphcollab.report.page.graph import Line, Listening, _caption, _laid_out


def _blocks(*sizes: int) -> torch.Tensor:
    """Weights of nodes that listen to all of their block, and to nobody else."""
    block = torch.block_diag(*[torch.ones(size, size) for size in sizes])
    return block.fill_diagonal_(0)


def test_blocks_are_groups_the_largest_first() -> None:
    groups, modularity, _ = _laid_out(_blocks(2, 5, 3))
    assert groups == [2, 2, 0, 0, 0, 0, 0, 1, 1, 1]
    inside = [1 / 28 * size * (size - 1) - (size * (size - 1) / 28) ** 2 for size in (5, 3, 2)]
    assert modularity == pytest.approx(sum(inside))  # Newman and Girvan, of 14 edges


@pytest.mark.parametrize("sizes", [(4,), (20, 20, 10)])
def test_nodes_have_places_of_their_own(sizes: tuple[int, ...]) -> None:
    *_, places = _laid_out(_blocks(*sizes))
    assert all(-1.01 <= value <= 1.01 for place in places for value in place)
    assert min(math.dist(one, other) for one, other in combinations(places, 2)) > 0.01
    assert places == _laid_out(_blocks(*sizes))[2]


@pytest.mark.parametrize(("left_out", "drawn"), [([], ""), (["Of 9 recorded rounds 2 are drawn."], " drawn")])
def test_the_largest_weight_is_that_of_lines_drawn_where_some_are_not(left_out: list[str], drawn: str) -> None:
    lines = [Line(1, 2, 0, 1, 0.167), Line(2, 3, 1, 0, 0.125)]
    one = Listening(["Bern", "Genf"], [(0.0, 1.0), (0.0, -1.0)], [0, 0], 0.0, lines, [1, 2], left_out)
    assert f"rounds 1 to 2. The largest weight{drawn} is 0.167. Nodes form no groups." in _caption("l2c", one)


def test_a_single_round_leaves_no_line_out() -> None:
    one = Listening(["a", "b"], [(0.0, 1.0), (0.0, -1.0)], [0, 0], 0.0, [Line(4, 5, 0, 1, 0.5)], [4], [])
    said = _caption("l2c", one)
    assert "round 4. The largest weight is 0.5." in said
    assert said.endswith("a slider moves here.")
