"""The content of a page, sections of findings, tables and charts, and its charts in Vega-Lite."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from typing import Any

import torch

from graphcollab._base.extras import import_extra
from graphcollab._base.findings import Finding
from graphcollab.report.values import Table

Rows = Sequence[Mapping[str, Any]]

WRITTEN = 12  # maximum number of sites for which gains are written into the cells of a matrix
USUAL = 0.9  # share of the gains that determine the range of colors and axes
FIELDS = ("to:N", "by:N", "text:N")  # of a matrix cell
FORMAT = ",.4~r"  # four significant digits, commas between thousands, never an exponent
DOTTED = 60  # maximum number of points of a line for which each has a dot
BELOW = {"bottom": {"anchor": "start", "direction": "vertical"}}  # stack several legends


@dataclass(frozen=True)
class Chart:
    """A chart: its anchor ``name``, an alternative text ``caption``, its Vega-Lite ``spec``, and its numbers."""

    name: str
    caption: str
    spec: Mapping[str, Any] = field(repr=False)
    table: Table


@dataclass(frozen=True)
class Section:
    """A heading with its content in this order; ``name`` is its anchor, ``more`` and ``folded`` are collapsed."""

    name: str
    title: str
    said: Sequence[Finding | str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    more: Sequence[Table] = ()
    terms: Sequence[tuple[str, str]] = ()
    folded: str = ""
    code: str = ""


@dataclass(frozen=True)
class Content:
    """A whole page: the question, the answer with the headline first, and the sections that support it."""

    title: str
    asked: str
    answer: Sequence[Finding]
    sections: Sequence[Section]


def altair() -> Any:
    """Return the package ``altair``."""
    return import_extra("altair", "pages", "page")


@cache
def libraries() -> dict[str, str]:
    """Return styles, and the scripts that draw charts and sort tables, base64-encoded so they contain no HTML tags."""
    import_extra("itables", "pages", "page")
    version = ".".join(altair().SCHEMA_VERSION.lstrip("v").split(".")[:2])
    charts = import_extra("vl_convert", "pages", "page").javascript_bundle(vl_version=version)
    tables = files("itables").joinpath("html")
    scripts = {"charts_script": charts, "tables_script": tables.joinpath("dt_bundle.js").read_text(encoding="utf-8")}
    styles = {"tables_style": tables.joinpath("dt_bundle.css").read_text(encoding="utf-8")}
    return {name: b64encode(script.encode()).decode() for name, script in scripts.items()} | styles


def legend(**more: Any) -> Any:
    """Return a legend below the chart, with fewer columns on a phone."""
    columns = {"expr": "width < 420 ? 2 : 4"}
    return altair().Legend(**{"orient": "bottom", "title": None, "columns": columns, "labelLimit": 150, **more})


def finished(chart: Any, name: str, caption: str, table: Table) -> Chart:
    """Return a chart without its schema's URL, so that nothing is loaded from it."""
    spec = chart.to_dict(validate=False)
    spec.pop("$schema", None)
    config = {"aria": False, "numberFormat": FORMAT, "legend": {"layout": BELOW}}
    return Chart(name, caption, {**spec, "config": config}, table)


def curve_chart(name: str, caption: str, table: Table) -> Chart:
    """Draw means over rounds or steps, with standard deviations; columns: methods, rounds or steps, means."""
    alt = altair()
    over, what = table.columns[1:]
    rows = []
    for method, x, mean in table.rows:
        value, spread = mean.order or 0.0, mean.spread or 0.0
        ends = {"low": value - spread, "high": value + spread}
        rows.append({"method": method.text, "x": x.value, "mean": value, **ends})
    base, pick, methods = _by_method(rows)
    axis = alt.X("x:Q", title=over, axis=alt.Axis(tickCount=8, tickMinStep=1))
    tips = ["method:N", alt.Tooltip("x:Q", title=over), alt.Tooltip("mean:Q", title=what, format=FORMAT)]
    line = base.mark_line(point=len(rows) <= DOTTED * len(methods)).encode(
        x=axis,
        y=alt.Y("mean:Q", title=what, scale=alt.Scale(zero=False)),
        tooltip=tips,
        strokeDash=alt.StrokeDash("method:N", sort=methods, legend=None),
        opacity=alt.when(pick).then(alt.value(1)).otherwise(alt.value(0.1)),
    )
    low = alt.Y("low:Q", title=what)
    band = base.transform_filter(pick).mark_area(opacity=0.15).encode(x=axis, y=low, y2="high:Q")
    chart = alt.layer(band, line).properties(width="container", height=320)
    return finished(chart, name, caption, table)


def calibration_chart(name: str, caption: str, table: Table) -> Chart:
    """Draw accuracy over the confidence of predictions; columns: methods, samples, confidence, right (%)."""
    alt = altair()
    keys = ("method", "samples", "confidence", "right")
    shown = ((row[0].text, *(cell.value for cell in row[1:])) for row in table.rows)
    rows: list[dict[str, Any]] = [dict(zip(keys, row, strict=True)) for row in shown]
    base, pick, _ = _by_method(rows)
    x = alt.X("confidence:Q", title=table.columns[2], scale=alt.Scale(zero=False))
    y = alt.Y("right:Q", title=table.columns[3], scale=alt.Scale(domain=[0, 100]))
    shown = base.encode(x=x, y=y, opacity=alt.when(pick).then(alt.value(0.9)).otherwise(alt.value(0.1)))
    tips = [alt.Tooltip(f"{key}:Q", format=FORMAT) for key in keys[1:]]
    dots = shown.mark_circle().encode(size=alt.Size("samples:Q", legend=None), tooltip=["method:N", *tips])
    least = min(row["confidence"] for row in rows)
    ideal = alt.Chart(alt.InlineData([{"confidence": end, "right": end} for end in (least, 100)]))
    ideal = ideal.mark_line(strokeDash=[2, 4], color="gray").encode(x=x, y=y)
    chart = alt.layer(ideal, shown.mark_line(strokeWidth=1), dots).properties(width="container", height=340)
    return finished(chart, name, caption, table)


def _by_method(rows: Rows) -> tuple[Any, Any, list[str]]:
    alt = altair()
    methods = list(dict.fromkeys(row["method"] for row in rows))
    control = alt.binding_select(options=[None, *methods], labels=["all", *methods], name="method ")
    pick = alt.selection_point(fields=["method"], bind=control)
    scheme = alt.Scale(scheme="category10" if len(methods) <= 10 else "category20")
    color = alt.Color("method:N", sort=methods, scale=scheme, legend=legend())
    return alt.Chart(alt.InlineData(list(rows))).encode(color=color).add_params(pick), pick, methods


def gain_chart(name: str, caption: str, table: Table) -> Chart:
    """Draw gains with their intervals, filled if there is evidence; columns: sites, ways to train, gains."""
    alt = altair()
    column = table.columns[2]
    rows = []
    for site, by, gain in table.rows:
        ends = [gain.value if math.isnan(end) else end for end in gain.interval or ()] or [gain.value] * 2
        row = {"site": site.text, "by": by.text, "value": gain.value, "low": ends[0], "high": ends[1]}
        rows.append({**row, "text": gain.text, "sure": gain.star})
    most = _usual([row[end] for end in ("low", "high") for row in rows])
    sites, ways = ([*dict.fromkeys(row[name] for row in rows)] for name in ("site", "by"))
    x = partial(alt.X, title=column, axis=alt.Axis(tickCount=8), scale=alt.Scale(domain=[-most, most], clamp=True))
    base = alt.Chart(alt.InlineData(rows)).encode(
        y=alt.Y("site:N", sort=sites, title=None, axis=alt.Axis(labelLimit=140, grid=True)),
        yOffset=alt.YOffset("by:N", sort=ways),
        color=alt.Color("by:N", sort=ways, scale=alt.Scale(scheme="category10"), legend=legend()),
        tooltip=["site:N", "by:N", alt.Tooltip("text:N", title=column)],
    )
    dots = base.encode(x=x("value:Q"))
    sure = dots.transform_filter("datum.sure").mark_point(filled=True, size=60)
    open_ = dots.transform_filter("!datum.sure").mark_point(filled=False, fill="white", size=45)
    zero = alt.Chart(alt.InlineData([{"value": 0}])).mark_rule(color="gray").encode(x=x("value:Q"))
    chart = alt.layer(zero, base.mark_rule().encode(x=x("low:Q"), x2="high:Q"), sure, open_)
    height = min(len(sites) * (12 * len(ways) + 10), max(720, 14 * len(sites)))
    return finished(chart.properties(width="container", height=height), name, caption, table)


def _usual(gains: Sequence[Any]) -> float:
    """Return the size that most gains do not exceed, for scales on which a few outliers hide no other gain."""
    sizes = torch.tensor(gains, dtype=torch.float64).abs().nan_to_num(0.0)
    return float(sizes.quantile(USUAL)) or float(sizes.max()) or 1.0


def matrix_chart(name: str, caption: str, names: Sequence[str], table: Table) -> Chart:
    """Draw gains of sites from other sites as cells, losses orange, gains blue; columns: site, source, gain."""
    alt = altair()
    column = table.columns[2]
    rows = []
    for site, by, gain in table.rows:
        short = gain.text.partition(" (")[0]
        rows.append({"to": site.text, "by": by.text, "value": gain.value, "text": gain.text, "short": short})
    most = _usual([row["value"] for row in rows])
    scale = alt.Scale(scheme="blueorange", reverse=True, domain=[-most, most], clamp=True)
    base = alt.Chart(alt.InlineData(rows))
    chart = cells(base, names, ("who gains", "by whom", column), scale, f"abs(datum.value) > {0.7 * most}")
    return finished(chart, name, caption, table)


def cells(base: Any, names: Sequence[str], titles: tuple[str, str, str], scale: Any, dark: str) -> Any:
    """Draw the fields ``to``, ``by`` and ``value`` as a matrix; with few nodes, cells contain ``short``.

    ``titles`` are those of rows, columns and values; ``dark`` selects cells so dark that their text must be white.
    """
    alt = altair()
    (rows, columns, value), domain = titles, alt.Scale(domain=[*names])
    base = base.encode(
        x=alt.X("by:N", scale=domain, title=columns, axis=alt.Axis(labelAngle=-45, labelLimit=120)),
        y=alt.Y("to:N", scale=domain, title=rows, axis=alt.Axis(labelLimit=120)),
        tooltip=[alt.Tooltip(field, title=title) for field, title in zip(FIELDS, titles, strict=True)],
    )
    chart = base.mark_rect().encode(color=alt.Color("value:Q", title=value, scale=scale, legend=legend(title=value)))
    if len(names) <= WRITTEN:
        color = alt.when(dark).then(alt.value("white")).otherwise(alt.value("black"))
        chart = alt.layer(chart, base.mark_text().encode(text="short:N", color=color))
    return chart.properties(width="container", height=max(240, min(720, 34 * len(names))))
