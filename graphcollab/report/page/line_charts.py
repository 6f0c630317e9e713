"""Charts of a page with a line for every method: over rounds, and of how often predictions were right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphcollab.report.page._libraries import altair
from graphcollab.report.page.charts import by_method, chosen_method, finished, legend
from graphcollab.report.page.colours import INK
from graphcollab.report.page.content import Chart, Table

__all__ = ["calibration_chart", "curve_chart"]

Rows = Sequence[Mapping[str, Any]]

DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [14, 3], [3, 5], [9, 3, 2, 3, 2, 3], [14, 3, 4, 3])
"""How lines of methods are dashed, the same again after eight: more than there are colours, so both never repeat."""
DASHED = {"symbolType": "stroke", "symbolSize": 1200}
"""Of a legend that shows how lines are dashed, as long as the longest dashes take."""
DOTTED = 60  # points of a line, up to which each has a dot


def curve_chart(rows: Rows, over: str, what: str, name: str, caption: str, table: Table) -> Chart:
    """Draw means of methods over rounds or steps, and a band of a standard deviation where there are several seeds."""
    alt = altair()
    methods = _methods(rows)
    chosen, drawn, full = chosen_method(methods)
    near = alt.Scale(zero=False)
    x, y = alt.X("x:Q", title=over, axis=alt.Axis(tickCount=8)), alt.Y("mean:Q", title=what, scale=near)
    base = alt.Chart(alt.InlineData(list(rows))).encode(x=x, color=by_method(methods, **DASHED))
    tips = ["method:N", alt.Tooltip("x:Q", title=over), alt.Tooltip("mean:Q", title=what, format=".4~g")]
    tips += [alt.Tooltip(f"{end}:Q", title=end, format=".4~g") for end in ("low", "high")]
    dashes = alt.Scale(domain=methods, range=[DASHES[n % len(DASHES)] for n in range(len(methods))])
    dash = alt.StrokeDash("method:N", sort=None, scale=dashes, legend=legend(symbolOpacity=1, **DASHED))
    dots = alt.OverlayMarkDef(size=30) if len(rows) <= DOTTED * len(methods) else False
    line = base.mark_line(point=dots).encode(
        y=y, tooltip=tips, strokeDash=dash, opacity=alt.condition(drawn, alt.value(1), alt.value(0.15))
    )
    shade = alt.condition(full, alt.value(0.16), alt.value(0))
    band = base.mark_area().encode(y=alt.Y("low:Q", title=what, scale=near), opacity=shade)
    several = any(row["low"] != row["high"] for row in rows)
    chart = alt.layer(*([band.encode(y2="high:Q")] if several else []), line)
    many = len(methods) > 1
    chart = chart.add_params(chosen) if many else chart.add_params(alt.param(name="only", value=methods[0]))
    return finished(chart.properties(width="container", height=320), name, caption, table, controls=many)


def calibration_chart(rows: Rows, name: str, caption: str, table: Table) -> Chart:
    """Draw how often predictions were right, by how sure they were; on the dotted line they mean what they say."""
    alt = altair()
    methods = _methods(rows)
    chosen, drawn, _ = chosen_method(methods)
    low = min(row["confidence"] for row in rows)
    axis = alt.Axis(tickCount=6)
    x = alt.X("confidence:Q", title="predicted probability (%)", scale=alt.Scale(domain=[low, 100]), axis=axis)
    y = alt.Y("right:Q", title="share that was right (%)", scale=alt.Scale(domain=[0, 100]), axis=axis)
    titles = {"confidence": "predicted (%)", "right": "right (%)", "samples": "samples"}
    tips = ["method:N", *(alt.Tooltip(f"{field}:Q", title=said, format=".4~g") for field, said in titles.items())]
    faint = alt.condition(drawn, alt.value(0.9), alt.value(0.1))
    base = alt.Chart(alt.InlineData(list(rows))).encode(x=x, y=y, color=by_method(methods), opacity=faint)
    size = alt.Size("samples:Q", legend=None, scale=alt.Scale(domainMin=0, range=[8, 320]))
    dots = base.mark_circle().encode(size=size, tooltip=tips)
    ends = alt.InlineData([{"confidence": end, "right": end} for end in (low, 100)])
    ideal = alt.Chart(ends).mark_line(color=INK, strokeDash=[2, 4], opacity=0.7).encode(x=x, y=y)
    many = len(methods) > 1
    chart = alt.layer(ideal, base.mark_line(strokeWidth=1), dots).properties(width="container", height=340)
    chart = chart.add_params(chosen) if many else chart.add_params(alt.param(name="only", value=methods[0]))
    return finished(chart, name, caption, table, controls=many)


def _methods(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))
