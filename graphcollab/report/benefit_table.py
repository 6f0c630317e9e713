"""`benefit_table`: what every site gains by collaborating, and by whom."""

from __future__ import annotations

import math
from collections.abc import Iterable

from graphcollab.gains import Benefit, Gain
from graphcollab.report._gains import CONSTANT, bounded, by_whom, mark, mean_of, of_metric, scale_of, site_of, told
from graphcollab.report._text import MISSING, Cells, below, shown

__all__ = ["benefit_table"]


@shown
def benefit_table(benefit: Benefit, markdown: bool = False) -> str:
    """Write a row for every site: its samples, what it has alone, and what it gains by all, by methods, by one other.

    It also names the site that it gains most by when the two collaborate alone, and the one that would be missed most
    in the group of all (none where no other gains it anything, or no absence costs it anything), both only where models
    of such groups did better than constants on most splits, and tells what the model of all others gains it that it had
    no part in. Where constants stood for the models on half of the splits or more, alone too, there is no gain to tell.
    Where they do as well as training alone at any site, they have a column of their own (`graphcollab.gains.Benefit`).
    The last two rows are means over sites, all alike and weighted by their test samples. A star marks a gain or loss
    there is evidence of, all comparisons considered; the last row has none. Further metrics have tables of their own.

    Args:
        benefit: What `graphcollab.benefit` found.
    """
    tables = [benefit_cells(benefit).text(markdown)]
    for name, one in benefit.also.items():
        tables.append(f"{name}:\n\n{benefit_cells(one).text(markdown)}")
    whole = "\n\n".join(tables)
    return below(whole, *benefit_notes(benefit, whole))


def benefit_notes(benefit: Benefit, whole: str) -> list[str]:
    """Return what is to be said below tables, by what they show."""
    marked = f"{CONSTANT}: on half of the splits or more {benefit.flat} of each site took the place of models."
    every = (benefit, *benefit.also.values())
    return [
        "Intervals are of one comparison alone, at 95 %; a star marks evidence after correction for all comparisons, "
        "so an interval without 0 may have none.",
        f"({MISSING} … {MISSING}): alike on all splits, so how it varies is not known." * (f"({MISSING} …" in whole),
        marked * (CONSTANT in whole),
        "best single other: what a site gains most by when the two collaborate alone; missed most: whose absence from "
        "the group of all costs it most, and how much; left out: what the model of all others gains a site that gave "
        "them nothing",
        f"constant: {benefit.flat} of each site, in the place of models" * any(map(_rivals, every)),
        "Errors are geometric means over splits, and the last two rows compare mean errors over sites, in which sites "
        "with large errors count most." * any(one.relative for one in every),
    ]


def benefit_cells(benefit: Benefit) -> Cells:
    """Return the table of one metric."""
    scale, digits, unit = scale_of(benefit)
    unit = unit if benefit.relative else ""
    alone = [f"alone, {of_metric(benefit)}", *(["constant"] if _rivals(benefit) else [])]
    ways = [f"gain {by_whom(arm)}{unit}" for arm in benefit.arms]
    header, rows = ["site", "train", "test", *alone, *ways, "best single other", "missed most", "left out"], []
    paired, grouped = not benefit.by_constants("pairs"), not any(map(benefit.by_constants, ("together", "without")))
    for k, site in enumerate(benefit.names):
        gains = benefit.of(site)
        row = [site, f"{float(benefit.train[k]):g}", f"{float(benefit.test[k]):g}", *_cells(benefit, gains.values())]
        others = [gains[name] for name in benefit.names if name in gains and name != site]
        best = max(others, key=lambda gain: gain.gain, default=None)
        good = best is not None and best.gain > 0 and paired
        row.append(f"{site_of(benefit, best.by)} {told(best, scale, digits)}" if best and good else MISSING)
        worth = scale * benefit.worth[k]
        most = int(worth.nan_to_num(-math.inf).argmax())
        missed = f"{site_of(benefit, benefit.names[most])} {bounded(float(benefit.worth[k, most]), scale, digits)}"
        row.append(missed if float(worth[most]) > 0 and grouped else MISSING)
        rows.append([*row, bounded(float(benefit.left_out[k]), scale, digits)])
    totals = [f"{float(some.sum()):g}" for some in (benefit.train, benefit.test)]
    for label, gained in (("all sites", benefit.overall), ("all, by samples", benefit.by_samples)):
        rows.append([label, *totals, *_cells(benefit, gained), "", "", ""])
    return Cells(header, rows)


def _cells(benefit: Benefit, gains: Iterable[Gain]) -> list[str]:
    """Write what there is alone, what constants have, and the gains by all together and by methods."""
    (scale, digits, _), by = scale_of(benefit), {gain.by: gain for gain in gains}
    arms = [by[arm] for arm in benefit.arms]
    means = [arms[0].alone, *([arms[0].constant] if _rivals(benefit) else [])]
    gained = [
        (MISSING if benefit.untold(gain.by) else told(gain, scale, digits)) + mark(benefit, gain.by) for gain in arms
    ]
    return [*(mean_of(benefit, mean) for mean in means), *gained]


def _rivals(benefit: Benefit) -> bool:
    """Tell whether constants do as well as training alone at any site."""
    constant, alone = benefit.constant.nanmean(0), benefit.scores["alone"].nanmean(0)
    return bool((constant >= alone if benefit.higher_is_better else constant <= alone).any())
