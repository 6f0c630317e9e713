"""Charts of a page: what Vega-Lite is to draw, in colours that go with light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from graphcollab.report._figure import COLOURS
from graphcollab.report.page._libraries import altair
from graphcollab.report.page.content import Chart
from graphcollab.report.page.graph import Listening

__all__ = ["bar_chart", "calibration_chart", "curve_chart", "graph_chart", "matrix_chart"]

PALETTE = [colour if colour != "#000000" else "#888888" for colour in COLOURS]  # black is not seen on black
INK = "currentColor"
NAMED = 40  # nodes up to which all names are written
CELLS = 60  # nodes up to which the cells of a matrix have labels at both axes


def graph_chart(found: Listening, name: str, caption: str) -> Chart:
    """Draw nodes, and of every round who listens to whom, with a slider over rounds and a search by name."""
    alt = altair()
    first, last = found.rounds[0], found.rounds[-1]
    whose = alt.param(name="search", value="", bind=alt.binding(input="search", placeholder="a name", name="find "))
    params = [whose]
    shown = "true"
    if len(found.rounds) > 1:
        gap = max(b - a for a, b in zip(found.rounds, found.rounds[1:]))
        at = alt.param(name="at", value=last, bind=alt.binding_range(min=first, max=last, step=1, name="round "))
        params.append(at)
        shown = f"datum.r <= at && datum.r > at - {gap}" if gap > 1 else "datum.r == at"
    nodes, lines = _lines(found)
    hit = "search != '' && indexof(lower(datum.node), lower(search)) >= 0"
    touched = (
        "search == '' || indexof(lower(datum.from), lower(search)) >= 0 || indexof(lower(datum.to), lower(search)) >= 0"
    )
    x, y = (
        alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-1.2, 1.2])),
        alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[-1.15, 1.15])),
    )
    tips = [
        alt.Tooltip("to:N", title="receiver"),
        alt.Tooltip("from:N", title="sender"),
        alt.Tooltip("w:Q", title="weight"),
        alt.Tooltip("r:Q", title="round"),
    ]
    strength = alt.condition(
        touched, alt.Opacity("w:Q", scale=alt.Scale(type="sqrt", range=[0.1, 0.9]), legend=None), alt.value(0.04)
    )
    width = alt.StrokeWidth(
        "w:Q", scale=alt.Scale(type="sqrt", domainMin=0, range=[0.3, 4.5]), legend=alt.Legend(title="weight")
    )
    base = alt.Chart(alt.InlineData(lines, name="lines")).transform_filter(shown)
    rules = base.mark_rule(color=INK).encode(
        x=x, y=y, x2="x2:Q", y2="y2:Q", strokeWidth=width, opacity=strength, tooltip=tips
    )
    heads = base.mark_point(shape="triangle", filled=True, color=INK, size=50).encode(
        x=alt.X("hx:Q", axis=None),
        y=alt.Y("hy:Q", axis=None),
        angle=alt.Angle("a:Q", scale=None),
        opacity=strength,
        tooltip=tips,
    )
    dots = alt.Chart(alt.InlineData(nodes, name="nodes")).encode(x=x, y=y)
    groups = sorted({node["group"] for node in nodes}, key=lambda group: int(group.split()[1]))
    colour = alt.Color(
        "group:N",
        sort=groups,
        scale=alt.Scale(domain=groups, range=(PALETTE * len(groups))[: len(groups)]),
        legend=None,
    )
    points = dots.mark_circle(opacity=1).encode(
        color=colour, size=alt.condition(hit, alt.value(420), alt.value(160)), tooltip=["node:N", "group:N"]
    )
    some = len(nodes) <= NAMED
    names = dots.mark_text(dy=-14, color=INK, fontSize=12).encode(
        text="node:N",
        opacity=alt.condition(hit, alt.value(1), alt.value(0.9 if some else 0.0)),
    )
    chart = alt.layer(rules, heads, points, names).add_params(*params)
    return _chart(chart.properties(width="container", height=480), name, caption)


def _lines(found: Listening) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return nodes, and edges as lines beside the straight one between two nodes, with the place of their heads."""
    lines = []
    for edge in found.edges:
        a, b = found.nodes[edge["s"]], found.nodes[edge["t"]]
        dx, dy = b["x"] - a["x"], b["y"] - a["y"]
        far = math.hypot(dx, dy) or 1.0
        aside = 0.018  # so that both directions of a pair are seen
        ox, oy = -dy / far * aside, dx / far * aside
        x, y, x2, y2 = a["x"] + ox, a["y"] + oy, b["x"] + ox, b["y"] + oy
        part = max(0.5, 1 - 0.09 / far)  # before the receiver's point
        lines.append(
            {"r": edge["r"], "from": a["node"], "to": b["node"], "w": edge["w"]}
            | {key: round(value, 3) for key, value in {"x": x, "y": y, "x2": x2, "y2": y2}.items()}
            | {"hx": round(x + part * (x2 - x), 3), "hy": round(y + part * (y2 - y), 3)}
            | {"a": round(math.degrees(math.atan2(dx, dy)))}
        )
    return list(found.nodes), lines


def curve_chart(rows: Sequence[Mapping[str, Any]], over: str, what: str, name: str, caption: str) -> Chart:
    """Draw means of methods over rounds or steps, and a band of one standard deviation where there are several seeds."""
    alt = altair()
    methods = list(dict.fromkeys(row["method"] for row in rows))
    colour = alt.Color(
        "method:N",
        sort=None,
        scale=alt.Scale(domain=methods, range=(PALETTE * len(methods))[: len(methods)]),
        legend=alt.Legend(orient="bottom", title=None, columns=3, labelLimit=200),
    )
    base = alt.Chart(alt.InlineData(list(rows))).encode(x=alt.X("x:Q", title=over), color=colour)
    scale = alt.Scale(zero=False)
    band = base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", title=what, scale=scale), y2="high:Q")
    tips = ["method:N", alt.Tooltip("x:Q", title=over), alt.Tooltip("mean:Q", title=what, format=".4~g")]
    line = base.mark_line(point=alt.OverlayMarkDef(size=30)).encode(
        y=alt.Y("mean:Q", title=what, scale=scale),
        tooltip=tips,
        strokeDash=alt.StrokeDash("method:N", sort=None, scale=alt.Scale(domain=methods), legend=None),
    )
    chart = alt.layer(band, line) if any(row["low"] != row["high"] for row in rows) else line
    return _chart(chart.properties(width="container", height=300), name, caption)


def bar_chart(rows: Sequence[Mapping[str, Any]], what: str, name: str, caption: str) -> Chart:
    """Draw a bar for every method."""
    alt = altair()
    bars = (
        alt.Chart(alt.InlineData(list(rows)))
        .mark_bar(color=PALETTE[0])
        .encode(
            x=alt.X("value:Q", title=what, axis=alt.Axis(format="~s")),
            y=alt.Y("method:N", sort=None, title=None),
            tooltip=["method:N", alt.Tooltip("text:N", title=what)],
        )
    )
    return _chart(bars.properties(width="container", height=alt.Step(28)), name, caption)


def calibration_chart(rows: Sequence[Mapping[str, Any]], name: str, caption: str) -> Chart:
    """Draw how often predictions were right against how sure they were; on the dotted line they mean what they say."""
    alt = altair()
    methods = list(dict.fromkeys(row["method"] for row in rows))
    colour = alt.Color(
        "method:N",
        sort=None,
        scale=alt.Scale(domain=methods, range=(PALETTE * len(methods))[: len(methods)]),
        legend=alt.Legend(orient="bottom", title=None, columns=3, labelLimit=200),
    )
    x, y = (
        alt.X("confidence:Q", title="probability that was predicted (%)", scale=alt.Scale(zero=False)),
        alt.Y("right:Q", title="share that was right (%)", scale=alt.Scale(domain=[0, 100])),
    )
    tips = [
        "method:N",
        alt.Tooltip("confidence:Q", format=".1f"),
        alt.Tooltip("right:Q", format=".1f"),
        alt.Tooltip("samples:Q", format=".6~g"),
    ]
    line = alt.Chart(alt.InlineData(list(rows))).mark_line().encode(x=x, y=y, color=colour)
    dots = (
        alt.Chart(alt.InlineData(list(rows)))
        .mark_circle(opacity=0.9)
        .encode(
            x=x,
            y=y,
            color=colour,
            size=alt.Size("samples:Q", legend=None, scale=alt.Scale(range=[20, 300])),
            tooltip=tips,
        )
    )
    low = min(row["confidence"] for row in rows)
    ends = [{"confidence": low, "right": low}, {"confidence": 100, "right": 100}]
    ideal = alt.Chart(alt.InlineData(ends)).mark_line(color=INK, strokeDash=[2, 4], opacity=0.6).encode(x=x, y=y)
    return _chart(alt.layer(ideal, line, dots).properties(width="container", height=320), name, caption)


def matrix_chart(rows: Sequence[Mapping[str, Any]], what: str, name: str, caption: str, names: Sequence[str]) -> Chart:
    """Draw what receivers gain by senders, as cells; orange is a loss, blue a gain."""
    alt = altair()
    most = max((abs(row["gain"]) for row in rows), default=1.0) or 1.0
    some = len(names) <= CELLS
    x = alt.X(
        "by:N", sort=list(names), title="by whom", axis=alt.Axis(labels=some, ticks=some, labelAngle=-45, labelLimit=90)
    )
    y = alt.Y("site:N", sort=list(names), title="who gains", axis=alt.Axis(labels=some, ticks=some, labelLimit=110))
    scale = alt.Scale(domain=[-most, 0, most], range=["#D55E00", "#f2f2f2", "#0072B2"])
    tips = [alt.Tooltip("site:N", title="who"), alt.Tooltip("by:N", title="by whom"), alt.Tooltip("text:N", title=what)]
    cells = (
        alt.Chart(alt.InlineData(list(rows)))
        .mark_rect()
        .encode(
            x=x,
            y=y,
            color=alt.Color("gain:Q", title=what, scale=scale, legend=alt.Legend(orient="bottom")),
            tooltip=tips,
        )
    )
    height = max(220, min(700, 26 * len(names)))
    return _chart(cells.properties(width="container", height=height), name, caption)


def _chart(chart: Any, name: str, caption: str) -> Chart:
    """Finish a chart: no background of its own, ink of the page, and words for who does not see it."""
    ink = {"labelColor": INK, "titleColor": INK}
    config = {
        "background": "transparent",
        "view": {"stroke": None},
        "axis": {
            **ink,
            "gridColor": INK,
            "gridOpacity": 0.12,
            "domainColor": INK,
            "domainOpacity": 0.3,
            "tickColor": INK,
            "tickOpacity": 0.3,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
        },
        "legend": {
            **ink,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "symbolStrokeColor": INK,
        },
        "font": "system-ui, sans-serif",
    }
    spec = chart.properties(description=caption).to_dict()
    spec.pop("$schema", None)  # an address, which nothing is to be loaded from
    spec["config"] = config
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return Chart(name, caption, spec)
