from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from graphcollab.analysis import Comparison
from graphcollab.analysis.trial import Trial
from graphcollab.report import accuracy_curves
from graphcollab.report.figures._style import COLORS, LOOKS
from tests.raising import raises


def test_mean_and_band_of_common_rounds() -> None:
    figure = accuracy_curves({"l2c": [([1, 2, 3], [0.1, 0.2, 0.5]), ([1, 3], [0.3, 0.5])], "local": [([1], [0.9])]})
    axes = figure.axes[0]
    assert axes.lines[0].get_xdata().tolist() == [1, 3]
    assert axes.lines[0].get_ydata().tolist() == pytest.approx([20, 50])
    assert len(axes.collections) == 1  # one seed has no band
    assert axes.get_xlabel() == "round\n(band: one standard deviation over 2 seeds)"
    heights = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    # .1 and .3 have a standard deviation of .2 / sqrt(2)
    assert (heights.min(), heights.max()) == pytest.approx((20 - 14.1421, 50), abs=1e-3)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["l2c", "local"]


def test_other_metrics_keep_their_unit() -> None:
    axes = accuracy_curves({"l2c": [([1, 2], [3.0, 2.0])]}, "title", metric="mae", percent=False).axes[0]
    assert axes.lines[0].get_ydata().tolist() == [3.0, 2.0]
    assert axes.get_ylabel() == "mean test mae"
    assert axes.get_xlabel() == "round"


def test_first_looks_all_differ() -> None:
    first = [tuple(look.items()) for look in LOOKS]
    assert len(set(first)) == len(first) == 4 * len(COLORS)


def test_more_curves_than_looks() -> None:
    curves = {f"method {n}": [([1, 2], [n / 100, n / 50])] for n in range(30)}
    assert len(accuracy_curves(curves).axes[0].lines) == 30


def test_bad_input() -> None:
    with raises("too-few", "curves", "'l2c'", "0"):
        accuracy_curves({"l2c": []})
    with raises("missing", "method 'l2c'"):
        accuracy_curves({"l2c": [([1], [0.5]), ([2], [0.5])]})


def test_methods_with_other_numbers_of_rounds_are_drawn_over_local_steps() -> None:
    def trial(name: str, rounds: list[int], steps: float) -> Trial:
        curve = (rounds, [0.5] * len(rounds))
        return Trial(name, 0, {}, 0.0, {"mean": 0.5}, curve, per_node=(0.5,), local_steps=steps)

    def axes_of(steps: float) -> Any:
        chosen = {"local": [trial("local", [1, 2], 40.0)], "ditto": [trial("ditto", [10, 20], steps)]}
        return accuracy_curves(Comparison([], chosen, True)).axes[0]

    # rounds of 20 steps, and of 2
    assert [line.get_xdata().tolist() for line in axes_of(40.0).lines] == [[20, 40], [20, 40]]
    assert axes_of(40.0).get_xlabel() == "local steps per site"
    assert [line.get_xdata().tolist() for line in axes_of(math.nan).lines] == [[1, 2], [10, 20]]  # not known
    assert axes_of(math.nan).get_xlabel() == "round"
