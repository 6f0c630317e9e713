from __future__ import annotations

import numpy as np
import pytest

from graphcollab.report import accuracy_curves
from graphcollab.report._figure import COLOURS, LOOKS


def test_mean_and_band_of_common_rounds() -> None:
    figure = accuracy_curves({"l2c": [([1, 2, 3], [0.1, 0.2, 0.5]), ([1, 3], [0.3, 0.5])], "local": [([1], [0.9])]})
    axes = figure.axes[0]
    assert axes.lines[0].get_xdata().tolist() == [1, 3]
    assert axes.lines[0].get_ydata().tolist() == pytest.approx([20, 50])
    assert len(axes.collections) == 1  # one seed has no band
    heights = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    # .1 and .3 have a standard deviation of .2 / sqrt(2)
    assert (heights.min(), heights.max()) == pytest.approx((20 - 14.1421, 50), abs=1e-3)
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["local", "l2c"]  # the best first


def test_other_metrics_keep_their_unit() -> None:
    axes = accuracy_curves({"l2c": [([1, 2], [3.0, 2.0])]}, "title", metric="mae", percent=False).axes[0]
    assert axes.lines[0].get_ydata().tolist() == [3.0, 2.0]
    assert axes.get_ylabel() == "mean test mae"


def test_first_looks_all_differ() -> None:
    first = [tuple(look.items()) for look in LOOKS]
    assert len(set(first)) == len(first) == 4 * len(COLOURS)


def test_more_curves_than_looks() -> None:
    curves = {f"method {n}": [([1, 2], [n / 100, n / 50])] for n in range(30)}
    assert len(accuracy_curves(curves).axes[0].lines) == 30


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"at least one curve per method, got \{'l2c': 0\}"):
        accuracy_curves({"l2c": []})
    with pytest.raises(ValueError, match="l2c: its 2 seeds have no evaluated round in common"):
        accuracy_curves({"l2c": [([1], [0.5]), ([2], [0.5])]})
