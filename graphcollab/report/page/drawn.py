"""Sections with charts: the communication graph, the metric over rounds, and the calibration of probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.utils import subgraph, to_dense_adj

from graphcollab._base.checks import own_filter
from graphcollab.analysis import Comparison
from graphcollab.analysis.metrics import Metric
from graphcollab.analysis.metrics.probabilities import BINS, confidences
from graphcollab.analysis.trial import Trial
from graphcollab.data.losses import predicted_by
from graphcollab.report._terms import curves_of, in_common
from graphcollab.report.page.charts import Chart, Section, drawn
from graphcollab.report.values import Cell, Table, count_cell, in_cell, mean_cell, number, number_cell, shown_in
from graphcollab.train import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAID = "A row is a site that listens (receiver), a column one that is listened to (sender)."
MOST_NODES, MOST_ROUNDS = 60, 4
MOST_SENDERS = 12  # maximum per receiver, in the table
MOST_POINTS = 200  # maximum per curve
STOPPED = "Curves end elsewhere than the tables where runs return the models of an earlier evaluation."
KINDS = ("weight", "confidence", "right")
TITLE = "Do probabilities mean what they say?"
LEFT_OUT = "Left out between sites: it would take counts of single predictions, which do not leave a site."
CAPTION = (
    "How often predictions on test samples of all sites were right, by the probability that was predicted, on the last "
    "seed. On the dotted line probabilities mean what they say; below it models are too sure. Small dots are of few "
    "samples."
)


def graph_section(last: Mapping[str, Result]) -> Iterator[Section]:
    """Yield a section with the weights of every method whose nodes use models of other nodes, if there are any."""
    charts = [chart for k, (name, result) in enumerate(last.items()) for chart in _graph(f"graph-{k}", name, result)]
    if charts:
        yield Section("graph", "Who listens to whom", [SAID], charts)


def _graph(place: str, name: str, result: Result) -> Iterator[Chart]:
    """Yield the weights in up to four recorded rounds, of the nodes with the largest weights if there are many."""
    from graphcollab.report.figures.heatmaps import weight_heatmaps

    names, graph = result.tasks.names, result.graph()
    graphs = dict(result.history.graphs) or {result.data.round: (graph.edge_index, graph.edge_weight)}
    edges = {r: _between(*graphs[r]) for r in sorted(graphs)}
    if not any(weight.numel() for _, weight in edges.values()):
        return
    sums = [torch.bincount(end, w.double(), minlength=len(names)) for index, w in edges.values() for end in index]
    chosen = torch.stack(sums).sum(0).argsort(descending=True, stable=True)[:MOST_NODES].sort().values
    places = torch.linspace(0, len(edges) - 1, min(MOST_ROUNDS, len(edges))).round().long().tolist()
    rounds = [[*edges][place] for place in places]
    shown, last = [names[k] for k in chosen.tolist()], rounds[-1]
    among = partial(subgraph, chosen, relabel_nodes=True, num_nodes=len(names))
    kept = {r: among(*(part.cpu() for part in graphs[r])) for r in rounds}
    figure = weight_heatmaps(kept, len(shown), names=[*map(in_cell, shown)])
    heard, weight = among(*edges[last])
    weights = to_dense_adj(heard.flip(0), edge_attr=weight, max_num_nodes=len(shown))[0]
    table = _listeners(f"{name}: weights in round {last}, the largest of each site", shown, weights)
    fewer = f" Shown are {len(shown)} of {len(names)} sites, those with the largest weights."
    yield drawn(place, f"{name}: who listens to whom.{fewer * (len(shown) < len(names))}", figure, table)


def _between(edges: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    edges, weights = edges.cpu(), weights.cpu().nan_to_num(0.0).float()
    some = (edges[0] != edges[1]) & (weights > 0)
    return edges[:, some], weights[some]


def _listeners(caption: str, names: Sequence[str], weights: Tensor) -> Table:
    """Return a row for every receiver of weights [n, n]: how many listen to it, and to whom it listens."""
    rows = []
    for k, node in enumerate(names):
        senders = weights[k].argsort(descending=True, stable=True)[:MOST_SENDERS].tolist()
        heard = ", ".join(f"{names[j]} {number(float(weights[k, j]), 3)}" for j in senders if weights[k, j] > 0)
        rows.append([Cell(node), count_cell(int((weights[:, k] > 0).sum())), Cell(heard or "nobody")])
    return Table(["site", "listeners", "listens to"], rows, caption=caption)


def curve_section(comparison: Comparison) -> Iterator[Section]:
    """Yield a section with the metric of every method over rounds or steps, if anything was evaluated."""
    from graphcollab.report.figures.curves import accuracy_curves

    curves, over = curves_of(comparison)
    scale, digits, unit = shown_in(comparison.share, 2)
    what, rows = f"mean test {comparison.metric}{unit}", []
    for name, seeds in curves.items():
        rounds, found = in_common(seeds)  # [S, T]
        last, stride = len(rounds) - 1, max(1, -(-len(rounds) // MOST_POINTS))
        for t in sorted({*range(0, len(rounds), stride), last} if rounds else ()):
            if bool(found[:, t].isfinite().all()):
                rows.append([Cell(name), count_cell(rounds[t]), mean_cell(scale * found[:, t], digits)])
    if rows:
        stopped = any(_stopped(trial) for trials in comparison.chosen.values() for trial in trials if not trial.failure)
        caption = f"{what} over {over}; bands are one standard deviation over seeds up and down. {STOPPED * stopped}"
        table = Table(["method", over, what], rows, caption=what)
        yield Section(
            "curves",
            f"Test {comparison.metric} over time",
            charts=[drawn("accuracy", caption, accuracy_curves(comparison), table)],
        )


def _stopped(trial: Trial) -> bool:
    """Return whether the returned models are not those of the last round."""
    ends = [*trial.curve[1][-1:], trial.summary["mean"]]
    return all(map(math.isfinite, ends)) and not math.isclose(ends[0], ends[-1])


def calibration_section(last: Mapping[str, Result]) -> Iterator[Section]:
    """Yield a section on the calibration of probabilities, over all nodes' test samples, in the bins of `ece`."""
    some = {name: result for name, result in last.items() if predicted_by(result.tasks.loss) == "classes"}
    rows = [
        [Cell(name), count_cell(weight), *(number_cell(100 * sum_ / weight, 1) for sum_ in (confidence, right))]
        for name, result in some.items()
        if not _between_parties(result)
        for weight, confidence, right in _bins(result).T.tolist()
        if weight > 0
    ]
    columns = ["method", "samples", "predicted probability (%)", "share that was right (%)"]
    if rows:
        table = Table(columns, rows, caption=TITLE)
        yield Section("calibration", TITLE, charts=[drawn("calibration", CAPTION, _calibration(table), table)])
    elif some:
        yield Section("calibration", TITLE, [LEFT_OUT])


def _calibration(table: Table) -> Figure:
    from graphcollab.report.figures.bars import calibration_curves

    found: dict[str, list[list[float | None]]] = {}
    for name, *numbers in table.rows:
        found.setdefault(name.text, []).append([cell.value for cell in numbers])
    return calibration_curves({name: torch.tensor(rows) for name, rows in found.items()}, table.columns[2:])


def _between_parties(result: Result) -> bool:
    """Return whether nodes belong to several independent parties, rather than to the processes of one party."""
    plane = result.env.plane
    return sum(plane.all_gather_object(plane.is_main)) > 1


def _bins(result: Result) -> Tensor:
    """Return sums of weights, confidences and correct predictions of every bin over all nodes, [3, BINS]."""
    kinds = {f"{kind} {b}": partial(_sum, kind, b) for kind in KINDS for b in range(BINS)}
    measures = [Metric(name, True, one, weighted=True, losses=("cross_entropy", "bce")) for name, one in kinds.items()]
    with own_filter("ignore", code="quality", subject="metric"):  # nodes without test samples have none in any bin
        scores = result.scores(measures, "test")
    sums = torch.stack([scores[one.name][scores.members] for one in measures]).nansum(1)
    return sums.reshape(len(KINDS), BINS)


def _sum(kind: str, bin_: int, outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    """Return a sum over the samples in a bin for every row, [R]."""
    confidence, right, bins, weight = confidences(outputs, targets, mask, weight)
    inside = weight * (bins == bin_)
    values = {"weight": torch.ones_like(confidence), "confidence": confidence, "right": right}[kind]
    return (inside * values.where(inside > 0, 0.0)).sum(1)
