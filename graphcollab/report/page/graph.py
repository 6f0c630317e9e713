"""The section on who listens to whom: a matrix of weights with a slider over rounds, and a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from graphcollab.metrics.edges import pair_weights
from graphcollab.report._text import in_cell, number
from graphcollab.report.page._libraries import altair
from graphcollab.report.page.charts import cells, finished
from graphcollab.report.page.content import Chart, Section
from graphcollab.report.values import Cell, Column, Table
from graphcollab.train import Result

SAID = (
    "A row is a site that listens (receiver), a column one that is listened to (sender); the darker, the larger the "
    "weight. Where all rounds were recorded, a slider moves through them."
)
MOST_NODES, MOST_ROUNDS = 60, 50
MOST_CELLS = 60_000  # of all graphs of a page together
MOST_SENDERS = 12  # of a receiver, in the table


class Weights(NamedTuple):
    """Weights of nodes, receivers in rows, [R, n, n], of some rounds; whether nodes, rounds or weights are left out."""

    names: Sequence[str]
    rounds: Sequence[int]
    values: Tensor
    fewer: bool


def graph_section(last: Mapping[str, Result]) -> Iterator[Section]:
    """Yield a section with a chart of every method whose nodes listen to others, if there is any."""
    found = {name: weights_of(result, len(last)) for name, result in last.items()}
    some = {name: one for name, one in found.items() if one is not None}
    charts = [
        _graph_chart(f"graph-{k}", name, one, len(last[name].tasks.names)) for k, (name, one) in enumerate(some.items())
    ]
    if charts:
        yield Section("graph", "Who listens to whom", [SAID], charts)


def weights_of(result: Result, graphs_of_page: int = 1) -> Weights | None:
    """Return the weights of a run that are shown; None where nobody listens to anybody else."""
    names, graph = result.tasks.names, result.graph()
    graphs = dict(result.history.graphs) or {result.data.round: (graph.edge_index, graph.edge_weight)}
    edges = {r: _between(*graphs[r]) for r in sorted(graphs)}
    if not any(weight.numel() for _, weight in edges.values()):
        return None
    sums = [torch.bincount(end, w.double(), minlength=len(names)) for index, w in edges.values() for end in index]
    chosen = torch.stack(sums).sum(0).argsort(descending=True, stable=True)[:MOST_NODES].sort().values
    largest = max(1, *(min(w.numel(), len(chosen) ** 2) for _, w in edges.values()))
    room = min(MOST_ROUNDS, len(edges), max(1, MOST_CELLS // (graphs_of_page * largest)))
    places = torch.linspace(len(edges) - 1, 0, room).round().long().flip(0).tolist()  # the last round among them
    rounds = [[*edges][place] for place in places]
    values = torch.stack([_matrix(*edges[r], chosen, len(names)) for r in rounds])
    unknown = any(bool(weight.isnan().any()) for _, weight in graphs.values())
    fewer = unknown or len(chosen) < len(names) or len(rounds) < len(graphs)
    return Weights([names[k] for k in chosen.tolist()], rounds, values, fewer)


def _between(edges: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    edges, weights = edges.cpu(), weights.cpu().nan_to_num(0.0).float()
    some = (edges[0] != edges[1]) & (weights > 0)
    return edges[:, some], weights[some]


def _matrix(edges: Tensor, weights: Tensor, chosen: Tensor, count: int) -> Tensor:
    """Return weights between some nodes, receivers in rows, [n, n]."""
    place = torch.full((count,), -1).index_put((chosen,), torch.arange(len(chosen)))
    edges = place[edges]
    here = (edges >= 0).all(0)
    return pair_weights(edges[:, here], weights[here], len(chosen), partly=True).nan_to_num(0.0).float()


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
    """Return weights as text with commas, a fraction of what they take as JSON; each holds until the next round."""
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
    """Return the weights of the last round, a row for every receiver."""
    values, rows = one.values[-1], []
    for k, node in enumerate(one.names):
        senders = values[k].argsort(descending=True, stable=True)[:MOST_SENDERS].tolist()
        heard = ", ".join(f"{one.names[j]} {number(float(values[k, j]), 3)}" for j in senders if values[k, j] > 0)
        rows.append([Cell(node), Cell(int((values[:, k] > 0).sum())), Cell(heard or "nobody")])
    columns = [Column("site"), Column("listeners", "count"), Column("listens to")]
    return Table(columns, rows, caption=f"{name}: weights in round {one.rounds[-1]}, the largest of each site")
