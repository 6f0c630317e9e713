"""What a comparison has found: is there evidence, of how much, and at how many nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from graphcollab.findings import Finding
from graphcollab.naming import few
from graphcollab.report._past_best import better_at_the_end_only, sure_p_value
from graphcollab.report._text import cell_text, column, failures, shown_in
from graphcollab.report.site_scores import SiteScores
from graphcollab.report.tables import FEW_SEEDS, paired_values
from graphcollab.report.values import Column, mean_cell
from graphcollab.train import Comparison

LEVEL = 0.05


def answer(comparison: Comparison, reference: str | None, sites: SiteScores | None) -> list[Finding]:
    """Return whether anything is better than the reference, which method has the best mean, and for how many nodes."""
    ranked = _ranked(comparison)
    if not ranked:
        return [Finding("no-mean", "methods", "No method has a mean that is defined on all seeds.")]
    others = [name for name in ranked if name != reference]
    if reference is None or reference not in ranked or not others:
        lacking = f"Nothing is compared with {reference or 'a reference, such as local'}: a mean is lacking."
        return [_best_mean(comparison, ranked[0]), Finding("no-reference", "reference", lacking)]
    return [*_beside(comparison, reference, ranked, others, sites)]


def _beside(
    comparison: Comparison, reference: str, ranked: Sequence[str], others: list[str], sites: SiteScores | None
) -> Iterator[Finding]:
    """Yield how methods compare with the reference."""
    better, worse = _sure(comparison, reference, others)
    against = next(iter(better), others[0])
    yield _verdict(comparison, reference, better, worse)
    if not better and len(comparison.chosen[reference]) not in FEW_SEEDS:
        yield from better_at_the_end_only(comparison, reference, others, LEVEL / (len(comparison.chosen) - 1))
    yield _best_mean(comparison, ranked[0])
    yield _difference(comparison, against, reference)
    if sites is not None and against in sites.differences:
        yield _of_sites(sites, against)


def _ranked(comparison: Comparison) -> list[str]:
    """Return methods with a mean, the best first."""
    whole = [name for name in comparison.chosen if not failures(comparison, name)]
    means = {name: sum(comparison.values(name)) / len(comparison.chosen[name]) for name in whole}
    known = [name for name in whole if math.isfinite(means[name])]
    return sorted(known, key=lambda name: means[name], reverse=comparison.higher_is_better)


def _best_mean(comparison: Comparison, name: str) -> Finding:
    scale, digits, unit = shown_in(comparison.share, 2)
    mean = cell_text(mean_cell(scale * column(comparison.values(name))), Column("", "number", digits))
    return Finding("best-mean", name, f"{name} has the best mean over nodes, test {comparison.metric}{unit} {mean}.")


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
        said = f"Whether any method is better than {reference} is open: {FEW_SEEDS[seeds]}."
        return Finding("open", reference, said, {"seeds": seeds})
    code, said = "no-evidence", f"No evidence that any method is better than {reference} in the mean over nodes."
    if better:
        code, said = "evidence", f"Evidence of a mean over nodes better than that of {reference}: {few(better)}."
    lost = f" Evidence of a worse one: {few(worse)}." * bool(worse)
    return Finding(code, reference, said + lost, {"better": better, "worse": worse})


def _difference(comparison: Comparison, name: str, reference: str) -> Finding:
    """Say by how much a method differs from the reference, as the table of differences does."""
    table = paired_values(comparison, reference)
    _, mean, interval, *_ = next(row for row in table.rows if row[0].value == name)
    many, p = len(comparison.chosen) - 1, _corrected(comparison, comparison.paired(name, reference).p_value)
    known = interval.interval is not None and len(comparison.chosen[reference]) not in FEW_SEEDS
    cell = replace(mean, unit="points" * comparison.share, interval=interval.interval)
    p_value = f"; p = {p:.2g}, corrected for {many} comparison{'s' * (many > 1)}" * known
    said = f"{name} − {reference}: {cell_text(cell, table.columns[1])}, in brackets a 95 % interval{p_value}."
    numbers = {"mean": mean.value, "interval": interval.interval, "p": p, "comparisons": many}
    return Finding("difference", name, said, numbers)


def _of_sites(sites: SiteScores, name: str) -> Finding:
    """Say for how many nodes a method is better than the reference, and worse, by their own intervals."""
    first = sites.scores[name].metrics[0]
    _, low, high = sites.differences[name][0].unbind(1)
    more, less, known = int((low > 0).sum()), int((high < 0).sum()), int((~low.isnan()).sum())
    better, worse = (more, less) if first.higher_is_better else (less, more)
    said = (
        f"By their own 95 % intervals of {first.name} on the last seed: of {known} nodes {better} better with {name} "
        f"than with {sites.reference}, {worse} worse; one such interval in twenty misses the truth."
    )
    return Finding("nodes", name, said, {"better": better, "worse": worse, "nodes": known})
