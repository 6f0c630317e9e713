"""What a comparison has found: is there evidence, of how much, and at how many nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from graphcollab.findings import Finding
from graphcollab.naming import few
from graphcollab.report._past_best import better_at_the_end_only, sure_p_value
from graphcollab.report._text import cell_text, failures, mean_spread, shown_in
from graphcollab.report.site_scores import SiteScores
from graphcollab.report.tables import FEW_SEEDS, paired_values
from graphcollab.train import Comparison

__all__ = ["answer"]

LEVEL = 0.05


def answer(comparison: Comparison, reference: str | None, sites: SiteScores | None) -> list[Finding]:
    """Return whether anything is better than the reference, which method has the best mean, and for how many nodes."""
    return [*_answer(comparison, reference, sites)]


def _answer(comparison: Comparison, reference: str | None, sites: SiteScores | None) -> Iterator[Finding]:
    ranked = _ranked(comparison)
    if not ranked:
        said = "No method has a mean to compare: all failed, or their metric is not defined everywhere."
        yield Finding("no-mean", "methods", said)
        return
    others = [name for name in ranked if name != reference]
    if reference is None or reference not in ranked or not others:
        yield Finding("best-mean", ranked[0], f"{_of_mean(comparison, ranked[0])}.")
        yield from _lacking(comparison, reference, others)
        return
    better, worse = _sure(comparison, reference, others)
    against = next(iter(better), others[0])
    yield _verdict(comparison, reference, better, worse)
    if not better and len(comparison.chosen[reference]) not in FEW_SEEDS:
        yield from better_at_the_end_only(comparison, reference, others, LEVEL / (len(comparison.chosen) - 1))
    yield _of_difference(comparison, ranked[0], against, reference)
    if sites is not None and against in sites.differences:
        yield _of_sites(sites, against)


def _lacking(comparison: Comparison, reference: str | None, others: list[str]) -> Iterator[Finding]:
    """Yield why methods are compared with no other."""
    if reference is None:
        said = "Whether that is better than training alone nothing here says, as no method is the reference."
        if "local" not in comparison.chosen:
            yield Finding("no-reference", "reference", said)
    elif others:
        yield Finding("no-mean", reference, f"There is no mean of {reference} to compare it with.")
    else:
        yield Finding("one-method", reference, "There is no other method to compare it with.")


def _ranked(comparison: Comparison) -> list[str]:
    """Return methods with a mean, the best first."""
    whole = [name for name in comparison.chosen if not failures(comparison, name)]
    means = {name: sum(comparison.values(name)) / len(comparison.chosen[name]) for name in whole}
    known = [name for name in whole if math.isfinite(means[name])]
    return sorted(known, key=lambda name: means[name], reverse=comparison.higher_is_better)


def _of_mean(comparison: Comparison, best: str) -> str:
    """Say which method has the best mean."""
    scale, digits, unit = shown_in(comparison.share, 2)
    values = comparison.values(best)
    mean = mean_spread(scale * torch.tensor(values, dtype=torch.float64), digits)
    over = f" (± standard deviation over {len(values)} seeds)" if len(values) > 1 else ""
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


def _corrected(comparison: Comparison, p_value: float) -> float:
    return min(1.0, (len(comparison.chosen) - 1) * p_value)


def _verdict(comparison: Comparison, reference: str, better: list[str], worse: list[str]) -> Finding:
    """Say of what there is evidence: code ``"evidence"``, ``"no-evidence"``, or ``"open"`` with too few seeds."""
    seeds = len(comparison.chosen[reference])
    if seeds in FEW_SEEDS:
        how = f"{seeds} seed{'s are' * (seeds > 1) or ' is'} too few to tell"
        said = f"Whether any method does better than {reference} is open: {how}."
        return Finding("open", reference, said, {"seeds": seeds})
    than = f"better than {reference} in the mean over nodes"
    lost = f", and there is some that {few(worse)} {_do(worse)} worse" if worse else ""
    if better:
        code, said = "evidence", f"There is evidence that {few(better)} {_do(better)} {than}{lost}."
    else:
        code, said = "no-evidence", f"There is no evidence that any method does {than}{lost}."
    return Finding(code, reference, said, {"better": better, "worse": worse})


def _do(names: list[str]) -> str:
    return "does" if len(names) == 1 else "do"


def _of_difference(comparison: Comparison, best: str, against: str, reference: str) -> Finding:
    """Say which mean is best, and by how much a method differs from the reference, as the table of differences does."""
    unit = " points" * bool(shown_in(comparison.share, 2)[2])
    table = paired_values(comparison, reference)
    row = next(row for row in table.rows if row[0].value == against)
    mean, interval, *_ = map(cell_text, row[1:], table.columns[1:])
    which = (
        ", and" if best == against else f"; {'the next, ' * (best == reference)}{against}{',' * (best == reference)}"
    )
    differs = f"{_of_mean(comparison, best)}{which} differs from {reference} by {mean}{unit}"
    seeds, many = len(comparison.chosen[reference]), len(comparison.chosen) - 1
    p = _corrected(comparison, comparison.paired(against, reference).p_value)
    numbers = {"best": best, "mean": row[1].value, "interval": row[2].interval, "p": p, "comparisons": many}
    if row[2].interval is None:
        how = ", the same on every seed" if seeds > 1 else ", of which there is no interval"
    elif seeds in FEW_SEEDS:
        how = f" (95 % interval {interval})"
    else:
        corrected = f", corrected for {many} comparisons" if many > 1 else ""
        how = f" (95 % interval {interval}; p = {p:.2g}{corrected})"
    return Finding("difference", against, f"{differs}{how}.", numbers)


def _of_sites(sites: SiteScores, name: str) -> Finding:
    """Say for how many nodes a method is better than the reference, and worse, by their own intervals."""
    first = sites.scores[name].metrics[0]
    _, low, high = sites.differences[name][0].unbind(1)
    more, less, known = int((low > 0).sum()), int((high < 0).sum()), int((~low.isnan()).sum())
    better, worse = (more, less) if first.higher_is_better else (less, more)
    said = (
        f"By their own 95 % intervals of {first.name} on the last seed, {better} of {known} nodes "
        f"{'does' if better == 1 else 'do'} better with {name} than with {sites.reference}, and {worse} worse; "
        "one such interval in twenty misses the truth."
    )
    if not known:
        said = f"Of no node there is an interval of {first.name}, so nothing is said of single nodes."
    return Finding("nodes", name, said, {"better": better, "worse": worse, "nodes": known})
