"""What a comparison has found, in three sentences: is there evidence, of how much, and at how many nodes."""

from __future__ import annotations

import math

import torch

from graphcollab.naming import few
from graphcollab.report._past_best import better_at_the_end_only, sure_p_value
from graphcollab.report._text import failures, mean_spread, shown_in
from graphcollab.report.site_table import SiteScores
from graphcollab.report.tables import FEW_SEEDS, paired_cells
from graphcollab.train import Comparison

__all__ = ["answer"]

LEVEL = 0.05


def answer(comparison: Comparison, reference: str | None, sites: SiteScores | None) -> list[str]:
    """Return whether anything is better than the reference, which method has the best mean, and for how many nodes."""
    ranked = _ranked(comparison)
    if not ranked:
        return ["No method has a mean to compare: all failed, or their metric is not defined everywhere."]
    if reference is None:
        alone = "Whether that is better than training alone nothing here says, as no method is the reference."
        return [f"{_of_mean(comparison, ranked[0])}.", *([alone] if "local" not in comparison.chosen else [])]
    others = [name for name in ranked if name != reference]
    against = others[0] if others else None
    if against is None:
        return [f"{_of_mean(comparison, ranked[0])}.", "There is no other method to compare it with."]
    if reference not in ranked:
        return [f"{_of_mean(comparison, ranked[0])}.", f"There is no mean of {reference} to compare it with."]
    better, worse = _sure(comparison, reference, others)
    against = next(iter(better), against)
    told = [
        _verdict(comparison, reference, others, better, worse),
        _of_difference(comparison, ranked[0], against, reference),
    ]
    return [one for one in (*told, _of_sites(sites, against)) if one]


def _ranked(comparison: Comparison) -> list[str]:
    """Return methods with a mean, the best first."""
    whole = [name for name in comparison.chosen if not failures(comparison, name)]
    means = {name: sum(comparison.values(name)) / len(comparison.chosen[name]) for name in whole}
    known = [name for name in whole if math.isfinite(means[name])]
    return sorted(known, key=lambda name: means[name], reverse=comparison.higher_is_better)


def _of_mean(comparison: Comparison, best: str) -> str:
    """Say which method has the best mean."""
    scale, digits, unit = shown_in(comparison.share, 2)
    mean = mean_spread(scale * torch.tensor(comparison.values(best), dtype=torch.float64), digits)
    over = f" (± standard deviation over {len(comparison.chosen[best])} seeds)" if "±" in mean else ""
    return f"{best} has the best mean over nodes, a test {comparison.metric}{unit} of {mean}{over}"


def _sure(comparison: Comparison, reference: str, others: list[str]) -> tuple[list[str], list[str]]:
    """Return methods of which there is evidence that they are better than the reference, and that they are worse.

    p-values are corrected by Bonferroni, for as many comparisons as there are methods. Who does worse must do worse at
    its best evaluation, too (`sure_p_value`).
    """
    if len(comparison.chosen[reference]) in FEW_SEEDS:
        return [], []
    sign = 1 if comparison.higher_is_better else -1
    known = [n for n in others if _corrected(comparison, sure_p_value(comparison, n, reference)) <= LEVEL]
    sure = {name: sign * comparison.paired(name, reference).mean for name in known}
    return [name for name, gain in sure.items() if gain > 0], [name for name, gain in sure.items() if gain < 0]


def _verdict(comparison: Comparison, reference: str, others: list[str], better: list[str], worse: list[str]) -> str:
    """Say of what there is evidence."""
    seeds = len(comparison.chosen[reference])
    if seeds in FEW_SEEDS:
        how = f"{seeds} seed{'s are' * (seeds > 1) or ' is'} too few to tell"
        return f"Whether any method does better than {reference} is open: {how}."
    than = f"better than {reference} in the mean over nodes"
    lost = f", and there is some that {few(worse)} {_do(worse)} worse" if worse else ""
    if better:
        return f"There is evidence that {few(better)} {_do(better)} {than}{lost}."
    late = better_at_the_end_only(comparison, reference, others, LEVEL / (len(comparison.chosen) - 1))
    nor = f", nor of {late.removeprefix('no evidence of ')}" if late else ""
    return f"There is no evidence that any method does {than}{lost}{nor}."


def _do(names: list[str]) -> str:
    return "does" if len(names) == 1 else "do"


def _corrected(comparison: Comparison, p_value: float) -> float:
    return min(1.0, (len(comparison.chosen) - 1) * p_value)


def _of_difference(comparison: Comparison, best: str, against: str, reference: str) -> str:
    """Say which mean is best, and by how much a method differs from the reference, as the table of differences does."""
    unit = " points" * bool(shown_in(comparison.share, 2)[2])
    _, mean, interval, p_value, _ = next(row for row in paired_cells(comparison, reference).rows if row[0] == against)
    which = (
        ", and" if best == against else f"; {'the next, ' * (best == reference)}{against}{',' * (best == reference)}"
    )
    differs = f"{_of_mean(comparison, best)}{which} differs from {reference} by {mean}{unit}"
    seeds, many = len(comparison.chosen[reference]), len(comparison.chosen) - 1
    if p_value == "–":
        return f"{differs}, the same on every seed." if seeds > 1 else f"{differs}, of which there is no interval."
    if seeds in FEW_SEEDS:
        return f"{differs} (95 % interval {interval})."
    p = _corrected(comparison, comparison.paired(against, reference).p_value)
    of = f", corrected for {many} comparisons" if many > 1 else ""
    return f"{differs} (95 % interval {interval}; p = {p:.2g}{of})."


def _of_sites(sites: SiteScores | None, name: str) -> str:
    """Say for how many nodes a method is better than the reference, and worse, by their own intervals."""
    if sites is None or name not in sites.differences:
        return ""
    first = sites.scores[name].metrics[0]
    _, low, high = sites.differences[name][0].unbind(1)
    more, less, known = int((low > 0).sum()), int((high < 0).sum()), int((~low.isnan()).sum())
    if not known:
        return f"Of no node there is an interval of {first.name}, so nothing is said of single nodes."
    better, worse = (more, less) if first.higher_is_better else (less, more)
    return (
        f"By their own 95 % intervals of {first.name} on the last seed, {better} of {known} nodes "
        f"{'does' if better == 1 else 'do'} better with {name} than with {sites.reference}, and {worse} worse; "
        "one such interval in twenty misses the truth."
    )
