"""Charts of a page that have no lines: bars of bytes, and the matrix of gains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from graphcollab.report.page._libraries import altair
from graphcollab.report.page.charts import finished
from graphcollab.report.page.colours import GAINS, INK, METHODS, WORDS
from graphcollab.report.page.content import Chart, Table

__all__ = ["bar_chart", "matrix_chart"]

Rows = Sequence[Mapping[str, Any]]

BAR = 30  # pixels
LABELLED = 60  # sites up to which both axes of a matrix have labels
WRITTEN = 12  # sites up to which gains are written into its cells
USUAL = 0.95  # share of the gains that colours tell apart: a single large one would leave all others pale


def bar_chart(rows: Rows, what: str, name: str, caption: str, table: Table) -> Chart:
    """Draw a bar for every method, and write its value beside it."""
    alt = altair()
    most = max(row["value"] for row in rows) or 1.0
    base = alt.Chart(alt.InlineData(list(rows))).encode(
        x=alt.X(
            "value:Q",
            title=what,
            axis=alt.Axis(labels=False, ticks=False, grid=False),
            scale=alt.Scale(domain=[0, 1.2 * most]),
        ),
        y=alt.Y("method:N", sort=None, title=None, axis=alt.Axis(labelLimit=130)),
    )
    words = base.mark_text(align="left", dx=5, color=INK, fontSize=12).encode(text="text:N")
    chart = alt.layer(base.mark_bar(color=METHODS[0]), words)
    return finished(chart.properties(width="container", height=BAR * len(rows)), name, caption, table)


def matrix_chart(rows: Rows, what: str, name: str, caption: str, names: Sequence[str], table: Table) -> Chart:
    """Draw what sites gain by others, as cells in nine colours; orange is a loss, blue a gain."""
    alt = altair()
    some = {"labels": len(names) <= LABELLED, "ticks": False, "domain": False, "labelLimit": 120}
    titles = {"site": "who", "by": "by whom", "text": what}
    bounds = _bounds([row["gain"] for row in rows])
    shades = alt.Scale(type="threshold", domain=bounds, range=GAINS)
    legend = alt.Legend(orient="bottom", format=".2~g", labelOverlap=False, labelFontSize=10)
    base = alt.Chart(alt.InlineData(list(rows))).encode(
        x=alt.X("by:N", sort=list(names), title="by whom", axis=alt.Axis(labelAngle=-45, **some)),
        y=alt.Y("site:N", sort=list(names), title="who gains", axis=alt.Axis(**some)),
        tooltip=[alt.Tooltip(f"{field}:N", title=said) for field, said in titles.items()],
    )
    cells = base.mark_rect(stroke=INK, strokeOpacity=0.15).encode(
        color=alt.Color("gain:Q", title=what, scale=shades, legend=legend)
    )
    if len(names) <= WRITTEN:
        ink = alt.Scale(type="threshold", domain=bounds, range=WORDS)
        words = base.mark_text(fontSize=12).encode(text="short:N", color=alt.Color("gain:Q", scale=ink, legend=None))
        cells = alt.layer(cells, words).resolve_scale(color="independent")
    height = max(240, min(720, 34 * len(names)))
    return finished(cells.properties(width="container", height=height), name, caption, table, square=True)


def _bounds(gains: Sequence[float]) -> list[float]:
    """Return where the nine colours meet, as far above nothing as below it, at numbers of few digits."""
    sizes = torch.tensor(gains, dtype=torch.float64).abs()
    most = float(sizes.quantile(USUAL)) or float(sizes.max()) or 1.0
    power = 10.0 ** math.floor(math.log10(most / 4.5))
    wide = next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= most / 4.5)
    return [wide * part for part in (-3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5)]
