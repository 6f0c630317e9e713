from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from graphcollab.report import similarity_curves
from tests.raising import raises

# nodes 0 and 3 have measured; 4 is of a cluster nobody of which has
EDGES = torch.tensor([[1, 2, 3, 0, 4], [0, 0, 0, 3, 3]])
CLUSTER = torch.tensor([0, 0, 0, 1, 2])
SCORES = {
    2: (EDGES, torch.tensor([0.5, 1.0, 0.25, 0.0, 0.5])),
    1: (EDGES, torch.tensor([0.0, 1.0, 0.5, 1.0, 0.5])),
}


def curves(axes: Axes) -> dict[str, list[float]]:
    return {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in axes.lines}


def test_a_panel_for_each_cluster_that_measured() -> None:
    figure = similarity_curves(SCORES, CLUSTER, metric="cosine", title="dac")
    assert [axes.get_title() for axes in figure.axes] == ["cluster 0", "cluster 1"]
    assert figure.axes[0].get_ylabel() == "cosine"
    assert curves(figure.axes[0]) == {"own cluster": [0.5, 0.75], "others": [0.5, 0.25]}
    assert curves(figure.axes[1])["others"] == [0.75, 0.25]
    assert np.isnan(curves(figure.axes[1])["own cluster"]).all()
    band = np.asarray(figure.axes[0].collections[0].get_paths()[0].vertices)[:, 1]
    assert (band.min(), band.max()) == pytest.approx((0.1, 0.95))  # of (0, 1) and (.5, 1), 10 % and 90 %
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["own cluster", "others"]


def test_nothing_was_measured() -> None:
    for scores in ({}, {1: (torch.empty(2, 0).long(), torch.empty(0))}):
        with raises("empty", "graphs"):
            similarity_curves(scores, CLUSTER)
