from __future__ import annotations

import pytest
import torch

from graphcollab.report import traffic_curves
from tests.raising import raises

CLUSTER = torch.tensor([0, 0, 1, 1, 1])
INSIDE = torch.tensor([[1, 3], [0, 2]])
OUTSIDE = torch.tensor([[2, 3], [0, 2]])  # 0 hears another cluster, 2 its own


def test_means_over_receivers_and_chance() -> None:
    graphs = {"dac": {2: (INSIDE, torch.ones(2)), 1: (OUTSIDE, torch.ones(2))}, "bad": {1: (OUTSIDE, torch.ones(2))}}
    figure = traffic_curves(graphs, CLUSTER, title="digits")
    axes = figure.axes[0]
    assert axes.lines[0].get_xdata().tolist() == [1, 2]
    assert axes.lines[0].get_ydata().tolist() == [50.0, 100.0]
    # two nodes have 1 of 4 peers inside, three have 2 of 4
    assert list(axes.lines[2].get_ydata()) == pytest.approx([40.0, 40.0])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["dac", "bad", "peers at random"]


def test_scored_models_do_not_count() -> None:
    graphs = {"pens": {1: (OUTSIDE, torch.tensor([0.0, 1.0]))}}
    assert traffic_curves(graphs, CLUSTER).axes[0].lines[0].get_ydata().tolist() == [100.0]


def test_rounds_without_messages_leave_a_gap() -> None:
    graphs = {"dac": {1: (INSIDE, torch.ones(2)), 2: (INSIDE, torch.zeros(2))}}
    assert str(traffic_curves(graphs, CLUSTER).axes[0].lines[0].get_ydata().tolist()) == "[100.0, nan]"


@pytest.mark.parametrize("graphs", [{}, {"dac": {}}])
def test_no_graph(graphs: dict[str, dict[int, tuple[torch.Tensor, torch.Tensor]]]) -> None:
    with raises("too-few", "graphs"):
        traffic_curves(graphs, CLUSTER)
