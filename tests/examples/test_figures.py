"""The figures of reproductions that examples draw beside those of the package."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from examples.benchmark._figures import (
    comparison_figures,
    contact_heatmap,
    merge_curves,
    own_weight_curves,
    similarity_curves,
    traffic_curves,
    weight_by_overlap_figure,
    weight_curves,
)
from graphcollab import Tasks, compare
from graphcollab.methods import l2c, local
from graphcollab.persistence import History
from graphcollab.report import save_figure
from graphcollab.train import RecordGraph

NO = float("nan")


def curves(axes: Axes) -> dict[str, list[float]]:
    return {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in axes.lines}


def band(axes: Axes, place: int) -> tuple[float, float]:
    ends = np.asarray(axes.collections[place].get_paths()[0].vertices)[:, 1]
    return float(ends.min()), float(ends.max())


def counts(axes: Axes) -> np.ndarray:
    return np.ma.filled(np.ma.asarray(axes.images[0].get_array()), NO)


# round 1: 0 hears 1 and itself, 1 hears 0, and only scores 2; round 2: 0 hears 1 again
MET: Any = {
    1: (torch.tensor([[1, 0, 0, 2], [0, 0, 1, 1]]), torch.tensor([0.5, 0.5, 1.0, 0.0])),
    2: (torch.tensor([[1], [0]]), torch.tensor([1.0])),
}


def test_contacts_are_counted_and_sorted_by_cluster() -> None:
    figure = contact_heatmap({"dac": MET, "pens": {1: MET[1]}}, torch.tensor([0, 0, 1]))
    np.testing.assert_array_equal(counts(figure.axes[0]), [[NO, 2, NO], [1, NO, NO], [NO, NO, NO]])
    assert [axes.get_title() for axes in figure.axes[:2]] == ["dac\n1 never listened to", "pens\n1 never listened to"]
    norms = [axes.images[0].norm for axes in figure.axes[:2]]
    assert norms[0] is norms[1]
    assert (norms[0].vmin, norms[0].vmax) == (0.0, 2.0)
    turned = contact_heatmap({"dac": MET}, torch.tensor([1, 1, 0]))
    np.testing.assert_array_equal(counts(turned.axes[0])[1:, 1:], [[NO, 2], [1, NO]])


def test_nobody_listens() -> None:
    figure = contact_heatmap({"none": {1: (torch.empty(2, 0).long(), torch.empty(0))}}, torch.zeros(2))
    assert np.isnan(counts(figure.axes[0])).all()
    assert figure.axes[0].get_title() == "none\n2 never listened to"


FEW = torch.tensor([0, 0, 1, 1, 1])
INSIDE = torch.tensor([[1, 3], [0, 2]])
OUTSIDE = torch.tensor([[2, 3], [0, 2]])  # 0 hears another cluster, 2 its own


def test_traffic_over_receivers_and_chance() -> None:
    graphs = {"dac": {2: (INSIDE, torch.ones(2)), 1: (OUTSIDE, torch.ones(2))}, "bad": {1: (OUTSIDE, torch.ones(2))}}
    axes = traffic_curves(graphs, FEW).axes[0]
    assert axes.lines[0].get_xdata().tolist() == [1, 2]
    # two nodes have 1 of 4 peers inside, three have 2 of 4
    assert curves(axes) == {"dac": [50.0, 100.0], "bad": [50.0], "peers at random": pytest.approx([40.0, 40.0])}


def test_scored_models_do_not_count_and_rounds_without_messages_leave_a_gap() -> None:
    graphs = {
        "pens": {1: (OUTSIDE, torch.tensor([0.0, 1.0]))},
        "dac": {1: (INSIDE, torch.ones(2)), 2: (INSIDE, torch.zeros(2))},
    }
    found = curves(traffic_curves(graphs, FEW).axes[0])
    assert (found["pens"], str(found["dac"])) == ([100.0], "[100.0, nan]")


# nodes 0 and 3 have measured; 4 is of a cluster nobody of which has
MEASURED = torch.tensor([[1, 2, 3, 0, 4], [0, 0, 0, 3, 3]])
SCORES = {
    2: (MEASURED, torch.tensor([0.5, 1.0, 0.25, 0.0, 0.5])),
    1: (MEASURED, torch.tensor([0.0, 1.0, 0.5, 1.0, 0.5])),
}


def test_a_panel_for_each_cluster_that_measured() -> None:
    figure = similarity_curves(SCORES, torch.tensor([0, 0, 0, 1, 2]), "cosine", "dac")
    assert [axes.get_title() for axes in figure.axes] == ["cluster 0", "cluster 1"]
    assert figure.axes[0].get_ylabel() == "cosine"
    assert curves(figure.axes[0]) == {"own cluster": [0.5, 0.75], "others": [0.5, 0.25]}
    assert curves(figure.axes[1])["others"] == [0.75, 0.25]
    assert np.isnan(curves(figure.axes[1])["own cluster"]).all()
    assert band(figure.axes[0], 0) == pytest.approx((0.1, 0.95))  # of (0, 1) and (.5, 1), 10 % and 90 %


CLUSTER = torch.tensor([0, 0, 1, 1])
COMPLETE = torch.tensor([[j, i] for i in range(4) for j in range(4) if i != j]).T
SAME = CLUSTER[COMPLETE[0]] == CLUSTER[COMPLETE[1]]


def test_mean_and_extremes_of_weights() -> None:
    late = torch.where(SAME, 1.0, 0.0)
    late[(COMPLETE[0] == 0) & (COMPLETE[1] == 1)] = 0.5  # one of 4 pairs inside clusters
    late[(COMPLETE[0] == 2) & (COMPLETE[1] == 0)] = 0.25  # one of 8 between them
    [axes] = weight_curves({20: (COMPLETE, late), 1: (COMPLETE, torch.ones(12))}, CLUSTER, "cobo").axes
    assert np.asarray(axes.lines[0].get_xdata()).tolist() == [1, 20]
    assert curves(axes) == {"own cluster": [1.0, 0.875], "others": [1.0, 0.03125]}
    assert (band(axes, 0), band(axes, 1)) == ((0.5, 1.0), (0.0, 1.0))


def test_pairs_without_an_edge_and_self_loops() -> None:
    graph = torch.tensor([[1, 2, 0], [0, 0, 0]]), torch.tensor([0.5, 0.25, 9.0])  # 0 -> 0 counts nowhere
    assert curves(weight_curves({1: graph}, CLUSTER, "").axes[0]) == {"own cluster": [0.125], "others": [0.03125]}
    nobody = weight_curves({1: (torch.empty(2, 0).long(), torch.empty(0))}, CLUSTER, "").axes[0]
    assert curves(nobody) == {"own cluster": [0.0], "others": [0.0]}


def merged(metric: str = "accuracy", higher: bool = True) -> History:
    """Cluster 0 (nodes 0 and 2) gains by merging, cluster 1 (node 1) loses in the second evaluation."""
    told = History(("a", "b", "c"), metric, higher)
    for round_, before, after in ((2, [0.2, 0.5, 0.4], [0.4, 0.6, 0.6]), (4, [0.4, 0.5, 0.6], [0.5, 0.2, 0.7])):
        values = {"val_metric_before": torch.tensor(before), "val_metric_after": torch.tensor(after)}
        told.add(round_, 0.0, values)
    return told


def test_merging_cluster_by_cluster() -> None:
    told = merged()
    first, second = merge_curves(told, torch.tensor([0, 1, 0]), "dac", {1: 4}).axes
    assert [axes.get_title() for axes in (first, second)] == ["cluster 0", "cluster 1"]
    assert first.get_ylabel() == "validation accuracy (%)"
    assert np.asarray(first.lines[0].get_xdata()).tolist() == [2, 4]
    assert curves(first)["before merging"] == pytest.approx([30, 50])
    assert curves(first)["after merging"] == pytest.approx([50, 60])
    assert curves(second)["after merging"] == pytest.approx([60, 20])
    assert len(first.lines) == 2
    assert list(second.lines[2].get_xdata()) == [4, 4]  # where the cluster died


def test_losses_that_explode_have_a_logarithmic_scale() -> None:
    told = merged("mse", False)
    axes = merge_curves(told, torch.tensor([0, 1, 0]), "").axes[0]
    assert (axes.get_ylabel(), axes.get_yscale()) == ("validation mse", "linear")
    assert curves(axes)["before merging"] == pytest.approx([0.3, 0.5])
    told.values["val_metric_after"][1][1] = 1000.0
    assert [axes.get_yscale() for axes in merge_curves(told, torch.tensor([0, 1, 0]), "").axes] == ["log", "log"]


def watched(**more: list[list[float]]) -> History:
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
    figure = own_weight_curves(watched(), "l2c")
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
    panels = own_weight_curves(watched(**said), "").axes
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
    told = watched()
    told.values["own_weight"][0] = torch.full((3,), math.nan)
    line = own_weight_curves(told, "").axes[0].lines[0]
    assert np.asarray(line.get_ydata()).tolist() == pytest.approx([math.nan, 0.6, 1], nan_ok=True)


CLASSES = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 1, 1]]).bool()
SHARING = torch.tensor([[1, 2, 0, 0], [0, 0, 1, 0]])
GIVEN = torch.tensor([0.8, 0.2, 0.6, 0.1])


def test_means_counts_and_bars() -> None:
    figure = weight_by_overlap_figure({"l2c": (SHARING, GIVEN), "meta": (SHARING, GIVEN / 2)}, CLASSES, "title")
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
    (bars,) = weight_by_overlap_figure({"fomo": (SHARING, -GIVEN)}, CLASSES, "").axes[0].containers
    (low, high), _ = bars.lines[2][0].get_segments()
    assert (low[1] + high[1]) / 2 == pytest.approx(-0.05)


def test_a_real_comparison_end_to_end(tmp_path: Path) -> None:
    drawn = torch.Generator().manual_seed(0)
    samples = [(torch.randn(10, 2, generator=drawn), torch.arange(10) % 2 + node % 2) for node in range(4)]
    tasks = Tasks.from_samples(samples, test=samples)
    settings = {"seeds": [0, 1], "rounds": 3, "callbacks": [RecordGraph([1, 3])]}
    compared = compare({"local": local, "l2c": l2c}, lambda seed: tasks, lambda: torch.nn.Linear(2, 3), **settings)
    figures = comparison_figures(compared, ["l2c", "failed"], "four nodes")
    assert list(figures) == ["accuracy", "weights_l2c", "weight_by_overlap"]
    assert [axes.get_title() for axes in figures["weight_by_overlap"].axes] == ["l2c, round 1", "l2c, round 3"]
    for name, figure in figures.items():
        assert save_figure(figure, tmp_path / f"{name}.png").stat().st_size > 1000
