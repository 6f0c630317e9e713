"""The section on who listens to whom: a chart with a slider over rounds and a search by name, and a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphcollab.report._text import number
from graphcollab.report.page._libraries import altair
from graphcollab.report.page.charts import finished, legend
from graphcollab.report.page.content import Chart, Section
from graphcollab.report.page.listening import Line, Listening, listening
from graphcollab.report.values import Cell, Column, Table
from graphcollab.train import Result

SAID = (
    "A line goes from a node that is listened to (sender) to the one that listens (receiver, at the arrow's head); the "
    "thicker, the larger the weight. Where a run records all rounds, by RecordGraph(), a slider moves through them."
)
NAMED = 40  # nodes up to which all names are written
CROWDED = 3  # lines per node, up to which all are drawn at first
SIDE = 500  # pixels
MEANT = "(whole ? lower(datum.{0}) === lower(search) : indexof(lower(datum.{0}), lower(search)) >= 0)"
SHOWN = f"search == '' ? datum.w >= least : {MEANT.format('from')} || {MEANT.format('to')}"
ENDS = {  # of lines beside the straight one from (x1, y1) to (x2, y2), so that both directions are seen
    "d": "max(0.001, sqrt(pow(datum.x2 - datum.x1, 2) + pow(datum.y2 - datum.y1, 2)))",
    "e": "(datum.x2 - datum.x1) / datum.d",
    "f": "(datum.y2 - datum.y1) / datum.d",
    "x": "datum.x1 - 0.015 * datum.f",
    "y": "datum.y1 + 0.015 * datum.e",
    "v": "datum.x2 - 0.015 * datum.f - 0.07 * datum.e",
    "z": "datum.y2 + 0.015 * datum.e - 0.07 * datum.f",
    "a": "atan2(datum.e, datum.f) * 180 / PI",
}


def graph_section(last: Mapping[str, Result]) -> Iterator[Section]:
    """Yield a section with a chart of every method whose nodes listen to others, if there is any."""
    drawn = {name: listening(result, len(last)) for name, result in last.items()}
    some = {name: one for name, one in drawn.items() if one is not None}
    charts = [
        _graph_chart(one, f"graph-{k}", _caption(name, one, len(last[name].tasks.names)), _table(name, one))
        for k, (name, one) in enumerate(some.items())
    ]
    if charts:
        yield Section("graph", "Who listens to whom", [SAID], charts)


def _caption(name: str, one: Listening, count: int) -> str:
    """Say what is drawn."""
    fewer = (
        f" Drawn are {len(one.names)} of {count} nodes, those that give and are given most, {len(one.rounds)} rounds, "
        "and the largest known weights of each node."
    )
    return f"{name}: who listens to whom.{fewer * one.left_out}"


def _table(name: str, one: Listening) -> Table:
    """Return the weights of the last round, a row for every receiver."""
    heard: dict[int, list[str]] = {k: [] for k in range(len(one.names))}
    listeners = dict.fromkeys(heard, 0)
    for line in one.lines:
        if line.first == one.rounds[-1]:
            heard[line.receiver].append(f"{one.names[line.sender]} {number(line.weight, None)}")
            listeners[line.sender] += 1
    rows = [[Cell(node), Cell(listeners[k]), Cell(", ".join(heard[k]) or "nobody")] for k, node in enumerate(one.names)]
    columns = [Column("node"), Column("listeners", "count"), Column("listens to")]
    return Table(columns, rows, caption=f"{name}: weights in round {one.rounds[-1]}, of the lines that are drawn")


def _graph_chart(one: Listening, place: str, caption: str, table: Table) -> Chart:
    """Draw nodes in their places, and of every round who listens to whom."""
    alt = altair()
    nodes = [
        {"i": i, "node": node, "x": round(x, 3), "y": round(y, 3)}
        for i, (node, (x, y)) in enumerate(zip(one.names, one.places, strict=True))
    ]
    first, last = one.rounds[0], one.rounds[-1]
    slider = alt.binding_range(min=first, max=last, step=1, name="round ") if first < last else alt.Undefined
    weights = sorted((line.weight for line in one.lines if line.first == last), reverse=True)
    room, most = CROWDED * len(nodes), max(line.weight for line in one.lines)
    least = weights[room] if len(weights) > room else 0.0
    whole = f"indexof({json.dumps([name.lower() for name in one.names])}, lower(search)) >= 0"  # a name, no part of one
    chart = alt.layer(*_lines(nodes, one.lines, most), *_nodes(nodes)).add_params(
        alt.param(name="search", value="", bind=alt.binding(input="search", placeholder="a name", name="find ")),
        alt.param(name="whole", expr=whole),
        alt.param(name="at", value=last, bind=slider),
        alt.param(name="least", value=least, bind=alt.binding_range(min=0, max=most, name="from weight ")),
    )
    chart = chart.properties(width=SIDE, height=SIDE, title=alt.TitleParams(text=alt.expr("'round ' + at")))
    return finished(chart, place, caption, table)


def _lines(nodes: Sequence[dict[str, Any]], lines: Sequence[Line], most: float) -> list[Any]:
    """Return lines and arrows' heads."""
    alt = altair()
    base = alt.Chart(_as_csv(lines)).transform_filter("datum.r <= at && at < datum.u")
    for end, found in (("s", ["from", "x1", "y1"]), ("t", ["to", "x2", "y2"])):
        there = alt.LookupData(data=alt.InlineData(list(nodes)), key="i", fields=["node", "x", "y"])
        base = base.transform_lookup(lookup=end, from_=there, **{"as": found})
    base = base.transform_filter(SHOWN)
    for key, expression in ENDS.items():
        base = base.transform_calculate(**{key: expression})
    titles = {"to:N": "receiver", "from:N": "sender", "w:Q": "weight"}
    base = base.encode(tooltip=[alt.Tooltip(field, title=title) for field, title in titles.items()])
    scale = alt.Scale(domain=[0, most], range=[0.5, 4])
    thick = alt.StrokeWidth("w:Q", scale=scale, legend=legend(title="weight", symbolType="stroke", tickCount=4))
    rules = base.mark_rule(color="gray", opacity=0.7).encode(*_at("x", "y"), x2="v:Q", y2="z:Q", strokeWidth=thick)
    angle = alt.Angle("a:Q", scale=None)
    heads = base.mark_point(shape="triangle", filled=True, color="gray", opacity=1, size=70)
    return [rules, heads.encode(*_at("v", "z"), angle=angle)]


def _nodes(nodes: Sequence[dict[str, Any]]) -> list[Any]:
    """Return points and names; of many nodes the names of those that are searched for."""
    alt = altair()
    hit = f"search != '' && {MEANT.format('node')}"
    named = len(nodes) <= NAMED
    base = alt.Chart(alt.InlineData(list(nodes))).encode(*_at("x", "y"))
    points = base.mark_circle(opacity=1).encode(
        size=alt.condition(hit, *map(alt.value, (420, 170) if named else (320, 90))),
        tooltip=["node:N"],
    )
    seen = alt.condition(hit, alt.value(1), alt.value(1.0 if named else 0.0))
    return [points, base.mark_text(dy=-16, fontSize=12, limit=150).encode(text="node:N", opacity=seen)]


def _at(x: str, y: str) -> tuple[Any, Any]:
    """Encode a place."""
    alt = altair()
    scale = alt.Scale(domain=[-1.15, 1.15], nice=False)
    return alt.X(f"{x}:Q", axis=None, scale=scale), alt.Y(f"{y}:Q", axis=None, scale=scale)


def _as_csv(lines: Sequence[Line]) -> Any:
    """Return lines as text with commas, a fraction of what they take as JSON."""
    alt = altair()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow("rustw")
    writer.writerows(lines)
    return alt.InlineData(text.getvalue(), format=alt.CsvDataFormat(type="csv", parse=dict.fromkeys("rustw", "number")))
