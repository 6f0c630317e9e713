from __future__ import annotations

import pytest
import torch

from graphcollab.report import weight_by_overlap_figure
from tests.raising import raises

CLASSES = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 1, 1]]).bool()
EDGES = torch.tensor([[1, 2, 0, 0], [0, 0, 1, 0]])
WEIGHTS = torch.tensor([0.8, 0.2, 0.6, 0.1])


def test_means_counts_and_bars() -> None:
    figure = weight_by_overlap_figure({"l2c": (EDGES, WEIGHTS), "meta": (EDGES, WEIGHTS / 2)}, CLASSES, "title")
    assert [axes.get_title() for axes in figure.axes] == ["l2c", "meta"]
    for axes, factor in zip(figure.axes, (1, 0.5), strict=True):
        (bars,) = axes.containers
        line = bars.lines[0]
        assert line.get_xdata().tolist() == [1, 2]
        # one shared class: .2 and three pairs without an edge; two: .8 and .6
        assert line.get_ydata().tolist() == pytest.approx([0.05 * factor, 0.7 * factor])
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1\n(4)", "2\n(2)"]
        (low, high), _ = bars.lines[2][0].get_segments()
        assert low[1] == 0.0  # the bar of one shared class would reach below
        assert high[1] == pytest.approx(factor * (0.05 + 0.0075**0.5))


def test_negative_weights_have_whole_bars() -> None:
    (bars,) = weight_by_overlap_figure({"fomo": (EDGES, -WEIGHTS)}, CLASSES).axes[0].containers
    (low, high), _ = bars.lines[2][0].get_segments()
    assert (low[1] + high[1]) / 2 == pytest.approx(-0.05)


def test_bad_input() -> None:
    with raises("empty", "graphs"):
        weight_by_overlap_figure({}, CLASSES)
    with raises("range", "edge_index", "3"):
        weight_by_overlap_figure({"l2c": (EDGES + 1, WEIGHTS)}, CLASSES)
