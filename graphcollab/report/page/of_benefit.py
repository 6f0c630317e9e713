"""What a page says of what sites gain by collaborating."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from graphcollab.findings import Finding
from graphcollab.gains import Benefit, Gain
from graphcollab.report._gains import CLAIMED, claim, gain_cell, of_metric, scale_of, told
from graphcollab.report._text import cell_text
from graphcollab.report.benefit_answer import benefit_findings, mean_findings
from graphcollab.report.benefit_table import benefit_values
from graphcollab.report.page.charts import matrix_chart
from graphcollab.report.page.content import Chart, Content, Section
from graphcollab.report.values import Cell, Column, Table

__all__ = ["content_of_benefit"]

TUNED = "Step sizes and rounds were chosen on validation data, those of training alone as those of the others."
MOST_SITES = 100  # of a matrix in a page of at most 5 MB
MOST_COLUMNS = 12  # of the table behind it
MOST_LISTED = 2_000  # pairs, where it is a list


def content_of_benefit(benefit: Benefit, title: str) -> Content:
    """Return what a page says of a benefit."""
    found = benefit_findings(benefit)
    who = f"Do {len(benefit.names)} sites gain by collaborating, which of them, and by whom?"
    asked = f"{who} Judged by {of_metric(benefit)}. {TUNED}"
    every = [benefit, *benefit.also.values()]
    tables = [
        replace(table, caption=f"Every site, {of_metric(one)}")
        for one, table in zip(every, benefit_values(benefit).values(), strict=True)
    ]
    sections = [
        Section("answer", "The answer in full", found),
        Section("sites", "Site by site", tables=tables),
        *_matrices(every),
        Section("settings", "Settings", folded="\n\n".join(f"{k}:\n{v}" for k, v in _settings(benefit).items())),
    ]
    return Content(title or "What collaborating brings", asked, _short(every, found), sections)


def _short(every: Sequence[Benefit], found: Sequence[Finding]) -> list[list[Finding]]:
    """Return of the answer whether it helps, the gains in every metric, sites of which nothing is said, what to do."""
    of = {code: [one for one in found if one.code == code] for code in ("evidence", "no-star", "advice")}
    numbers = []
    for one in every:
        if gains := [*_numbers(one)]:
            where = f"In {of_metric(one)}{', % of the error' * one.relative}:" * (len(every) > 1)
            numbers.append([*[Finding("metric", one.metric, where)] * bool(where), *gains])
    return [part for part in (of["evidence"], *numbers, of["no-star"], of["advice"]) if part]


def _numbers(benefit: Benefit) -> Iterator[Finding]:
    """Yield the gains that a headline is of; without evidence that by all together, and what has a better mean."""
    means = {one.subject: one for one in mean_findings(benefit)}
    overall = {gain.by: gain for gain in benefit.overall}
    helped, harmed = ([means[by] for by, gain in overall.items() if gain.verdict == kind] for kind in CLAIMED)
    groups = [] if helped else [gain for gain in benefit.group_gains if gain.verdict == "gains"]
    yield from (*helped, *(_of_group(benefit, gain) for gain in groups), *harmed)
    known = {by: gain.gain for by, gain in overall.items() if not math.isnan(gain.gain)}
    if known and not (helped or groups or harmed):
        best = max(known, key=lambda by: known[by])
        better = best if known[best] > known.get("together", -math.inf) else "together"
        yield from (means[by] for by in dict.fromkeys(("together", better)))
    if known and not (helped or groups):
        of_sites = {gain.verdict: gain for gain in reversed(benefit.found) if gain.site in benefit.names}
        kind = "gains" if "gains" in of_sites else "loses"
        if kind in of_sites and not (kind == "loses" and harmed):
            yield claim(benefit, of_sites[kind])


def _of_group(benefit: Benefit, gain: Gain) -> Finding:
    """Return what all but one gain, of which there is evidence."""
    gains = told(gain, *scale_of(benefit)[:2])
    said = f"In the mean over {gain.site}, together: {gains} (p = {gain.p_value:.2g})."
    return Finding("group", gain.site, said, {"gain": gain.gain, "verdict": gain.verdict})


def _matrices(every: Sequence[Benefit]) -> Iterator[Section]:
    charts: list[Chart] = []
    said = ""
    for one in every:
        names, column = one.names[:MOST_SITES], Column("gain", "gain", scale_of(one)[1])
        gains = [g for g in one.pair_gains if {g.site, g.by} <= {*names} and not math.isnan(g.gain)]
        if not gains:
            continue
        cells = {(gain.site, gain.by): gain_cell(gain, scale_of(one)[0]) for gain in gains}
        rows = [_row(site, by, cell, column) for (site, by), cell in cells.items()]
        what = f"gain{scale_of(one)[2] if one.relative else f', {of_metric(one)}'}"
        most = max(rows, key=lambda row: row["gain"])
        caption = (
            f"What each site gains by each other when the two collaborate alone ({what}): the largest gain is that of "
            f"{most['site']} by {most['by']}, {most['text']}. Blue is a gain, orange a loss; pairs that were not tried "
            "are empty."
        )
        if len(names) < len(one.names):
            said = f"Of {len(one.names)} sites the first {len(names)} are drawn."
        table = _matrix(cells, names, what, column)
        charts.append(matrix_chart(rows, what, f"matrix-{len(charts)}", caption, names, table))
    if charts:
        yield Section("pairs", "Who gains by whom", [said] * bool(said), charts)


def _row(site: str, by: str, cell: Cell, column: Column) -> dict[str, Any]:
    """Return what a chart draws of a pair: the gain, with its interval, and without."""
    short = cell_text(replace(cell, interval=None), column)
    return {
        "site": site,
        "by": by,
        "gain": round(cell.order or 0.0, 4),
        "text": cell_text(cell, column),
        "short": short,
    }


def _matrix(cells: dict[tuple[str, str], Cell], names: Sequence[str], what: str, column: Column) -> Table:
    """Return the gains as a matrix, or of many sites as a list, the largest first."""
    if len(names) <= MOST_COLUMNS:
        rows = [[Cell(site), *(cells.get((site, by), Cell()) for by in names)] for site in names]
        columns = [Column("who"), *(replace(column, title=by) for by in names)]
        return Table(columns, rows, caption=f"{what}: who in rows, by whom in columns")
    large = sorted(cells.items(), key=lambda item: -abs(item[1].order or 0.0))
    rows = [[Cell(site), Cell(by), cell] for (site, by), cell in large[:MOST_LISTED]]
    table = Table([Column("who"), Column("by whom"), replace(column, title=what)], rows, caption=what)
    said = f"Of {len(cells)} pairs the {MOST_LISTED} with the largest gains or losses."
    return table.noting(Finding("rows", "pairs", said)) if len(cells) > MOST_LISTED else table


def _settings(benefit: Benefit) -> dict[str, str]:
    """Return what was set, and what was chosen."""
    chosen = {f"chosen for {arm}": ", ".join(some) for arm, some in benefit.chosen.items()}
    less = {"less than usual": benefit.quick} if benefit.quick else {}
    return {"work": benefit.work, "level": f"{benefit.level:g}", **less, **chosen}
