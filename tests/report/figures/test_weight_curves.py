from __future__ import annotations

import numpy as np
import torch
from matplotlib.axes import Axes

from graphcollab.report import weight_curves
from tests.raising import raises

CLUSTER = torch.tensor([0, 0, 1, 1])
COMPLETE = torch.tensor([[j, i] for i in range(4) for j in range(4) if i != j]).T
SAME = CLUSTER[COMPLETE[0]] == CLUSTER[COMPLETE[1]]


def curves(axes: Axes) -> dict[str, list[float]]:
    return {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in axes.lines}


def band(axes: Axes, place: int) -> tuple[float, float]:
    ends = np.asarray(axes.collections[place].get_paths()[0].vertices)[:, 1]
    return float(ends.min()), float(ends.max())


def test_mean_and_extremes_by_hand() -> None:
    late = torch.where(SAME, 1.0, 0.0)
    late[(COMPLETE[0] == 0) & (COMPLETE[1] == 1)] = 0.5  # one of 4 pairs inside clusters
    late[(COMPLETE[0] == 2) & (COMPLETE[1] == 0)] = 0.25  # one of 8 between them
    figure = weight_curves({20: (COMPLETE, late), 1: (COMPLETE, torch.ones(12))}, CLUSTER, title="cobo")
    (axes,) = figure.axes
    assert axes.get_title() == "all nodes"
    assert axes.get_ylabel() == "weight"
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == [1, 20]
    assert curves(axes) == {"own cluster": [1.0, 0.875], "others": [1.0, 0.03125]}
    assert band(axes, 0) == (0.5, 1.0)
    assert band(axes, 1) == (0.0, 1.0)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["own cluster", "others"]


def test_pairs_without_an_edge_and_self_loops() -> None:
    graph = torch.tensor([[1, 2, 0], [0, 0, 0]]), torch.tensor([0.5, 0.25, 9.0])  # 0 -> 0 counts nowhere
    assert curves(weight_curves({1: graph}, CLUSTER).axes[0]) == {"own cluster": [0.125], "others": [0.03125]}
    nobody = weight_curves({1: (torch.empty(2, 0).long(), torch.empty(0))}, CLUSTER).axes[0]
    assert curves(nobody) == {"own cluster": [0.0], "others": [0.0]}


def test_refusals() -> None:
    with raises("empty", "graphs"):
        weight_curves({}, CLUSTER)
    with raises("range", "edge_index", "round 3", "edge 0 (4 -> 0)", "4 nodes"):
        weight_curves({3: (torch.tensor([[4], [0]]), torch.ones(1))}, CLUSTER)
