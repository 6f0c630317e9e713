"""The chart of who listens to whom, with a slider over rounds and a search by name."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from graphcollab.report.page._libraries import altair
from graphcollab.report.page.charts import INK, colours, finished
from graphcollab.report.page.content import Chart
from graphcollab.report.page.graph import Listening

__all__ = ["graph_chart"]

NAMED = 40  # nodes up to which all names are written
ASIDE = 0.02  # how far lines are beside the straight one between two nodes, so that both directions are seen
BEFORE = 0.08  # how far arrows' heads are before the receiver
HIT = "search != '' && indexof(lower(datum.node), lower(search)) >= 0"
TOUCHED = (
    "search == '' || indexof(lower(datum.from), lower(search)) >= 0 || indexof(lower(datum.to), lower(search)) >= 0"
)


def graph_chart(found: Listening, name: str, caption: str) -> Chart:
    """Draw nodes, and of every round who listens to whom."""
    alt = altair()
    params = [alt.param(name="search", value="", bind=alt.binding(input="search", placeholder="a name", name="find "))]
    first, last = found.rounds[0], found.rounds[-1]
    if len(found.rounds) > 1:
        slider = alt.binding_range(min=first, max=last, step=1, name="round ")
        params.append(alt.param(name="at", value=last, bind=slider))
    chart = alt.layer(*_edges(found), *_nodes(found)).add_params(*params)
    return finished(chart.properties(width="container", height=500), name, caption)


def _edges(found: Listening) -> tuple[Any, Any]:
    """Return lines and arrows' heads of the round that the slider is at."""
    alt = altair()
    titles = {"to:N": "receiver", "from:N": "sender", "w:Q": "weight", "r:Q": "round"}
    tips = [alt.Tooltip(field, title=title) for field, title in titles.items()]
    opacity = alt.Opacity("w:Q", scale=alt.Scale(domainMin=0, range=[0.1, 0.9]), legend=None)
    strength = alt.condition(TOUCHED, opacity, alt.value(0.03))
    thick = alt.Scale(domainMin=0, range=[0.3, 5])
    base = alt.Chart(alt.InlineData(_lines(found)))
    if len(found.rounds) > 1:
        base = base.transform_filter("datum.r <= at && at < datum.u")
    lines = base.mark_rule(color=INK, cursor="default").encode(
        *_place("x", "y"), x2="x2", y2="y2", strokeWidth=alt.StrokeWidth("w:Q", scale=thick, legend=None)
    )
    heads = base.mark_point(shape="triangle", filled=True, color=INK, size=70).encode(
        *_place("hx", "hy"), angle=alt.Angle("a:Q", scale=None)
    )
    return lines.encode(opacity=strength, tooltip=tips), heads.encode(opacity=strength, tooltip=tips)


def _nodes(found: Listening) -> tuple[Any, Any]:
    """Return points and names; of many nodes the names of those that are searched for."""
    alt = altair()
    groups = sorted({node["group"] for node in found.nodes}, key=lambda group: int(group.split()[1]))
    dots = alt.Chart(alt.InlineData(list(found.nodes))).encode(*_place("x", "y"))
    points = dots.mark_circle(opacity=1).encode(
        color=alt.Color("group:N", scale=colours(groups), legend=None),
        size=alt.condition(HIT, alt.value(450), alt.value(160)),
        tooltip=["node:N", "group:N"],
    )
    rest = 1.0 if len(found.nodes) <= NAMED else 0.0
    words = {"dy": -16, "color": INK, "fontSize": 12, "limit": 150}
    names = dots.mark_text(**words).encode(text="node:N", opacity=alt.condition(HIT, alt.value(1), alt.value(rest)))
    return points, names


def _place(x: str, y: str) -> tuple[Any, Any]:
    alt = altair()
    wide, high = alt.Scale(domain=[-1.3, 1.3], nice=False), alt.Scale(domain=[-1.15, 1.2], nice=False)
    return alt.X(f"{x}:Q", axis=None, scale=wide), alt.Y(f"{y}:Q", axis=None, scale=high)


def _lines(found: Listening) -> list[dict[str, Any]]:
    """Return edges as lines, with the places of their heads, and until which round they hold."""
    until = dict(pairwise([*found.rounds, found.rounds[-1] + 1]))
    lines = []
    for edge in found.edges:
        a, b = found.nodes[edge["s"]], found.nodes[edge["t"]]
        dx, dy = b["x"] - a["x"], b["y"] - a["y"]
        far = math.hypot(dx, dy) or 1.0
        x, y = a["x"] - dy / far * ASIDE, a["y"] + dx / far * ASIDE
        part = max(0.5, 1 - BEFORE / far)
        places = {"x": x, "y": y, "x2": x + dx, "y2": y + dy, "hx": x + part * dx, "hy": y + part * dy}
        told = {"r": edge["r"], "u": until[edge["r"]], "from": a["node"], "to": b["node"], "w": edge["w"]}
        turn = round(math.degrees(math.atan2(dx, dy)))
        lines.append({**told, **{key: round(value, 3) for key, value in places.items()}, "a": turn})
    return lines
