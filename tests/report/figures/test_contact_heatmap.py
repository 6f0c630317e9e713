from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from graphcollab.report import contact_heatmap
from tests.raising import raises

# round 1: 0 hears 1 and itself, 1 hears 0, and only scores 2; round 2: 0 hears 1 again
GRAPHS = {
    1: (torch.tensor([[1, 0, 0, 2], [0, 0, 1, 1]]), torch.tensor([0.5, 0.5, 1.0, 0.0])),
    2: (torch.tensor([[1], [0]]), torch.tensor([1.0])),
}
NO = float("nan")


def shown(figure: Figure, panel: int = 0) -> np.ndarray:
    array = figure.axes[panel].images[0].get_array()
    assert array is not None
    return np.ma.filled(np.ma.asarray(array), NO)


def test_receivers_are_rows_and_pairs_that_never_met_stay_white() -> None:
    figure = contact_heatmap(GRAPHS, 3)
    np.testing.assert_array_equal(shown(figure), [[NO, 2, NO], [1, NO, NO], [NO, NO, NO]])
    assert figure.axes[0].get_title() == "1 node never listened to"


def test_runs_side_by_side_share_one_scale() -> None:
    figure = contact_heatmap({"dac": GRAPHS, "pens": {1: GRAPHS[1]}}, 3, title="digits")
    assert [axes.get_title().splitlines()[0] for axes in figure.axes[:2]] == ["dac", "pens"]
    norms = [axes.images[0].norm for axes in figure.axes[:2]]
    assert norms[0] is norms[1]
    assert (norms[0].vmin, norms[0].vmax) == (0.0, 2.0)
    assert figure.axes[2].get_ylabel() == "rounds listened to"


def test_nodes_are_sorted_by_cluster() -> None:
    figure = contact_heatmap(GRAPHS, 3, cluster=torch.tensor([1, 1, 0]))
    np.testing.assert_array_equal(shown(figure)[1:, 1:], [[NO, 2], [1, NO]])


def test_nobody_listens() -> None:
    figure = contact_heatmap({1: (torch.empty(2, 0).long(), torch.empty(0))}, 2)
    assert np.isnan(shown(figure)).all()
    assert figure.axes[0].get_title() == "2 nodes never listened to"


@pytest.mark.parametrize(
    ("graphs", "count", "message"),
    [
        ({}, 3, ("too-few", "graphs")),
        ({"dac": {}}, 3, ("too-few", "graphs", "'dac'")),
        (GRAPHS, 2, ("range", "edge_index")),
    ],
)
def test_bad_input(graphs: dict[Any, Any], count: int, message: tuple[str, ...]) -> None:
    with raises(*message):
        contact_heatmap(graphs, count)
