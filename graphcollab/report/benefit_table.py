"""`benefit_table`: what every site gains by collaborating, and with whom."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from graphcollab._base.findings import Finding
from graphcollab._base.naming import numbered
from graphcollab.analysis import Benefit, Gain
from graphcollab.analysis.trial import SHARES
from graphcollab.report._terms import best_way, noted
from graphcollab.report.values import MISSING, Cell, Table, count_cell, decimals, number_cell, shown, shown_in

CLAIMED = ("gains", "loses")
CONSTANT = "†"  # marks gains of constants that replaced models
INTERVALS = (
    "Intervals are of one comparison alone, at 95 %; a star marks evidence after correction for all comparisons, so an "
    "interval without 0 may have none."
)
GAINS = {
    False: "Gains are differences to training alone, positive where that is better",
    True: "Gains say by how many percent the error of training alone falls (negative: rises)",
}
COLUMNS = (
    "best single other: what a site gains most by when the two collaborate alone, as it seems: without a star the best "
    "of several is no advice; missed most: whose absence from the group of all costs it most, and how much; left out: "
    "what the model of all others gains a site that gave them nothing"
)

REFERENCE = (
    "scikit-learn's linear models, fitted to training and validation rows where no other are named; means over sites, "
    "with 95 % intervals of one comparison alone. Nothing is claimed of them."
)


def mark(benefit: Benefit, arm: str) -> str:
    """Mark losses due to constants that replaced models on at least half of the splits."""
    return CONSTANT * benefit.by_constants(arm)


def scale_of(benefit: Benefit) -> tuple[float, int | None, str]:
    """Return the scale factor of gains, their decimals, and a unit: shares are shown in percent."""
    return shown_in(True, 1) if benefit.relative else values_in(benefit)


def values_in(benefit: Benefit) -> tuple[float, int | None, str]:
    """Return the scale factor of values, their decimals, and a unit: errors are shown in the target's own unit."""
    return (1.0, None, "") if benefit.in_unit else shown_in(benefit.metric in SHARES, 1)


def of_metric(benefit: Benefit) -> str:
    """Describe the metric of the gains."""
    return benefit.metric + values_in(benefit)[2]


def way_of(name: str) -> str:
    """Return the display name of a way to train."""
    return "all together" if name == "together" else name


def by_whom(name: str) -> str:
    """Format the source of a gain."""
    return f"by {way_of(name)}"


def site_of(benefit: Benefit, name: str) -> str:
    """Format a site's name such that it does not look like a number."""
    return f"site {name}" if numbered(benefit.names) else name


def gain_cell(benefit: Benefit, gain: Gain, before: str = "", after: str = "") -> Cell:
    """Return a gain with its interval as a cell, with a star if there is evidence, between two texts."""
    if math.isnan(gain.gain):
        return Cell(f"{before} {MISSING}{after}".strip())
    scale, digits, _ = scale_of(benefit)
    ends, star = (scale * gain.low, scale * gain.high), gain.verdict in CLAIMED
    cell = number_cell(scale * gain.gain, digits, interval=ends, signed=True, star=star)
    return replace(cell, text=f"{before} {cell.text}{after}".strip())


@shown
def benefit_table(benefit: Benefit) -> str:
    """Format a row for every site: its samples, its metric alone, and its gains by all, by methods and by one other.

    The row also names the site that it gains most from when the two collaborate alone, and the site that it would miss
    most in the group of all (none without a gain or a cost). Both are shown only if models of such groups did better
    than constants on most splits. It also shows the gain by the model of all other sites, trained without this site.
    There is no gain if constants replaced models, also for training alone, on at least half of the splits. If constants
    do as well as training alone at any site, they have a column (`Benefit`). The last two rows are means over sites,
    unweighted and weighted by test samples. A star marks a gain or loss with evidence after correction for multiple
    testing; the last row has none. Additional metrics have their own tables.
    """
    first, *further = benefit_values(benefit).items()
    return "\n\n".join([str(first[1]), *(f"{name}:\n\n{table!s}" for name, table in further)])


def benefit_values(benefit: Benefit) -> dict[str, Table]:
    """Return a table for every metric, with the common notes below the last."""
    every = {benefit.metric: benefit, **benefit.also}
    tables = {name: _table(one) for name, one in every.items()}
    last = [*every][-1]
    tables[last] = tables[last].noting(*_notes([*every.values()], [*tables.values()]))
    simple = {f"reference, {name}": _reference(one) for name, one in every.items() if one.baseline}
    return tables | simple


def sites_of_benefit(benefit: Benefit) -> Table:
    """Return a row for every site: its metric alone, and its gain by the way to train with the best mean."""
    (_, _, unit), (shown, of_alone, _) = scale_of(benefit), values_in(benefit)
    names, alone = [*benefit.names, "all sites"], (shown * benefit.scores["alone"].nanmean(0)).tolist()
    rows, many = [], benefit.about.get("rows") or {"train": benefit.train.tolist(), "test": benefit.test.tolist()}
    held, best = [*map(sum, zip(*many.values(), strict=True))], best_way(benefit)
    ways, digits = [] if best is None else [best.by], decimals(alone) if of_alone is None else of_alone
    for name, size in zip(names, [*held, sum(held)], strict=True):
        own = {gain.by: gain for gain in [*benefit.gains, *benefit.overall] if gain.site == name}
        gained = [gain_cell(benefit, own[by], after=mark(benefit, by)) for by in ways]
        rows.append([Cell(name), count_cell(size), number_cell(shown * own["together"].alone, digits), *gained])
    columns = ["site", "rows", f"alone, {of_metric(benefit)}"]
    columns += [f"gain {by_whom(by)}{unit if benefit.relative else ''}" for by in ways]
    return Table(columns, rows, [Finding("intervals", "gains", INTERVALS)], foot=1, caption="Every site")


def _reference(benefit: Benefit) -> Table:
    """Return the mean metric over sites of scikit-learn's models, and their gain over training alone."""
    (shown, digits, _), (_, _, unit) = values_in(benefit), scale_of(benefit)
    title = f"over training alone{unit if benefit.relative else ''}"
    columns = ["reference", f"mean {of_metric(benefit)}", title]
    rows = [
        [Cell(gain.by), number_cell(shown * gain.score, digits), gain_cell(benefit, gain)]
        for gain in benefit.by_baseline
    ]
    note = Finding("reference", "baseline", REFERENCE)
    caption = f"What a simple tool does on the same test rows, {of_metric(benefit)}"
    return Table(columns, rows, [note], caption=caption)


def _notes(every: Sequence[Benefit], tables: Sequence[Table]) -> list[Finding]:
    cells = [cell for table in tables for row in table.rows for cell in row]
    alike = f"({MISSING} … {MISSING}): alike on all splits, so how it varies is not known."
    constant = f"{every[0].flat} of each site"
    stood = f"{CONSTANT}: on half of the splits or more {constant} took the place of models."
    rivals = f"constant: {constant}, in the place of models"
    errors = (
        "Errors are geometric means over splits, and the last two rows compare mean errors over sites, in which sites "
        "with large errors count most."
    )
    return [
        Finding("intervals", "gains", INTERVALS),
        *noted("alike", "splits", alike * any(cell.interval and math.isnan(cell.interval[0]) for cell in cells)),
        *noted("constants", CONSTANT, stood * any(CONSTANT in cell.text for cell in cells)),
        Finding("columns", "best single other, missed most, left out", COLUMNS),
        *noted("rivals", "column 'constant'", rivals * any(map(_rivals, every))),
        *noted("errors", "gains", errors * any(one.relative for one in every)),
    ]


def _table(benefit: Benefit) -> Table:
    unit = scale_of(benefit)[2]
    columns = ["site", "train", "test", f"alone, {of_metric(benefit)}", *["constant"] * _rivals(benefit)]
    columns += [f"gain {by_whom(arm)}{unit if benefit.relative else ''}" for arm in benefit.arms]
    columns += ["best single other", "missed most", "left out"]
    rows = [_row(benefit, k, site) for k, site in enumerate(benefit.names)]
    totals = [count_cell(round(float(some.sum()))) for some in (benefit.train, benefit.test)]
    for label, gained in (("all sites", benefit.overall), ("all, by samples", benefit.by_samples)):
        rows.append([Cell(label), *totals, *_cells(benefit, gained), *[Cell("")] * 3])
    return Table(columns, rows, foot=2, caption=f"Every site, {of_metric(benefit)}")


def _row(benefit: Benefit, k: int, site: str) -> list[Cell]:
    (scale, digits, _), gains = scale_of(benefit), benefit.of(site)
    others = [gains[name] for name in benefit.names if name in gains and name != site]
    best = max(others, key=lambda gain: gain.gain, default=None)
    good = best is not None and best.gain > 0 and not benefit.by_constants("pairs")
    worth = benefit.worth[k].nan_to_num(-math.inf)
    most = int(worth.argmax())
    grouped = float(worth[most]) > 0 and not any(map(benefit.by_constants, ("together", "without")))
    missed = number_cell(scale * float(worth[most]), digits, signed=True)
    return [
        Cell(site),
        count_cell(round(float(benefit.train[k]))),  # with groups, a mean over splits
        count_cell(round(float(benefit.test[k]))),
        *_cells(benefit, gains.values()),
        gain_cell(benefit, best, site_of(benefit, best.by)) if best and good else Cell(),
        replace(missed, text=f"{site_of(benefit, benefit.names[most])} {missed.text}") if grouped else Cell(),
        number_cell(scale * float(benefit.left_out[k]), digits, signed=True),
    ]


def _cells(benefit: Benefit, gains: Iterable[Gain]) -> list[Cell]:
    (shown, digits, _), by = values_in(benefit), {gain.by: gain for gain in gains}
    arms = [by[arm] for arm in benefit.arms]
    means = [arms[0].alone, *[arms[0].constant] * _rivals(benefit)]
    told = [replace(gain, gain=math.nan) if benefit.untold(gain.by) else gain for gain in arms]
    gained = [gain_cell(benefit, gain, after=mark(benefit, gain.by)) for gain in told]
    return [*(number_cell(shown * mean, digits) for mean in means), *gained]


def _rivals(benefit: Benefit) -> bool:
    """Return whether constants do as well as training alone at any site."""
    constant, alone = benefit.constant.nanmean(0), benefit.scores["alone"].nanmean(0)
    return bool((constant >= alone if benefit.higher_is_better else constant <= alone).any())
