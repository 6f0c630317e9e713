"""The charts of a page, in Vega-Lite: its layout, its colors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from graphcollab.report.page._libraries import altair
from graphcollab.report.page.content import Chart
from graphcollab.report.values import Table

__all__ = ["calibration_chart", "curve_chart", "finished", "legend", "matrix_chart"]

Rows = Sequence[Mapping[str, Any]]

WRITTEN = 12  # sites up to which gains are written into the cells of a matrix
USUAL = 0.95  # share of the gains that colors distinguish: a single large one would leave all others pale
DOTTED = 60  # points of a line, up to which each has a dot


def legend(**more: Any) -> Any:
    """Return a legend below the chart, with fewer columns on a phone."""
    columns = {"expr": "width < 420 ? 2 : 4"}
    return altair().Legend(**{"orient": "bottom", "title": None, "columns": columns, "labelLimit": 150, **more})


def finished(chart: Any, name: str, caption: str, table: Table) -> Chart:
    """Return a chart without the address of its schema: nothing is loaded from any."""
    spec = chart.to_dict(validate=False)
    spec.pop("$schema", None)
    return Chart(name, caption, {**spec, "config": {"aria": False, "legend": {"layout": BELOW}}}, table)


BELOW = {"bottom": {"anchor": "start", "direction": "vertical"}}  # several legends below each other


def curve_chart(rows: Rows, over: str, what: str, name: str, caption: str, table: Table) -> Chart:
    """Draw means of methods over rounds or steps, and a band of a standard deviation where there are several seeds."""
    alt = altair()
    base, pick, methods = _by_method(rows)
    x = alt.X("x:Q", title=over, axis=alt.Axis(tickCount=8, tickMinStep=1))
    tips = ["method:N", alt.Tooltip("x:Q", title=over), alt.Tooltip("mean:Q", title=what, format=".4~g")]
    dots = len(rows) <= DOTTED * len(methods)
    line = base.mark_line(point=dots).encode(
        x=x,
        y=alt.Y("mean:Q", title=what, scale=alt.Scale(zero=False)),
        tooltip=tips,
        strokeDash=alt.StrokeDash("method:N", sort=methods, legend=None),
        opacity=alt.when(pick).then(alt.value(1)).otherwise(alt.value(0.1)),
    )
    several = any(row["low"] != row["high"] for row in rows)
    band = base.transform_filter(pick).mark_area(opacity=0.15).encode(x=x, y=alt.Y("low:Q", title=what), y2="high:Q")
    chart = alt.layer(*[band] * several, line).properties(width="container", height=320)
    return finished(chart, name, caption, table)


def calibration_chart(rows: Rows, name: str, caption: str, table: Table) -> Chart:
    """Draw how often predictions were right, by how sure they were; on the dotted line they mean what they say."""
    alt = altair()
    base, pick, _ = _by_method(rows)
    ends = [min(row["confidence"] for row in rows), 100]
    x = alt.X("confidence:Q", title="predicted probability (%)", scale=alt.Scale(domain=ends))
    y = alt.Y("right:Q", title="share that was right (%)", scale=alt.Scale(domain=[0, 100]))
    shown = base.encode(x=x, y=y, opacity=alt.when(pick).then(alt.value(0.9)).otherwise(alt.value(0.1)))
    size = alt.Size("samples:Q", legend=None)
    tips = [alt.Tooltip(f"{key}:{kind}", format=".4~g") for key, kind in (("confidence", "Q"), ("right", "Q"))]
    dots = shown.mark_circle().encode(size=size, tooltip=["method:N", *tips, "samples:Q"])
    ideal = alt.Chart(alt.InlineData([{"confidence": end, "right": end} for end in ends]))
    ideal = ideal.mark_line(strokeDash=[2, 4], color="gray").encode(x=x, y=y)
    chart = alt.layer(ideal, shown.mark_line(strokeWidth=1), dots).properties(width="container", height=340)
    return finished(chart, name, caption, table)


def _by_method(rows: Rows) -> tuple[Any, Any, list[str]]:
    """Return a chart of rows colored by method, a control that chooses a method, and the methods."""
    alt = altair()
    methods = list(dict.fromkeys(row["method"] for row in rows))
    control = alt.binding_select(options=[None, *methods], labels=["all", *methods], name="method ")
    pick = alt.selection_point(fields=["method"], bind=control)
    scheme = alt.Scale(scheme="category10" if len(methods) <= 10 else "category20")
    color = alt.Color("method:N", sort=methods, scale=scheme, legend=legend())
    base = alt.Chart(alt.InlineData(list(rows))).encode(color=color)
    return base.add_params(pick) if len(methods) > 1 else base.add_params(alt.selection_point()), pick, methods


def matrix_chart(rows: Rows, what: str, name: str, caption: str, names: Sequence[str], table: Table) -> Chart:
    """Draw what sites gain by others as cells; orange is a loss, blue a gain."""
    alt = altair()
    sizes = torch.tensor([row["gain"] for row in rows], dtype=torch.float64).abs()
    most = float(sizes.quantile(USUAL)) or float(sizes.max()) or 1.0
    scale = alt.Scale(scheme="blueorange", reverse=True, domain=[-most, most], clamp=True)
    base = alt.Chart(alt.InlineData(list(rows))).encode(
        x=alt.X("by:N", sort=list(names), title="by whom", axis=alt.Axis(labelAngle=-45, labelLimit=120)),
        y=alt.Y("site:N", sort=list(names), title="who gains", axis=alt.Axis(labelLimit=120)),
        tooltip=[
            alt.Tooltip("site:N", title="who"),
            alt.Tooltip("by:N", title="by whom"),
            alt.Tooltip("text:N", title=what),
        ],
    )
    chart = base.mark_rect().encode(color=alt.Color("gain:Q", title=what, scale=scale, legend=legend(title=what)))
    if len(names) <= WRITTEN:
        dark = alt.datum["gain"]
        ink = (
            alt.when((dark > 0.7 * most) | (dark < -0.7 * most)).then(alt.value("white")).otherwise(alt.value("black"))
        )
        chart = alt.layer(chart, base.mark_text().encode(text="short:N", color=ink))
    return finished(
        chart.properties(width="container", height=max(240, min(720, 34 * len(names)))), name, caption, table
    )
