"""The words below a graph of who listens to whom."""

from __future__ import annotations

import pytest

from graphcollab.report.page.graph import Line, Listening
from graphcollab.report.page.graph_places import Groups
from graphcollab.report.page.graph_words import _caption


@pytest.mark.parametrize(("left_out", "drawn"), [([], ""), (["Of 9 recorded rounds 2 are drawn."], " drawn")])
def test_the_largest_weight_is_that_of_lines_drawn_where_some_are_not(left_out: list[str], drawn: str) -> None:
    lines = [Line(1, 2, 0, 1, 0.167), Line(2, 3, 1, 0, 0.125)]
    one = Listening(["Bern", "Genf"], [(0.0, 1.0), (0.0, -1.0)], Groups([0, 0], [2], 0.0), lines, [1, 2], left_out)
    assert f"rounds 1 to 2. The largest weight{drawn} is 0.167. Nodes form no groups." in _caption("l2c", one)


def test_a_single_round_leaves_no_line_out() -> None:
    one = Listening(["a", "b"], [(0.0, 1.0), (0.0, -1.0)], Groups([0, 0], [2], 0.0), [Line(4, 5, 0, 1, 0.5)], [4], [])
    said = _caption("l2c", one)
    assert "round 4. The largest weight is 0.5." in said
    assert said.endswith("a slider moves here.")
