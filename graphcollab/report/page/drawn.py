"""Sections with charts: the communication graph, the metric over rounds, and the calibration of probabilities."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

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
from graphcollab.report.page.charts import Chart, Section, altair, calibration_chart, cells, curve_chart, finished
from graphcollab.report.values import Cell, Table, count_cell, in_cell, mean_cell, number, number_cell, shown_in
from graphcollab.train import Result

SAID = (
    "A row is a site that listens (receiver), a column one that is listened to (sender); the darker, the larger the "
    "weight. Where all rounds were recorded, a slider moves through them."
)
MOST_NODES, MOST_ROUNDS = 60, 50
MOST_CELLS = 60_000  # maximum for all graphs of a page together
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


class Weights(NamedTuple):
    """Weights of nodes in some rounds, receivers in rows, [R, n, n]; whether nodes, rounds or weights are omitted."""

    names: Sequence[str]
    rounds: Sequence[int]
    values: Tensor
    fewer: bool


def graph_section(last: Mapping[str, Result]) -> Iterator[Section]:
    """Yield a section with a chart of every method whose nodes use weights of other nodes, if there are any."""
    found = {name: weights_of(result, len(last)) for name, result in last.items()}
    some = {name: one for name, one in found.items() if one is not None}
    named = ((name, one, len(last[name].tasks.names)) for name, one in some.items())
    charts = [_graph_chart(f"graph-{k}", *one) for k, one in enumerate(named)]
    if charts:
        yield Section("graph", "Who listens to whom", [SAID], charts)


def weights_of(result: Result, graphs_of_page: int = 1) -> Weights | None:
    """Return the weights of a run to show; None if no node uses another node's model."""
    names, graph = result.tasks.names, result.graph()
    graphs = dict(result.history.graphs) or {result.data.round: (graph.edge_index, graph.edge_weight)}
    edges = {r: _between(*graphs[r]) for r in sorted(graphs)}
    if not any(weight.numel() for _, weight in edges.values()):
        return None
    sums = [torch.bincount(end, w.double(), minlength=len(names)) for index, w in edges.values() for end in index]
    chosen = torch.stack(sums).sum(0).argsort(descending=True, stable=True)[:MOST_NODES].sort().values
    largest = max(1, *(min(w.numel(), len(chosen) ** 2) for _, w in edges.values()))
    room = min(MOST_ROUNDS, len(edges), max(1, MOST_CELLS // (graphs_of_page * largest)))
    places = torch.linspace(len(edges) - 1, 0, room).round().long().flip(0).tolist()  # includes the last round
    rounds = [[*edges][place] for place in places]
    parts = [subgraph(chosen, *edges[r], relabel_nodes=True, num_nodes=len(names)) for r in rounds]
    values = torch.cat([to_dense_adj(e.flip(0), edge_attr=w, max_num_nodes=len(chosen)) for e, w in parts])
    unknown = any(bool(weight.isnan().any()) for _, weight in graphs.values())
    fewer = unknown or len(chosen) < len(names) or len(rounds) < len(graphs)
    return Weights([names[k] for k in chosen.tolist()], rounds, values, fewer)


def _between(edges: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    edges, weights = edges.cpu(), weights.cpu().nan_to_num(0.0).float()
    some = (edges[0] != edges[1]) & (weights > 0)
    return edges[:, some], weights[some]


def _graph_chart(place: str, name: str, one: Weights, count: int) -> Chart:
    alt = altair()
    names, first, last = [*map(in_cell, one.names)], one.rounds[0], one.rounds[-1]
    slider = alt.binding_range(min=first, max=last, step=1, name="round ") if first < last else alt.Undefined
    base = alt.Chart(_as_csv(one)).transform_filter("datum.r <= at && at < datum.u")
    for field, index in (("to", "i"), ("by", "j")):
        base = base.transform_calculate(**{field: f"{json.dumps(names)}[datum.{index}]"})
    base = base.transform_calculate(text="format(datum.value, ',.3~r')", short="format(datum.value, '.2f')")
    most = float(one.values.max())
    scale = alt.Scale(scheme="blues", domain=[0, most])
    chart = cells(base, names, ("receiver", "sender", "weight"), scale, f"datum.value > {0.6 * most}")
    title = alt.TitleParams(text=alt.expr("'round ' + at"))
    chart = chart.add_params(alt.param(name="at", value=last, bind=slider)).properties(title=title)
    fewer = (
        f" Shown are {len(names)} of {count} sites, those with the largest weights, {len(one.rounds)} rounds, and the "
        "weights that are known here."
    )
    return finished(chart, place, f"{name}: who listens to whom.{fewer * one.fewer}", _table(name, one))


def _as_csv(one: Weights) -> object:
    """Return weights as comma-separated text, a fraction of the size of JSON; each is valid until the next round."""
    alt = altair()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    fields = ("r", "u", "i", "j", "value")
    writer.writerow(fields)
    for r, until, values in zip(one.rounds, [*one.rounds[1:], one.rounds[-1] + 1], one.values, strict=True):
        pairs = zip(values.nonzero().tolist(), values[values > 0].tolist(), strict=True)
        writer.writerows((r, until, i, j, f"{weight:.3g}") for (i, j), weight in pairs)
    return alt.InlineData(text.getvalue(), format=alt.CsvDataFormat(type="csv", parse=dict.fromkeys(fields, "number")))


def _table(name: str, one: Weights) -> Table:
    """Return the weights of the last round, one row per receiver."""
    values, rows = one.values[-1], []
    for k, node in enumerate(one.names):
        senders = values[k].argsort(descending=True, stable=True)[:MOST_SENDERS].tolist()
        heard = ", ".join(f"{one.names[j]} {number(float(values[k, j]), 3)}" for j in senders if values[k, j] > 0)
        rows.append([Cell(node), count_cell(int((values[:, k] > 0).sum())), Cell(heard or "nobody")])
    return Table(
        ["site", "listeners", "listens to"],
        rows,
        caption=f"{name}: weights in round {one.rounds[-1]}, the largest of each site",
    )


def curve_section(comparison: Comparison) -> Iterator[Section]:
    """Yield a section with the metric of every method over rounds or steps, if anything was evaluated."""
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
        yield Section("curves", f"Test {comparison.metric} over time", charts=[curve_chart("accuracy", caption, table)])


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
        chart = calibration_chart("calibration", CAPTION, Table(columns, rows, caption=TITLE))
        yield Section("calibration", TITLE, charts=[chart])
    elif some:
        yield Section("calibration", TITLE, [LEFT_OUT])


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
