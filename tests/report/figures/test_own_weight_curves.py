from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from graphcollab.report import own_weight_curves
from graphcollab.train import History
from tests.raising import raises


def history(**more: list[list[float]]) -> History:
    """Three evaluations of three nodes, of which the last is alone."""
    told = History(("a", "b", "c"))
    nothing, values = math.nan, {"own_weight": [[0.2, 0.4], [0.5, 0.7], [1.0, 1.0]], **more}
    values |= {
        "weight_entropy": [[1.0, 1.0], [0.8, 0.6], [0.0, 0.0]],
        "largest_weight": [[0.2, 0.2], [0.3, 0.1], [0, 0]],
    }
    for t in range(3):
        told.add(t + 1, 0.0, {name: torch.tensor([*rows[t], nothing]) for name, rows in values.items()})
    return told


def test_means_and_quantiles_by_hand() -> None:
    figure = own_weight_curves(history(), title="l2c")
    [panel] = figure.axes
    assert [line.get_label() for line in panel.lines] == [
        "own model's weight",
        "entropy of weights",
        "largest other weight",
    ]
    assert np.asarray(panel.lines[0].get_xdata()).tolist() == [1, 2, 3]
    assert np.asarray(panel.lines[0].get_ydata()).tolist() == pytest.approx([0.3, 0.6, 1])
    assert np.asarray(panel.lines[1].get_ydata()).tolist() == pytest.approx([1, 0.7, 0])
    ends = np.asarray(panel.collections[0].get_paths()[0].vertices)[:, 1]
    assert (float(ends.min()), float(ends.max())) == pytest.approx((0.22, 1.0))
    assert figure.legends[0].get_texts()[0].get_text() == "own model's weight"


def test_a_panel_for_each_kind_of_what_the_weigher_says() -> None:
    said = {
        "weigher/force/decay": [[0.001, 0.001], [0.01, 0.01], [1.0, 1.0]],
        "weigher/force/gradient": [[1.0, 1.0]] * 3,
        "weigher/code_norm": [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]],
    }
    panels = own_weight_curves(history(**said)).axes
    assert [panel.get_title() for panel in panels] == ["weights", "code norm", "force"]
    assert [[line.get_label() for line in panel.lines] for panel in panels[1:]] == [
        ["code norm"],
        ["decay", "gradient"],
    ]
    assert [panel.get_yscale() for panel in panels] == ["linear", "linear", "log"]
    assert np.asarray(panels[1].lines[0].get_ydata()).tolist() == pytest.approx([1.5, 2.5, 3.5])
    looks = {(line.get_color(), line.get_linestyle()) for panel in panels for line in panel.lines}
    assert len(looks) == 6  # one legend names them all


def test_rounds_without_a_value_are_gaps() -> None:
    told = history()
    told.values["own_weight"][0] = torch.full((3,), math.nan)
    line = own_weight_curves(told).axes[0].lines[0]
    assert np.asarray(line.get_ydata()).tolist() == pytest.approx([math.nan, 0.6, 1], nan_ok=True)


def test_runs_that_were_not_watched_are_refused() -> None:
    with raises("missing", "history"):
        own_weight_curves(History(("a",)))
