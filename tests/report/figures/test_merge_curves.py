from __future__ import annotations

import numpy as np
import pytest
import torch

from graphcollab.report import merge_curves
from graphcollab.train import Finding, History
from tests.raising import raises


def history(metric: str = "accuracy", higher: bool = True) -> History:
    """Cluster 0 (nodes 0 and 2) gains by merging, cluster 1 (node 1) loses in the second evaluation."""
    told = History(("a", "b", "c"), metric, higher)
    for round_, before, after in ((2, [0.2, 0.5, 0.4], [0.4, 0.6, 0.6]), (4, [0.4, 0.5, 0.6], [0.5, 0.2, 0.7])):
        values = {"val_metric_before": torch.tensor(before), "val_metric_after": torch.tensor(after)}
        told.add(round_, 0.0, values)
    return told


def test_clusters_side_by_side() -> None:
    told = history()
    told.findings.append(Finding(4, "cluster death", ("b",), "…"))
    told.findings.append(Finding(2, "never sampled", ("a",), "…"))
    figure = merge_curves(told, torch.tensor([0, 1, 0]), title="dac")
    first, second = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["cluster 0", "cluster 1"]
    assert first.get_ylabel() == "validation accuracy (%)"
    assert np.asarray(first.lines[0].get_xdata()).tolist() == [2, 4]
    assert np.asarray(first.lines[0].get_ydata()).tolist() == pytest.approx([30, 50])
    assert np.asarray(first.lines[1].get_ydata()).tolist() == pytest.approx([50, 60])
    assert np.asarray(second.lines[1].get_ydata()).tolist() == pytest.approx([60, 20])
    assert len(first.lines) == 2
    assert list(second.lines[2].get_xdata()) == [4, 4]  # where the cluster died
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["before merging", "after merging", "merging hurts", "cluster death"]


def test_all_nodes_and_other_metrics() -> None:
    axes = merge_curves(history("mse", False)).axes[0]
    assert axes.get_title() == "all nodes"
    assert axes.get_ylabel() == "validation mse"
    assert np.asarray(axes.lines[0].get_ydata()).tolist() == pytest.approx([1.1 / 3, 0.5])


def test_losses_that_explode_have_a_logarithmic_scale() -> None:
    told = history("mse", False)
    assert merge_curves(told).axes[0].get_yscale() == "linear"
    told.values["val_metric_after"][1][1] = 1000.0
    assert [axes.get_yscale() for axes in merge_curves(told, torch.tensor([0, 1, 0])).axes] == ["log", "log"]


def test_bad_input() -> None:
    with raises("missing", "history"):
        merge_curves(History(("a",)))
    with raises("shape", "cluster", "3", "2"):
        merge_curves(history(), torch.zeros(2))
