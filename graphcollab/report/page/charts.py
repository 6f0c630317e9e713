"""What charts of a page have in common: ink, colours of methods, legends, and what is chosen by a control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphcollab.report.page._libraries import altair
from graphcollab.report.page.colours import INK, colours_of
from graphcollab.report.page.content import Chart, Table

__all__ = ["ALL", "by_method", "chosen_method", "finished", "legend"]

ALL = "all"
COLUMNS = {"expr": "width < 420 ? 2 : 3"}  # of a legend, fewer on a phone
FEW = 2  # methods up to which all are drawn in full


def legend(**more: Any) -> Any:
    """Return a legend below the chart."""
    return altair().Legend(**{"orient": "bottom", "title": None, "columns": COLUMNS, "labelLimit": 200, **more})


def by_method(methods: Sequence[str], **more: Any) -> Any:
    """Return an encoding that gives every method its colour; the legend may have ``more`` settings."""
    alt = altair()
    scale = alt.Scale(domain=list(methods), range=colours_of(len(methods)))
    return alt.Color("method:N", sort=None, scale=scale, legend=legend(symbolOpacity=1, **more))


def chosen_method(methods: Sequence[str]) -> tuple[Any, str, str]:
    """Return a control that chooses a method, and what is true of rows to draw, and of those to draw in full."""
    alt = altair()
    some = alt.binding_select(options=[ALL, *methods], name="method ")
    chosen = alt.param(name="only", value=ALL, bind=some)
    one = "datum.method === only"
    every = f"only === '{ALL}'"
    return chosen, f"{every} || {one}", f"({every} && {'true' if len(methods) <= FEW else 'false'}) || {one}"


def finished(chart: Any, name: str, caption: str, table: Table, controls: bool = False, square: bool = False) -> Chart:
    """Return a chart without a background of its own, in the page's ink, with words for who does not see it."""
    ink = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    faint = {f"{part}Opacity": opacity for part, opacity in {"grid": 0.12, "domain": 0.3, "tick": 0.3}.items()}
    spec = chart.to_dict(validate=False)
    spec.pop("$schema", None)  # an address, and nothing is loaded from any
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    spec["config"] = {
        "aria": False,  # the page's own words say it, and the table below, not each of a thousand lines
        "background": "transparent",
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "title": {"color": INK, "fontSize": 13, "fontWeight": "normal"},
        "axis": {**ink, **faint, "gridColor": INK, "domainColor": INK, "tickColor": INK},
        "legend": {
            **ink,
            "symbolStrokeColor": INK,
            "layout": {"bottom": {"anchor": "start", "direction": "vertical"}},  # beside each other they are cut off
        },
    }
    return Chart(name, caption, spec, table, controls, square)
