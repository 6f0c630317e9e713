"""What a comparison asked and what it found, in three sentences."""

from __future__ import annotations

import math

import torch

from graphcollab.naming import few
from graphcollab.report._text import failures, mean_spread, number, shown_in
from graphcollab.report.site_table import SiteScores
from graphcollab.report.tables import FEW_SEEDS
from graphcollab.train import Comparison

__all__ = ["answer", "asked"]

LEVEL = 0.05


def asked(comparison: Comparison) -> str:
    """Say what was compared, on what, and by what."""
    trials = next(iter(comparison.chosen.values()))
    nodes = len(trials[0].per_node)
    who = f"{nodes} nodes" if nodes else "the nodes"
    seeds = f"{len(trials)} seeds" if len(trials) > 1 else "one seed"
    direction = "more" if comparison.higher_is_better else "less"
    return (
        f"Which of {few(list(comparison.chosen))} gives {who} the best models of their own, by test "
        f"{comparison.metric} ({direction} is better), on {seeds}?"
    )


def answer(comparison: Comparison, reference: str | None, sites: SiteScores | None) -> list[str]:
    """Return which method is best, how sure that is, and for how many nodes it is so."""
    best = _best(comparison)
    if best is None:
        return ["No method has a mean to compare: all failed, or their metric is not defined everywhere."]
    told = [_of_means(comparison, best)]
    against = next((name for name in _ranked(comparison) if name != reference), None) if best == reference else best
    if best == reference:
        told[0] += " Nothing else that was tried did better." * (against is not None)
    if reference is not None and against is not None:
        told.append(_of_difference(comparison, against, reference, len(comparison.chosen) - 1))
        told.append(_of_sites(sites, against))
    return [one for one in told if one]


def _ranked(comparison: Comparison) -> list[str]:
    """Return methods with a mean, the best first."""
    whole = [name for name in comparison.chosen if not failures(comparison, name)]
    means = {name: sum(comparison.values(name)) / len(comparison.chosen[name]) for name in whole}
    known = [name for name in whole if math.isfinite(means[name])]
    return sorted(known, key=lambda name: means[name], reverse=comparison.higher_is_better)


def _best(comparison: Comparison) -> str | None:
    return next(iter(_ranked(comparison)), None)


def _of_means(comparison: Comparison, best: str) -> str:
    scale, digits, unit = shown_in(comparison.share, 2)
    mean = mean_spread(scale * torch.tensor(comparison.values(best), dtype=torch.float64), digits)
    over = f" (± standard deviation over {len(comparison.chosen[best])} seeds)" if "±" in mean else ""
    return f"{best} is best in the mean over nodes, with a test {comparison.metric}{unit} of {mean}{over}."


def _of_difference(comparison: Comparison, name: str, reference: str, others: int) -> str:
    """Say by how much a method differs from the reference, and whether chance explains it."""
    scale, digits, unit = shown_in(comparison.share, 2)
    if comparison.undefined(name, reference) or failures(comparison, reference):
        return f"How it differs from {reference} cannot be said, as that is not defined on every seed."
    found = comparison.paired(name, reference)
    mean, low, high = (number(scale * end, digits, signed=True) for end in (found.mean, found.low, found.high))
    differs = f"{name} differs from {reference} by {mean}{' points' * bool(unit)}"
    if math.isnan(found.low):
        return f"{differs}; how sure that is, {found.n} seed{'s' * (found.n > 1)} cannot say."
    if found.n in FEW_SEEDS:
        return f"{differs} (95 % interval {low} … {high}); whether that is chance, {found.n} seeds are too few to say."
    p_value = min(1.0, others * found.p_value)
    of = f", corrected for {others} comparisons" if others > 1 else ""
    sure = "evidence" if p_value <= LEVEL else "no evidence"
    return f"{differs} (95 % interval {low} … {high}), which is {sure} of a difference (p = {p_value:.2g}{of})."


def _of_sites(sites: SiteScores | None, name: str) -> str:
    """Say for how many nodes a method is better than the reference, and worse, by their own intervals."""
    if sites is None or name not in sites.differences:
        return ""
    first = sites.scores[name].metrics[0]
    _, low, high = sites.differences[name][0].unbind(1)
    more, less, known = int((low > 0).sum()), int((high < 0).sum()), int((~low.isnan()).sum())
    better, worse = (more, less) if first.higher_is_better else (less, more)
    return (
        f"Of {known} nodes with an interval {better} {'does' if better == 1 else 'do'} better with {name} than with "
        f"{sites.reference} and {worse} worse, by 95 % intervals of {first.name} on the last seed, of which one in "
        "twenty misses the truth."
    )
