"""What a page says of what sites gain by collaborating."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from graphcollab.gains import Benefit, Gain
from graphcollab.report._gains import gain_cell, of_metric, scale_of
from graphcollab.report._text import cell_text
from graphcollab.report.benefit_answer import benefit_findings
from graphcollab.report.benefit_table import benefit_values
from graphcollab.report.page.charts import matrix_chart
from graphcollab.report.page.content import Chart, Content, Section
from graphcollab.report.values import Cell, Column, Table

__all__ = ["content_of_benefit"]

ANSWER = ("evidence", "mean", "group", "metric", "site", "more-sites", "no-star", "advice")
TUNED = "Step sizes and rounds were chosen on validation data, those of training alone as those of the others."
MOST_SITES = 100  # of a matrix in a page of at most 5 MB
MOST_LISTED = 2_000  # pairs in the table behind it


def content_of_benefit(benefit: Benefit, title: str) -> Content:
    """Return what a page says of a benefit."""
    found = benefit_findings(benefit)
    who = f"Do {len(benefit.names)} sites gain by collaborating, which of them, and by whom?"
    every = [benefit, *benefit.also.values()]
    tables = [
        replace(table, caption=f"Every site, {of_metric(one)}")
        for one, table in zip(every, benefit_values(benefit).values(), strict=True)
    ]
    charts = [chart for k, one in enumerate(every) for chart in _matrix(one, k)]
    sections = [
        Section("answer", "How to read it", [one for one in found if one.code not in ANSWER]),
        Section("sites", "Site by site", tables=tables),
        *([Section("pairs", "Who gains by whom", charts=charts)] if charts else []),
        Section("settings", "Settings", folded=_settings(benefit)),
    ]
    asked = f"{who} Judged by {of_metric(benefit)}. {TUNED}"
    answer = [one for one in found if one.code in ANSWER]
    return Content(title or "What collaborating brings", asked, answer, sections)


def _matrix(benefit: Benefit, place: int) -> Iterator[Chart]:
    """Yield a chart of what sites gain by each other, where pairs were tried."""
    scale, digits, unit = scale_of(benefit)
    names = benefit.names[:MOST_SITES]
    gains = [g for g in benefit.pair_gains if {g.site, g.by} <= {*names} and not math.isnan(g.gain)]
    if not gains:
        return
    column = Column("gain", "gain", digits)
    what = f"gain{unit if benefit.relative else f', {of_metric(benefit)}'}"
    caption = (
        f"What each site gains by each other when the two collaborate alone ({what}), of {len(names)} of "
        f"{len(benefit.names)} sites. Blue is a gain, orange a loss; pairs that were not tried are empty."
    )
    rows = [_row(gain, gain_cell(gain, scale), column) for gain in gains]
    yield matrix_chart(rows, what, f"matrix-{place}", caption, names, _table(gains, scale, replace(column, title=what)))


def _row(gain: Gain, cell: Cell, column: Column) -> dict[str, Any]:
    """Return what a chart draws of a pair: the gain, with its interval, and without."""
    short = cell_text(replace(cell, interval=None), column)
    number = round(cell.order or 0.0, 4)
    return {"site": gain.site, "by": gain.by, "gain": number, "text": cell_text(cell, column), "short": short}


def _table(gains: Sequence[Gain], scale: float, column: Column) -> Table:
    """Return a row for every pair, the largest gains and losses first."""
    large = sorted(gains, key=lambda gain: -abs(gain.gain))[:MOST_LISTED]
    rows = [[Cell(gain.site), Cell(gain.by), gain_cell(gain, scale)] for gain in large]
    caption = f"{len(large)} of {len(gains)} pairs, the largest gains and losses first"
    return Table([Column("who"), Column("by whom"), column], rows, caption=caption)


def _settings(benefit: Benefit) -> str:
    """Return what was set, and what was chosen."""
    chosen = [f"chosen for {arm}: {', '.join(some)}" for arm, some in benefit.chosen.items()]
    return "\n".join([f"work: {benefit.work}", f"level: {benefit.level:g}", *chosen])
