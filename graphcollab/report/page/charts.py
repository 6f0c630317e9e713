"""Charts of a page: what Vega-Lite is to draw, in colours that go with light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphcollab.report._figure import COLOURS
from graphcollab.report.page._libraries import altair
from graphcollab.report.page.content import Chart

__all__ = ["INK", "bar_chart", "calibration_chart", "colours", "curve_chart", "finished", "matrix_chart"]

Rows = Sequence[Mapping[str, Any]]

PALETTE = [colour if colour != "#000000" else "#888888" for colour in COLOURS]  # black is not seen on black
LOSS, NOTHING, GAIN = "#D55E00", "#f2f2f2", "#0072B2"
INK = "currentColor"  # that of the page's text
CELLS = 60  # sites up to which both axes of a matrix have labels
BAR = 30  # pixels


def curve_chart(rows: Rows, over: str, what: str, name: str, caption: str) -> Chart:
    """Draw means of methods over rounds or steps, and a band of a standard deviation where there are several seeds."""
    alt = altair()
    methods = _methods(rows)
    near = alt.Scale(zero=False)
    x, y = alt.X("x:Q", title=over, axis=alt.Axis(tickCount=8)), alt.Y("mean:Q", title=what, scale=near)
    base = alt.Chart(alt.InlineData(list(rows))).encode(x=x, color=_by_method(methods))
    tips = ["method:N", alt.Tooltip("x:Q", title=over), alt.Tooltip("mean:Q", title=what, format=".4~g")]
    dash = alt.StrokeDash("method:N", sort=None, scale=alt.Scale(domain=methods), legend=_legend())
    line = base.mark_line(point=alt.OverlayMarkDef(size=30)).encode(y=y, tooltip=tips, strokeDash=dash)
    band = base.mark_area(opacity=0.13).encode(y=alt.Y("low:Q", title=what, scale=near), y2="high:Q")
    chart = alt.layer(band, line) if any(row["low"] != row["high"] for row in rows) else line
    return finished(chart.properties(width="container", height=320), name, caption)


def bar_chart(rows: Rows, what: str, name: str, caption: str) -> Chart:
    """Draw a bar for every method."""
    alt = altair()
    bars = alt.Chart(alt.InlineData(list(rows))).mark_bar(color=PALETTE[0])
    drawn = bars.encode(
        x=alt.X("value:Q", title=what, axis=alt.Axis(format="~s", tickCount=4)),
        y=alt.Y("method:N", sort=None, title=None),
        tooltip=["method:N", alt.Tooltip("text:N", title=what)],
    )
    return finished(drawn.properties(width="container", height=BAR * len(rows)), name, caption)


def calibration_chart(rows: Rows, name: str, caption: str) -> Chart:
    """Draw how often predictions were right, by how sure they were; on the dotted line they mean what they say."""
    alt = altair()
    low = min(row["confidence"] for row in rows)
    x = alt.X("confidence:Q", title="probability that was predicted (%)", scale=alt.Scale(domain=[low, 100]))
    y = alt.Y("right:Q", title="share that was right (%)", scale=alt.Scale(domain=[0, 100]))
    titles = {"confidence": "predicted (%)", "right": "right (%)", "samples": "samples"}
    tips = ["method:N", *(alt.Tooltip(f"{field}:Q", title=said, format=".4~g") for field, said in titles.items())]
    base = alt.Chart(alt.InlineData(list(rows))).encode(x=x, y=y, color=_by_method(_methods(rows)))
    size = alt.Size("samples:Q", legend=None, scale=alt.Scale(range=[20, 300]))
    dots = base.mark_circle(opacity=0.9).encode(size=size, tooltip=tips)
    ends = alt.InlineData([{"confidence": end, "right": end} for end in (low, 100)])
    ideal = alt.Chart(ends).mark_line(color=INK, strokeDash=[2, 4], opacity=0.6).encode(x=x, y=y)
    chart = alt.layer(ideal, base.mark_line(), dots).properties(width="container", height=340)
    return finished(chart, name, caption)


def matrix_chart(rows: Rows, what: str, name: str, caption: str, names: Sequence[str]) -> Chart:
    """Draw what sites gain by others, as cells; orange is a loss, blue a gain."""
    alt = altair()
    most = max((abs(row["gain"]) for row in rows), default=0.0) or 1.0
    some = {"labels": len(names) <= CELLS, "ticks": False, "domain": False, "labelLimit": 120}
    scale = alt.Scale(domain=[-most, 0, most], range=[LOSS, NOTHING, GAIN])
    titles = {"site": "who", "by": "by whom", "text": what}
    cells = alt.Chart(alt.InlineData(list(rows))).mark_rect(stroke=INK, strokeOpacity=0.15)
    drawn = cells.encode(
        x=alt.X("by:N", sort=list(names), title="by whom", axis=alt.Axis(labelAngle=-45, **some)),
        y=alt.Y("site:N", sort=list(names), title="who gains", axis=alt.Axis(**some)),
        color=alt.Color("gain:Q", title=what, scale=scale, legend=alt.Legend(orient="bottom")),
        tooltip=[alt.Tooltip(f"{field}:N", title=said) for field, said in titles.items()],
    )
    height = max(240, min(720, 30 * len(names)))
    return finished(drawn.properties(width="container", height=height), name, caption)


def colours(domain: Sequence[str]) -> Any:
    """Return a scale that gives each of some names a colour, the same again after seven."""
    return altair().Scale(domain=list(domain), range=(PALETTE * len(domain))[: len(domain)])


def _methods(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))


def _legend() -> Any:
    return altair().Legend(orient="bottom", title=None, columns=3, labelLimit=200)


def _by_method(methods: Sequence[str]) -> Any:
    return altair().Color("method:N", sort=None, scale=colours(methods), legend=_legend())


def finished(chart: Any, name: str, caption: str) -> Chart:
    """Return a chart without a background of its own, in the page's ink, with words for who does not see it."""
    ink = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    faint = {f"{part}Opacity": opacity for part, opacity in {"grid": 0.12, "domain": 0.3, "tick": 0.3}.items()}
    spec = chart.properties(description=caption).to_dict()
    spec.pop("$schema", None)  # an address, and nothing is loaded from any
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    spec["config"] = {
        "background": "transparent",
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {**ink, **faint, "gridColor": INK, "domainColor": INK, "tickColor": INK},
        "legend": {**ink, "symbolStrokeColor": INK},
    }
    return Chart(name, caption, spec)
