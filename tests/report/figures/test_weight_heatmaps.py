from __future__ import annotations

import sys
from io import StringIO

import numpy as np
import pytest
import torch
from matplotlib import rc_context
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from torch import Tensor, nn

from graphcollab import Tasks, join, run
from graphcollab.methods import dac
from graphcollab.persistence import LearnedGraph
from graphcollab.report import weight_heatmaps
from graphcollab.train import RecordGraph
from tests.raising import raises

EDGES = torch.tensor([[0, 1, 2, 1], [0, 0, 1, 1]])  # 0 hears 0 and 1, 1 hears 2 and itself
WEIGHTS = torch.tensor([0.75, 0.25, 0.125, 0.875])
NO = float("nan")


def shown(figure: Figure, panel: int = 0) -> np.ndarray:
    array = figure.axes[panel].images[0].get_array()
    assert array is not None
    return np.ma.filled(np.ma.asarray(array), NO)


def test_receivers_are_rows_and_missing_edges_stay_white() -> None:
    figure = weight_heatmaps({1: (EDGES, WEIGHTS)}, 3)
    np.testing.assert_array_equal(shown(figure), [[0.75, 0.25, NO], [NO, 0.875, 0.125], [NO, NO, NO]])
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["0", "1", "2"]


def test_rounds_are_sorted_and_share_one_scale() -> None:
    figure = weight_heatmaps({10: (EDGES, WEIGHTS), 2: (EDGES, WEIGHTS / 5)}, 3, title="l2c")
    assert [axes.get_title() for axes in figure.axes[:2]] == ["round 2", "round 10"]
    norms = [axes.images[0].norm for axes in figure.axes[:2]]
    assert norms[0] is norms[1]
    assert isinstance(norms[0], PowerNorm)
    assert (norms[0].vmin, norms[0].vmax) == (0.0, 0.875)
    assert figure.get_suptitle() == "l2c"


def test_nodes_are_called_by_their_names() -> None:
    names = ("Zurich", "Budapest", "Cleveland")
    figure = weight_heatmaps({1: (EDGES, WEIGHTS)}, 3, cluster=torch.tensor([1, 0, 2]), names=names)
    for labels in (figure.axes[0].get_xticklabels(), figure.axes[0].get_yticklabels()):
        assert [label.get_text() for label in labels] == ["Budapest", "Zurich", "Cleveland"]
    assert figure.axes[0].get_xticklabels()[0].get_rotation() == 90
    with raises("shape", "names", "3", "2"):
        weight_heatmaps({1: (EDGES, WEIGHTS)}, 3, names=names[:2])


def test_sorted_by_cluster_with_lines_between() -> None:
    figure = weight_heatmaps({1: (EDGES, WEIGHTS)}, 3, cluster=torch.tensor([1, 0, 1]))
    np.testing.assert_array_equal(shown(figure)[0], [0.875, NO, 0.125])  # node 1 first
    assert len(figure.axes[0].lines) == 2
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["0", "1"]


def test_sorted_by_classes() -> None:
    classes = torch.tensor([[0, 1, 1], [1, 0, 1], [1, 1, 0]]).bool()
    figure = weight_heatmaps({1: (EDGES, WEIGHTS)}, 3, cluster=classes)
    np.testing.assert_array_equal(shown(figure)[1], [0.125, 0.875, NO])  # the order is 2, 1, 0
    assert figure.axes[0].get_ylabel() == "receiver, by first class"


def test_negative_weights_have_a_symmetric_scale() -> None:
    norm = weight_heatmaps({1: (EDGES, WEIGHTS - 1)}, 3).axes[0].images[0].norm
    assert (norm.vmin, norm.vmax) == (-0.875, 0.875)


@pytest.mark.parametrize(("count", "panels"), [(1, 1), (4, 4), (5, 6)])
def test_many_rounds_take_several_lines(count: int, panels: int) -> None:
    figure = weight_heatmaps(dict.fromkeys(range(count), (EDGES, WEIGHTS)), 3)
    assert len(figure.axes) == panels + 1  # and the color bar
    assert sum(axes.get_visible() for axes in figure.axes) == count + 1


def test_no_edges_at_all() -> None:
    figure = weight_heatmaps({1: (EDGES[:, :0], WEIGHTS[:0])}, 2)
    assert np.isnan(shown(figure)).all()
    assert [text.get_text() for text in figure.axes[0].texts] == ["no edges"]
    assert len(figure.axes) == 1  # a color bar would have nothing to say


def test_weights_of_few_nodes_are_written_into_cells() -> None:
    texts = weight_heatmaps({1: (EDGES, WEIGHTS)}, 3).axes[0].texts
    told = {text.get_position(): text.get_text() for text in texts}  # (sender, receiver)
    assert told == {(0, 0): "0.75", (1, 0): "0.25", (2, 1): "0.12", (1, 1): "0.88"}
    assert not weight_heatmaps({1: (EDGES, WEIGHTS)}, 11).axes[0].texts


def test_long_names_lose_their_middle_unless_they_would_look_alike() -> None:
    long = "Klinikum der Universität München Großhadern"
    twins = ["Krankenhaus der Barmherzigen Schwestern Linz", "Krankenhaus der Armen Schwestern Linz"]
    assert labels(weight_heatmaps({1: (EDGES, WEIGHTS)}, 3, names=[long, *twins])) == [
        "Klinikum der…Großhadern",
        *twins,
    ]


def test_pictures_hold_their_labels_and_dollars_are_no_mathematics() -> None:
    long = "Klinikum der Universität München Großhadern"
    names = [long, "St.-Elisabeth-Krankenhaus Köln-Hohenlind", *(f"$x^{k}$ $" for k in range(8))]
    figure = weight_heatmaps({1: (EDGES, WEIGHTS)}, 10, names=names)
    figure.draw_without_rendering()
    panel = figure.axes[0]
    assert panel.get_window_extent().width > 0.5 * figure.dpi * 2.9
    for text in [*panel.get_xticklabels(), *panel.get_yticklabels(), panel.xaxis.label, panel.yaxis.label]:
        box = text.get_window_extent()
        assert min(box.x0, box.y0) >= 0
        assert box.x1 <= figure.bbox.width
        assert box.y1 <= figure.bbox.height
    picture = StringIO()
    with rc_context({"svg.fonttype": "none"}):
        figure.savefig(picture, format="svg")
    assert "$x^3$ $" in picture.getvalue()


def test_learned_graphs_by_themselves_and_with_newcomers() -> None:
    graph = LearnedGraph(edge_index=EDGES, edge_weight=WEIGHTS, num_nodes=3, name=["Bern", "Genf", "Chur"])
    figure = weight_heatmaps(graph)
    assert labels(figure) == ["Bern", "Genf", "Chur"]
    np.testing.assert_array_equal(shown(figure), [[0.75, 0.25, NO], [NO, 0.875, 0.125], [NO, NO, NO]])
    x = torch.arange(12.0).view(6, 2)
    tasks = Tasks.from_samples({name: (x, (x[:, 0] > 3).long()) for name in ("Bern", "Genf")})
    new = Tasks.from_samples({"Chur": (x, (x[:, 0] > 3).long())})
    joined = join(run(dac(), tasks, lambda: nn.Linear(2, 2), rounds=2), new)
    figure = weight_heatmaps(joined)
    assert labels(figure) == ["Bern", "Genf", "Chur"]
    np.testing.assert_array_equal(shown(figure), joined.graph().matrix())


def test_pyplot_is_left_alone() -> None:
    before = "matplotlib.pyplot" in sys.modules
    weight_heatmaps({1: (EDGES, WEIGHTS)}, 3)
    assert ("matplotlib.pyplot" in sys.modules) == before


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    [
        (
            (EDGES, WEIGHTS[:2]),
            {},
            ("shape", "edge_weight", "7", "4"),
        ),
        ((EDGES + 1, WEIGHTS), {}, ("range", "edge_index", "7")),
        ((EDGES, WEIGHTS / 0), {}, ("not-finite", "edge_weight", "7")),
        ((EDGES, WEIGHTS), {"cluster": torch.tensor([0, 0])}, ("shape", "cluster")),
        ((EDGES, WEIGHTS), {"cluster": torch.ones(3, 2)}, ("shape", "cluster")),
    ],
)
def test_bad_input(graph: tuple[Tensor, Tensor], options: dict[str, Tensor], message: tuple[str, ...]) -> None:
    with raises(*message):
        weight_heatmaps({7: graph}, 3, **options)


def test_no_graph() -> None:
    with raises("empty", "graphs"):
        weight_heatmaps({}, 3)


def labels(figure: Figure) -> list[str]:
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def test_histories_and_results_know_names() -> None:
    x = torch.arange(12.0).view(6, 2)
    tasks = Tasks.from_samples({name: (x, (x[:, 0] > 3).long()) for name in ("Bern", "Genf")})
    result = run(dac(), tasks, lambda: nn.Linear(2, 2), rounds=2, callbacks=[RecordGraph([1])])
    given = weight_heatmaps(result.history.graphs, 2, names=["Bern", "Genf"])
    for one in (result, result.history):
        assert labels(weight_heatmaps(one)) == ["Bern", "Genf"]
        np.testing.assert_array_equal(shown(weight_heatmaps(one)), shown(given))
    bare = run(dac(), tasks, lambda: nn.Linear(2, 2), rounds=2)
    assert weight_heatmaps(bare).axes[0].get_title() == "round 2"
    np.testing.assert_array_equal(shown(weight_heatmaps(bare)), bare.graph().matrix())
    with raises("missing", "num_nodes"):
        weight_heatmaps(result.history.graphs)


def test_nodes_with_names_are_named_in_their_clusters() -> None:
    cluster = torch.tensor([1, 0, 1])
    figure = weight_heatmaps({1: (EDGES, WEIGHTS)}, 3, cluster=cluster, names=["ca-1", "es-1", "ca-2"])
    assert labels(figure) == ["es-1", "ca-1", "ca-2"]
    assert len(figure.axes[0].lines) == 2
    assert labels(weight_heatmaps({1: (EDGES, WEIGHTS)}, 3, cluster=cluster, names=["0", "1", "2"])) == ["0", "1"]
