"""What a page says of what sites gain by collaborating."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphcollab.gains import Benefit, Gain
from graphcollab.report._gains import CLAIMED, by_whom, claim, of_metric, scale_of, told
from graphcollab.report._text import MISSING, Cells
from graphcollab.report.benefit_answer import NO_STAR, benefit_answer
from graphcollab.report.benefit_table import benefit_cells, benefit_notes
from graphcollab.report.page.cells import table_of
from graphcollab.report.page.content import Chart, Content, Section, Table
from graphcollab.report.page.other_charts import matrix_chart
from graphcollab.report.page.repeating import made, repeating

__all__ = ["content_of_benefit"]

TUNED = "Step sizes and rounds were chosen on validation data, those of training alone as those of the others."
MOST_SITES = 100  # of a matrix in a page of at most 5 MB
MOST_COLUMNS = 12  # of the table behind it
MOST_LISTED = 2_000  # pairs, where it is a list


def content_of_benefit(benefit: Benefit, title: str, commands: Sequence[str]) -> Content:
    """Return what a page says of a benefit."""
    lines = benefit_answer(benefit).splitlines()
    who = f"Do {len(benefit.names)} sites gain by collaborating, which of them, and by whom?"
    asked = f"{who} Judged by {of_metric(benefit)}. {TUNED}"
    every = [benefit, *benefit.also.values()]
    sections = [
        Section("answer", "The answer in full", lines),
        Section("sites", "Site by site", tables=_tables(every)),
        *_matrices(every),
        *repeating(_settings(benefit), commands),
    ]
    return Content(title or "What collaborating brings", asked, _short(benefit, lines), sections, made())


def _short(benefit: Benefit, lines: Sequence[str]) -> list[str]:
    """Return of the answer whether it helps, the gains in every metric, sites of which nothing is said, what to do."""
    headlines = " ".join(lines[1 : 2 + len(benefit.also)])
    means = [line for line in lines if line.startswith("In the mean over sites, by ")]
    numbers = [_numbers(benefit, dict(zip(benefit.arms, means, strict=True)))]
    for one in benefit.also.values():
        scale, digits, _ = scale_of(one)
        where = f"In {of_metric(one)}{', % of the error' * one.relative}"
        of_arms = {
            gain.by: f"in the mean over sites, {by_whom(gain.by)}: {told(gain, scale, digits)}." for gain in one.overall
        }
        numbers.append(f"{where}: {found}" if (found := _numbers(one, of_arms)) else "")
    to_do = lines[-1] if lines[-1].startswith(("So ", "But ")) else ""
    without = [line for line in lines if line.startswith(NO_STAR)]
    return [said for said in (headlines, *numbers, *without, to_do) if said]


def _numbers(benefit: Benefit, means: Mapping[str, str]) -> str:
    """Return the gains that a headline is of; without evidence that by all together, and what has a better mean.

    Args:
        benefit: What was found in one metric.
        means: What is said of the gain in the mean over sites, by arm.
    """
    overall = {gain.by: gain for gain in benefit.overall}
    helped, harmed = ([means[by] for by, gain in overall.items() if gain.verdict == kind] for kind in CLAIMED)
    groups = [] if helped else [gain for gain in benefit.group_gains if gain.verdict == "gains"]
    said = [*helped, *(_of_group(benefit, gain) for gain in groups), *harmed]
    known = {by: gain.gain for by, gain in overall.items() if not math.isnan(gain.gain)}
    if not said and known:
        best = max(known, key=lambda by: known[by])
        better = best if known[best] > known.get("together", -math.inf) else "together"
        said = [means[by] for by in dict.fromkeys(("together", better))]
    if known and not (helped or groups):
        of_sites = {gain.verdict: gain for gain in reversed(benefit.found) if gain.site in benefit.names}
        kind = "gains" if "gains" in of_sites else "loses"
        if kind in of_sites and not (kind == "loses" and harmed):
            said.append(claim(benefit, of_sites[kind]))
    return " ".join(said)


def _of_group(benefit: Benefit, gain: Gain) -> str:
    """Write what all but one gain, of which there is evidence."""
    scale, digits, _ = scale_of(benefit)
    return f"In the mean over {gain.site}, together: {told(gain, scale, digits)} (p = {gain.p_value:.2g})."


def _tables(every: Sequence[Benefit]) -> list[Table]:
    """Return a table for every metric, and below the last what is to be said of them."""
    cells = [benefit_cells(one) for one in every]
    notes = benefit_notes(every[0], "\n".join(one.text() for one in cells))
    captions = [f"Every site, {of_metric(one)}" for one in every]
    below = [*[[]] * (len(every) - 1), notes]
    return [
        table_of(caption, one, foot=2, searched=True, notes=said)
        for caption, one, said in zip(captions, cells, below, strict=True)
    ]


def _matrices(every: Sequence[Benefit]) -> Iterator[Section]:
    charts: list[Chart] = []
    said = []
    for one in every:
        shown = one.names[:MOST_SITES]
        rows = matrix_rows(one, shown)
        if not rows:
            continue
        unit = scale_of(one)[2] if one.relative else f", {of_metric(one)}"
        most = max(rows, key=lambda row: row["gain"])
        caption = (
            f"What each site gains by each other when the two collaborate alone{unit}: the largest gain is that of "
            f"{most['site']} by {most['by']}, {most['text']}. Blue is a gain, orange a loss; pairs that were not tried "
            "are empty."
        )
        if len(shown) < len(one.names):
            said.append(f"Of {len(one.names)} sites the first {len(shown)} are drawn.")
        table = matrix_table(rows, f"gain{unit}", shown)
        charts.append(matrix_chart(rows, f"gain{unit}", f"matrix-{len(charts)}", caption, shown, table))
    if charts:
        yield Section("pairs", "Who gains by whom", list(dict.fromkeys(said)), charts)


def matrix_table(rows: Sequence[Mapping[str, Any]], what: str, names: Sequence[str]) -> Table:
    """Return the gains as a matrix, or of many sites as a list, the largest first."""
    told = {(row["site"], row["by"]): row["text"] for row in rows}
    if len(names) <= MOST_COLUMNS:
        lines = [[site, *(told.get((site, by), MISSING) for by in names)] for site in names]
        return table_of(f"{what}: who in rows, by whom in columns", Cells(["who", *names], lines), searched=True)
    large = sorted(rows, key=lambda row: -abs(row["gain"]))
    lines = [[row["site"], row["by"], row["text"]] for row in large[:MOST_LISTED]]
    left = f"Of {len(rows)} pairs the {MOST_LISTED} with the largest gains or losses." * (len(rows) > MOST_LISTED)
    return table_of(what, Cells(["who", "by whom", what], lines), searched=True, notes=[left])


def matrix_rows(benefit: Benefit, shown: Sequence[str]) -> list[dict[str, Any]]:
    """Return the gains of every pair that was tried, with their intervals."""
    scale, digits, _ = scale_of(benefit)
    kept = {*shown}
    return [
        {"site": gain.site, "by": gain.by, "gain": round(scale * gain.gain, 4), **_written(gain, scale, digits)}
        for gain in benefit.pair_gains
        if gain.site in kept and gain.by in kept and gain.gain == gain.gain
    ]


def _written(gain: Gain, scale: float, digits: int | None) -> dict[str, str]:
    """Return a gain with its interval, and without, for a cell."""
    text = told(gain, scale, digits)
    return {"text": text, "short": text.split(" (")[0] + "*" * text.endswith("*")}


def _settings(benefit: Benefit) -> dict[str, str]:
    """Return what was set, and what was chosen."""
    chosen = {f"chosen for {arm}": ", ".join(some) for arm, some in benefit.chosen.items()}
    less = {"less than usual": benefit.quick} if benefit.quick else {}
    return {"work": benefit.work, "level": f"{benefit.level:g}", **less, **chosen}
