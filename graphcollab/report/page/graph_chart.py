"""The chart of who listens to whom, with a slider over rounds and a search by name."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

from graphcollab.report.page._libraries import altair
from graphcollab.report.page.charts import finished, legend
from graphcollab.report.page.colours import INK, METHODS
from graphcollab.report.page.content import Chart, Table
from graphcollab.report.page.graph import Listening

__all__ = ["first_shown", "graph_chart"]

NAMED = 40  # nodes up to which all names are written
CROWDED = 3  # lines per node, up to which all are drawn at first
COLOURED = len(METHODS) - 1  # groups with a colour of their own; the last one is of all others
ASIDE = 4  # pixels that lines are beside the straight one between two nodes, so that both directions are seen
BEFORE = 13  # pixels that arrows' heads are before the receiver
SIZES = {True: (420, 170), False: (320, 90)}  # of points that are searched for, and of others; with names or without
MEANT = "(whole ? lower(datum.{0}) === lower(search) : indexof(lower(datum.{0}), lower(search)) >= 0)"
HIT = f"search != '' && {MEANT.format('node')}"
OTHER = f"search != '' && !{MEANT}"
SHOWN = f"(search == '' ? datum.w >= least : {MEANT.format('from')} || {MEANT.format('to')})"
ACROSS, DOWN = "width / 2 + {} * (width / 2 - 70)", "height / 2 - {} * (height / 2 - 30)"  # pixels of a place
OUTSIDE = "datum.py + (datum.y < -0.01 ? 20 : -17)"  # where a name stands: above the middle above, below it below


def graph_chart(found: Listening, name: str, caption: str, table: Table) -> Chart:
    """Draw nodes, and of every round who listens to whom."""
    alt = altair()
    params = [alt.param(name="search", value="", bind=alt.binding(input="search", placeholder="a name", name="find "))]
    names = json.dumps([name.lower() for name in found.names])
    params.append(alt.param(name="whole", expr=f"indexof({names}, lower(search)) >= 0"))  # a name, and no part of one
    first, last = found.rounds[0], found.rounds[-1]
    slider = alt.binding_range(min=first, max=last, step=1, name="round ") if first < last else alt.Undefined
    params.append(alt.param(name="at", value=last, bind=slider))
    most = max(line.weight for line in found.lines)
    digits = _digits(found)
    top = math.ceil(most * 10**digits) / 10**digits
    least = alt.binding_range(min=0, max=top, step=10**-digits, name="from weight ")
    params.append(alt.param(name="least", value=first_shown(found), bind=least))
    chart = alt.layer(*_lines(found, most), *_nodes(found)).add_params(*params)
    chart = chart.properties(width="container", height=500, title=alt.TitleParams(text=alt.expr("'round ' + at")))
    return finished(chart, name, caption, table, controls=True, square=True)


def first_shown(found: Listening) -> float:
    """Return the weight from which on lines are drawn at first, so that there are few enough; 0 for all."""
    weights = sorted((line.weight for line in found.last), reverse=True)
    room, scale = CROWDED * len(found.names), 10 ** _digits(found)
    return math.floor(weights[room] * scale) / scale if len(weights) > room else 0.0


def _digits(found: Listening) -> int:
    """Return how many decimals three digits of the largest weight take."""
    return 2 - math.floor(math.log10(max(line.weight for line in found.lines)))


def _lines(found: Listening, most: float) -> list[Any]:
    """Return lines, arrows' heads, and the names of who is at the ends of those that are searched for."""
    alt = altair()
    base = alt.Chart(_table(found)).transform_filter("datum.r <= at && at < datum.u")
    nodes = alt.InlineData([{"i": i, "node": n, "x": x, "y": y} for i, n, x, y in _placed(found)])
    for end, key, fields in (("s", "from", ("x1", "y1")), ("t", "to", ("x2", "y2"))):
        there = alt.LookupData(data=nodes, key="i", fields=["node", "x", "y"])
        base = base.transform_lookup(lookup=end, from_=there, **{"as": [key, *fields]})
    base = base.transform_filter(SHOWN)
    strength = {"o": f"0.25 + 0.45 * datum.w / {most}", "g": f"35 + 95 * datum.w / {most}"}
    for key, expression in {**_PIXELS, **strength}.items():
        base = base.transform_calculate(**{key: expression})
    titles = {"to:N": "receiver", "from:N": "sender", "w:Q": "weight", "r:Q": "since round"}
    tips = [alt.Tooltip(field, title=title) for field, title in titles.items()]
    scale = alt.Scale(domain=[0, most], range=[0.5, 5 if len(found.names) <= NAMED else 2.5])
    thick = alt.StrokeWidth(
        "w:Q", scale=scale, legend=legend(title="weight", symbolType="stroke", tickCount=4, columns=6)
    )
    lines = base.mark_rule(color=INK, cursor="default").encode(
        *_at("lx", "ly"),
        x2=alt.X2("mx"),
        y2=alt.Y2("my"),
        strokeWidth=thick,
        opacity=alt.Opacity("o:Q", scale=None),
        tooltip=tips,
    )
    heads = base.mark_point(shape="triangle", filled=True, color=INK, opacity=1).encode(
        *_at("hx", "hy"),
        angle=alt.Angle("a:Q", scale=None),
        size=alt.Size("g:Q", scale=None),
        tooltip=tips,
    )
    ends = []
    if len(found.names) > NAMED:
        ends = [
            base.transform_filter(OTHER.format(who))
            .mark_text(dy=-13, color=INK, fontSize=11, limit=140)
            .encode(*_at(*place), text=f"{who}:N")
            for who, place in (("from", "pq"), ("to", "vz"))
        ]
    return [lines, heads, *ends]


_PIXELS = {  # from (p, q) to (v, z), in pixels: the arrow's head is turned as the line is, however wide the chart
    "p": ACROSS.format("datum.x1"),
    "q": DOWN.format("datum.y1"),
    "v": ACROSS.format("datum.x2"),
    "z": DOWN.format("datum.y2"),
    "d": "max(1, sqrt(pow(datum.v - datum.p, 2) + pow(datum.z - datum.q, 2)))",
    "e": "(datum.v - datum.p) / datum.d",
    "f": "(datum.z - datum.q) / datum.d",
    "lx": f"datum.p - datum.f * {ASIDE}",
    "ly": f"datum.q + datum.e * {ASIDE}",
    "mx": f"datum.v - datum.f * {ASIDE} - datum.e * {BEFORE}",
    "my": f"datum.z + datum.e * {ASIDE} - datum.f * {BEFORE}",
    "hx": "datum.mx",
    "hy": "datum.my",
    "a": "atan2(datum.e, -datum.f) * 180 / PI",
}


def _nodes(found: Listening) -> list[Any]:
    """Return points and names; of many nodes the names of those that are searched for."""
    alt = altair()
    shades = [f"group {group + 1}" if group < COLOURED else "other groups" for group in found.groups.of]
    rows = [
        {"node": node, "x": x, "y": y, "group": f"group {group + 1}", "shade": shade}
        for (_, node, x, y), group, shade in zip(_placed(found), found.groups.of, shades, strict=True)
    ]
    domain = sorted({*shades}, key=lambda shade: (shade == "other groups", shade))
    several = legend(title="groups") if len(domain) > 1 else None
    scale = alt.Scale(domain=domain, range=METHODS[: len(domain)])
    named = len(found.names) <= NAMED
    dots = alt.Chart(alt.InlineData(rows))
    pixels = {"px": ACROSS.format("datum.x"), "py": DOWN.format("datum.y"), "ty": OUTSIDE}
    for key, expression in pixels.items():
        dots = dots.transform_calculate(**{key: expression})
    dots = dots.encode(*_at("px", "py"))
    points = dots.mark_circle(opacity=1, stroke="var(--paper)", strokeWidth=1).encode(
        color=alt.Color("shade:N", scale=scale, legend=several),
        size=alt.condition(HIT, *map(alt.value, SIZES[named])),
        tooltip=["node:N", "group:N"],
    )
    rest = 1.0 if named else 0.0
    names = dots.mark_text(color=INK, fontSize=12, limit=150).encode(
        *_at("px", "ty"), text="node:N", opacity=alt.condition(HIT, alt.value(1), alt.value(rest))
    )
    return [points, names]


def _at(x: str, y: str) -> tuple[Any, Any]:
    """Encode a place in pixels."""
    alt = altair()
    return alt.X(f"{x}:Q", axis=None, scale=None), alt.Y(f"{y}:Q", axis=None, scale=None)


def _placed(found: Listening) -> list[tuple[int, str, float, float]]:
    places = zip(found.names, found.places, strict=True)
    return [(i, name, round(x, 3), round(y, 3)) for i, (name, (x, y)) in enumerate(places)]


def _table(found: Listening) -> Any:
    """Return lines as text with commas, a fraction of what they take as JSON."""
    alt = altair()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow("rustw")
    writer.writerows(found.lines)
    numbers = dict.fromkeys("rustw", "number")
    return alt.InlineData(text.getvalue(), format=alt.CsvDataFormat(type="csv", parse=numbers))
