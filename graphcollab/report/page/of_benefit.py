"""What a page says of what sites gain by collaborating."""

from __future__ import annotations

import math
from collections.abc import Iterator

from graphcollab.gains import Benefit
from graphcollab.report._gains import gain_cell, of_metric, scale_of
from graphcollab.report.benefit_answer import benefit_findings
from graphcollab.report.benefit_table import benefit_values
from graphcollab.report.page.charts import matrix_chart
from graphcollab.report.page.content import Chart, Content, Section
from graphcollab.report.values import Cell, Column, Table

ANSWER = ("evidence", "mean", "group", "metric", "site", "more-sites", "no-star", "advice")
TUNED = "Step sizes and rounds were chosen on validation data, those of training alone as those of the others."
MOST_SITES = 60  # of a matrix in a page of at most 5 MB


def content_of_benefit(benefit: Benefit, title: str) -> Content:
    """Return what a page says of a benefit."""
    found = benefit_findings(benefit)
    who = f"Do {len(benefit.names)} sites gain by collaborating, which of them, and by whom?"
    every = [benefit, *benefit.also.values()]
    charts = [chart for k, one in enumerate(every) for chart in _matrix(one, k)]
    sections = [
        Section("answer", "How to read it", [one for one in found if one.code not in ANSWER]),
        Section("sites", "Site by site", tables=[*benefit_values(benefit).values()]),
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
    rows = [
        [Cell(gain.site), Cell(gain.by), gain_cell(gain, scale)]
        for gain in sorted(gains, key=lambda gain: -abs(gain.gain))
    ]
    what = f"gain{unit if benefit.relative else f', {of_metric(benefit)}'}"
    caption = (
        f"What each site gains by each other when the two collaborate alone ({what}), of {len(names)} of "
        f"{len(benefit.names)} sites. Blue is a gain, orange a loss; pairs that were not tried are empty."
    )
    table = Table([Column("who"), Column("by whom"), Column(what, "gain", digits)], rows, caption=what)
    if rows:
        yield matrix_chart(f"matrix-{place}", caption, names, table)


def _settings(benefit: Benefit) -> str:
    """Return what was set, and what was chosen."""
    chosen = [f"chosen for {arm}: {', '.join(some)}" for arm, some in benefit.chosen.items()]
    return "\n".join([f"work: {benefit.work}", f"level: {benefit.level:g}", *chosen])
