"""`comparison_answer`: whether any method is better than a reference, by how much, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from graphcollab._base.findings import Finding
from graphcollab._base.naming import ByName, few
from graphcollab._base.ranges import printable
from graphcollab.analysis import Comparison
from graphcollab.analysis.baseline import BASELINES, CONSTANT
from graphcollab.data.losses import constant_of
from graphcollab.report._terms import better_at_the_end_only, failures, noted, sure_p_value, unequal_terms
from graphcollab.report.site_table import SiteScores, results_by_name
from graphcollab.report.tables import FEW_SEEDS
from graphcollab.report.values import decimals, mean_cell, number, p_text, shown, shown_in
from graphcollab.report.words import explained, metric_name
from graphcollab.train import Result

LEVEL = 0.05


@shown
def comparison_answer(comparison: Comparison, reference: str | None = "local") -> str:
    """Answer in words whether a method is better than the reference, by how much, and what to do."""
    found = comparison_findings(comparison, reference)
    return printable("\n".join(str(one) for one in found if one.code != "doubt"))  # doubts were issued as warnings


def comparison_findings(comparison: Comparison, reference: str | None) -> list[Finding]:
    """Return `comparison_answer` as findings, with one that counts the doubts about the data."""
    ranked = _ranked(comparison)
    if reference is not None:
        ByName(comparison.chosen)[reference]  # rejects an unknown name
    if not ranked:
        return [Finding("no-mean", "methods", "No method has a mean that is defined on all seeds.")]
    others, better = [name for name in ranked if name != reference], list[str]()
    useless, flat = _no_better(comparison, ranked)
    said = f"In the mean over sites no better than {flat} of each site: {few(useless)}."
    constant = noted("no-better", CONSTANT, said * bool(useless), methods=useless)
    if reference is None or reference not in ranked or not others:
        lacking = f"Nothing is compared with {reference or 'a reference, such as local'}"
        lacking += f"{': a mean is lacking' * (len(ranked) < len(_methods(comparison)))}."
        return [_best_mean(comparison, ranked[0]), *constant, Finding("no-reference", "reference", lacking)]
    if (seeds := len(comparison.chosen[reference])) in FEW_SEEDS:
        said = f"Whether any method is better than {reference} is open: {FEW_SEEDS[seeds]}."
        verdict = [Finding("open", reference, said, {"seeds": seeds})]
        advice = Finding("advice", "seeds", "So compare on five seeds or more before anything is decided.")
    else:
        better, worse = _sure(comparison, reference, others)
        verdict = [_verdict(reference, better, worse)]
        if not better:
            level = LEVEL / len(_claimed(comparison, reference))
            verdict += better_at_the_end_only(comparison, reference, others, level)
        use = next(iter(better), reference)
        said = f"So use {use}; the table of sites says who does worse by it."
        if use in useless and len(useless) == len(ranked):
            said = f"So trust no model yet, as none is better than {flat}: ask again with more rows or seeds."
        elif use in useless:
            said = f"So decide nothing yet, as {use} is no better than {flat}: ask again with more rows or seeds."
        elif not better:
            said = f"So stay with {use}, or ask again with more rows or seeds."
        advice = Finding("advice", use, said)
    difference = _difference(comparison, next(iter(better), others[0]), reference)
    doubts = len(doubts_about(last_results(comparison)))
    said = f"Read the doubts about the data first ({doubts}, below): what is found may come of them." * bool(doubts)
    return [*verdict, difference, *constant, *noted("doubt", "tasks", said, doubts=doubts), advice]


def doubts_about(last: Mapping[str, Result]) -> list[Finding]:
    """Return the findings about the data of runs, without duplicates."""
    return [*{str(finding): finding for result in last.values() for finding in result.tasks.findings}.values()]


def details_of(comparison: Comparison, reference: str | None, sites: SiteScores | None) -> Iterator[Finding]:
    """Yield the basis of the answer, and its caveats."""
    ranked = _ranked(comparison)
    others = [name for name in ranked if name != reference]
    if ranked:
        yield _best_mean(comparison, ranked[0])
    if reference in ranked and others and len(comparison.chosen[reference]) not in FEW_SEEDS:
        against = next(iter(_sure(comparison, reference, others)[0]), others[0])
        if sites is not None and against in sites.others:
            yield _of_sites(sites, against)
    yield from unequal_terms(comparison)


def _ranked(comparison: Comparison) -> list[str]:
    """Return the methods with a known mean, the best first; baselines are not ranked."""
    whole = [name for name in _methods(comparison) if not failures(comparison, name)]
    means = {name: sum(comparison.values(name)) / len(comparison.chosen[name]) for name in whole}
    known = [name for name in whole if math.isfinite(means[name])]
    return sorted(known, key=lambda name: means[name], reverse=comparison.higher_is_better)


def _claimed(comparison: Comparison, reference: str) -> list[str]:
    """Return the methods about which claims may be made; p-values are corrected for all of them."""
    return [name for name in _methods(comparison) if name != reference]


def _methods(comparison: Comparison) -> list[str]:
    return [name for name in comparison.chosen if name not in BASELINES]


def _no_better(comparison: Comparison, ranked: list[str]) -> tuple[list[str], str]:
    """Return the methods whose mean is no better than that of constants, if these have a row, with their description.

    Empty if the comparison is not informative about models: class frequencies are calibrated, and class weights move
    models away from the optimum of metrics, which ignore class weights.
    """
    tasks = next((result.tasks for result in comparison.results.values()), None)
    flat = "constants" if tasks is None else constant_of(tasks.loss) or "constants"
    if CONSTANT not in comparison.chosen or comparison.metric == "ece" or (tasks is not None and tasks.class_weight):
        return [], flat
    sign, level = 1 if comparison.higher_is_better else -1, sum(comparison.values(CONSTANT))
    return [name for name in ranked if sign * sum(comparison.values(name)) <= sign * level], flat


def _best_mean(comparison: Comparison, name: str) -> Finding:
    (scale, _, unit), digits = shown_in(comparison.share, 2), _digits(comparison)
    mean = mean_cell([scale * v for v in comparison.values(name)], digits).text
    return Finding(
        "best-mean", name, f"{name} has the best mean over sites, test {metric_name(comparison.metric)}{unit} {mean}."
    )


def _digits(comparison: Comparison) -> int:
    """Return the number of decimals of means in a sentence."""
    return 2 if comparison.share else 1 + decimals([v for name in comparison.chosen for v in comparison.values(name)])


def _sure(comparison: Comparison, reference: str, others: list[str]) -> tuple[list[str], list[str]]:
    """Return methods better and worse than the reference by `sure_p_value`, corrected (Bonferroni) for all methods."""
    sign, many = 1 if comparison.higher_is_better else -1, len(_claimed(comparison, reference))
    known = [name for name in others if many * sure_p_value(comparison, name, reference) <= LEVEL]
    sure = {name: sign * comparison.paired(name, reference).mean for name in known}
    return [name for name, gain in sure.items() if gain > 0], [name for name, gain in sure.items() if gain < 0]


def _verdict(reference: str, better: list[str], worse: list[str]) -> Finding:
    code, said = "no-evidence", f"No evidence that any method is better than {reference} in the mean over sites."
    if better:
        code, said = "evidence", f"Evidence of a mean over sites better than that of {reference}: {few(better)}."
        said += " Which of them is best was not tested." * (len(better) > 1)
    lost = f" Evidence of a worse one: {few(worse)}." * bool(worse)
    return Finding(code, reference, said + lost, {"better": better, "worse": worse})


def _difference(comparison: Comparison, name: str, reference: str) -> Finding:
    scale, digits = shown_in(comparison.share, 2)[0], _digits(comparison)
    many, found = len(_claimed(comparison, reference)), comparison.paired(name, reference)
    p, sign, interval = min(1.0, many * found.p_value), 1 if found.mean >= 0 else -1, None
    between = ""
    if math.isfinite(found.low) and len(comparison.chosen[reference]) not in FEW_SEEDS:
        interval = scale * found.low, scale * found.high
        corrected = f", corrected for {many} comparisons" * (many > 1)
        low, high = (number(end, digits, signed=True) for end in interval)
        between = f": 95 % interval of the difference {low} … {high}, {p_text(p)}{corrected}"
    moved = f"{number(sign * scale * found.mean, digits)}{' points' * comparison.share}"
    moved = f"{moved} {'higher' if sign > 0 else 'lower'} than" if found.mean else "the same as"
    called = {one: result.method.name for one, result in comparison.results.items()}
    ways = [explained(called.get(one, one), one) for one in (name, reference)]
    said = f"With {ways[0]} {metric_name(comparison.metric)} is {moved} with {ways[1]}{between}."
    numbers = {"mean": scale * found.mean, "interval": interval, "p": p, "comparisons": many}
    return Finding("difference", name, said, numbers)


def _of_sites(sites: SiteScores, name: str) -> Finding:
    first, found = sites.metrics[0], sites.of(name)
    low, high = found.difference_low, found.difference_high
    more, less, known = int((low > 0).sum()), int((high < 0).sum()), int(low.notna().sum())
    better, worse = (more, less) if first.higher_is_better else (less, more)
    said = (
        f"By their own 95 % intervals of {first.name} on the last seed, {better} of {known} sites do better with "
        f"{name} than with {sites.reference}, and {worse} worse; one such "
        "interval in twenty misses the truth, and more at sites with few samples."
    )
    return Finding("nodes", name, said, {"better": better, "worse": worse, "nodes": known})


def last_results(comparison: Comparison) -> dict[str, Result]:
    """Return the results of the last seed, as in the table of sites; none if some samples are in other processes."""
    kept, _ = results_by_name(comparison)
    tested = all("test" in one.tasks.splits and int(one.tasks.sizes("test").sum()) for one in kept.values())
    return kept if tested else {}
