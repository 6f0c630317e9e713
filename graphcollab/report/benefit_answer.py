"""`benefit_answer`: what sites gain by collaborating, in words, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from graphcollab._wording import printable
from graphcollab.findings import Finding
from graphcollab.gains import Benefit
from graphcollab.gains.constant import CONSTANTS
from graphcollab.gains.held import LEAST
from graphcollab.naming import few
from graphcollab.report._benefit_advice import advice, best_group
from graphcollab.report._gains import (
    CLAIMED,
    CONSTANT,
    by_whom,
    claim,
    mark,
    mean_of,
    means,
    models,
    of_metric,
    scale_of,
    site_of,
    told,
)
from graphcollab.report._text import FEW, agreement, noted, number, shown, with_few

__all__ = ["benefit_answer", "benefit_findings", "mean_findings"]

IN_UNITS = ("mae", "rmse")
SHOWN = 8  # gains that are told one by one
GAINS = {
    False: "Gains are differences to training alone, positive where that is better",
    True: "Gains say by how many percent the error of training alone falls (negative: rises)",
}
WRONG = {
    "own model only": "all weight on own models, which is local training,",
    "one model only": "all weight on single models",
    "uniform weights": "uniform weights, which is averaging,",
    "still equal weights": "weights that were still equal after so few rounds, and say nothing of who helps whom,",
}


@shown
def benefit_answer(benefit: Benefit) -> str:
    """Answer in words: does collaborating help, whom, by whom and by how much, what could have been found, what to do.

    Args:
        benefit: What `graphcollab.benefit` found.
    """
    return printable("\n".join(map(str, benefit_findings(benefit))))


def benefit_findings(benefit: Benefit) -> list[Finding]:
    """Return the answer of `benefit_answer` as findings, whose codes, subjects and numbers do without their words.

    Args:
        benefit: What `graphcollab.benefit` found.
    """
    return [*_findings(benefit)]


def _findings(benefit: Benefit) -> Iterator[Finding]:
    every = (benefit, *benefit.also.values())
    level = benefit.level * len(every)
    said = (
        f"{len(benefit.names)} sites, {of_metric(benefit)}, {benefit.work}. {GAINS[benefit.relative]}, with 95 % "
        "intervals of each by itself. A star is evidence: the chance that any is wrong is at most "
        f"{100 * level:.3g} %."
    )
    yield Finding("question", "sites", said, {"sites": len(benefit.names), "level": level})
    yield from (_headline(one, len(every) > 1) for one in every)
    yield from mean_findings(benefit)
    yield from _groups(benefit)
    for one in benefit.also.values():
        of_one = scale_of(one)[:2]
        gains = "; ".join(f"{by_whom(gain.by)} {told(gain, *of_one)}" for gain in one.overall)
        said = "a star is evidence" if any(gain.verdict in CLAIMED for gain in one.overall) else "no evidence"
        line = f"In {of_metric(one)}{', % of the error' * one.relative}, mean over sites: {gains}: {said}."
        yield Finding("metric", one.metric, line, {gain.by: gain.gain for gain in one.overall})
    strictly = (
        f"With {len(every)} metrics each is judged more strictly, so that the chance of a wrong star stays the "
        "same: fewer metrics need less evidence."
    )
    yield from noted("metrics", "metrics", strictly * bool(benefit.also), metrics=len(every))
    yield from _single(benefit)
    yield from _stood(benefit)
    for one in every:
        yield from _no_better(one)
    yield from _units(benefit)
    for name in benefit.findings:
        yield from _weights(benefit, name)
    yield from _samples(benefit)
    yield from advice(benefit)


def _headline(benefit: Benefit, several: bool) -> Finding:
    """Say whether there is evidence of anything, in one metric of several or the only one."""
    by = {verdict: [gain.by for gain in benefit.overall if gain.verdict == verdict] for verdict in CLAIMED}
    groups = [gain.site for gain in benefit.group_gains if gain.verdict == "gains"]
    single = [gain for gain in benefit.found if gain.site in benefit.names]
    sites = {verdict: [gain.site for gain in single if gain.verdict == verdict] for verdict in CLAIMED}
    if all(gain.verdict == "not defined" for gain in benefit.overall):
        hint = "; metrics='log_loss' is defined everywhere" * (benefit.metric == "auc")
        said = [f"It cannot be said whether collaborating helps: {benefit.metric} is not defined{hint}."]
    else:
        said = _evidence(benefit, by, groups, sites)
    numbers = {**by, "groups": groups, "sites": sites}
    return Finding("evidence", benefit.metric, f"In {benefit.metric}: " * several + " ".join(said), numbers)


def _evidence(benefit: Benefit, by: dict[str, list[str]], groups: list[str], sites: dict[str, list[str]]) -> list[str]:
    """Say what helps and what harms."""
    said = []
    if by["gains"]:
        said.append(f"Evidence that collaborating {_ways(by['gains'])} helps.")
    elif len(groups) == 1:
        said.append(f"Evidence that {groups[0]} gain by collaborating without it.")
    elif groups:
        alone = few([site.removeprefix("all but ") for site in groups])
        said.append(f"Evidence that the others gain by collaborating without one of {alone}.")
    elif sites["gains"]:
        said.append("Evidence that some sites gain by collaborating, and none that all do in the mean.")
    if by["loses"]:
        ways = "" if by["loses"] == list(benefit.arms) else f" {_ways(by['loses'])}"
        nothing = "" if said else f", and none that {'anything' if ways else 'it'} helps"
        said.append(f"Evidence that collaborating{ways} harms{nothing}.")
    elif not said:
        lost = " There is evidence that some sites lose by it." * bool(sites["loses"])
        said.append(f"No evidence that collaborating helps.{lost}")
    return said


def _ways(names: Iterable[str]) -> str:
    return " and ".join(map(by_whom, names))


def mean_findings(benefit: Benefit) -> Iterator[Finding]:
    """Yield what is gained in the mean over sites, by all together and by every method."""
    scale, digits, _ = scale_of(benefit)
    for gain, weighted in zip(benefit.overall, benefit.by_samples, strict=True):
        by = f"In the mean over sites, {by_whom(gain.by)}{mark(benefit, gain.by)}:"
        if benefit.untold(gain.by):
            yield Finding("mean", gain.by, f"{by} models have no part in it.", {"constants": True})
            continue
        said = (
            f"{by} {told(gain, scale, digits)}, weighted by test samples {told(weighted, scale, digits)}. "
            f"{means(gain, benefit)}"
        )
        numbers = {name: getattr(gain, name) for name in ("gain", "low", "high", "p_value", "detectable", "verdict")}
        constants = benefit.by_constants(gain.by)
        yield Finding("mean", gain.by, said, {**numbers, "weighted": weighted.gain, "constants": constants})


def _groups(benefit: Benefit) -> Iterator[Finding]:
    """Tell of the group of all but one that gains most, where it gains more than all together."""
    together = next((gain.gain for gain in benefit.overall if gain.by == "together"), math.nan)
    best = best_group(benefit)
    if best is not None and best.gain > max(together, 0):
        gains = told(best, *scale_of(benefit)[:2])
        said = (
            f"Of the groups of all but one, {best.site} together gain most: {gains} in the mean over them. "
            f"{means(best, benefit)}"
        )
        yield Finding("group", best.site, said, {"gain": best.gain, "verdict": best.verdict})


def _single(benefit: Benefit) -> Iterator[Finding]:
    """Tell what there is evidence of at single sites."""
    for verdict in CLAIMED:
        some = [gain for gain in benefit.found if gain.site in benefit.names and gain.verdict == verdict]
        yield from (claim(benefit, gain) for gain in some[:SHOWN])
        left = max(len(some) - SHOWN, 0)
        said = f"The same holds for {left} more comparison{'s' * (left > 1)}." * bool(left)
        yield from noted("more-sites", verdict, said, comparisons=left)


def _stood(benefit: Benefit) -> Iterator[Finding]:
    """Say where constants stood in the place of models that did no better."""
    any_stood = False
    for arm in ("alone", *benefit.arms, "pairs", "without"):
        chosen = benefit.chosen.get(arm, [])
        if flat := chosen.count(benefit.flat):
            any_stood = True
            said = f"On {flat} of {len(chosen)} splits models {models(arm)} did no better than {benefit.flat}."
            yield Finding("constants", arm, said, {"splits": flat, "of": len(chosen)})
    if any_stood and benefit.flat:
        sign = f"{CONSTANT}: " * any(map(benefit.by_constants, benefit.arms))
        said = f"{sign}There {benefit.flat} of each site took the place of these models."
        yield Finding("constants-stood", benefit.flat, said)


def _no_better(benefit: Benefit) -> list[Finding]:
    """Say which models do no better than constants in the mean over sites, beside those for which constants stood."""
    first = benefit.overall[0]
    every = {"alone": first.alone} | {gain.by: gain.score for gain in benefit.overall}
    worse = {
        arm: mean
        for arm, mean in every.items()
        if (mean <= first.constant if benefit.higher_is_better else mean >= first.constant)
        and not benefit.by_constants(arm)
    }
    of_models = ", ".join(f"{models(arm)} ({mean_of(benefit, mean)})" for arm, mean in worse.items())
    said = (
        f"In {of_metric(benefit)}, mean over sites, models {of_models} do no better than {benefit.flat} of each site "
        f"({mean_of(benefit, first.constant)}), so gains of such models are not counted."
    )
    return noted("no-better", benefit.metric, said * bool(worse), models=worse, constant=first.constant)


def _units(benefit: Benefit) -> Iterator[Finding]:
    """Say what the reader should know of targets and weights."""
    of_values = [one.metric for one in (benefit, *benefit.also.values()) if one.metric in IN_UNITS]
    if benefit.deviation is not None and of_values:
        name, deviation = benefit.deviation
        said = (
            f"Targets were standardised: {' and '.join(of_values)} in standard deviations of {name!r} (one is about "
            f"{number(deviation, None)})."
        )
        yield Finding("standardized", f"column {name!r}", said, {"deviation": deviation, "metrics": of_values})
    said = "Samples have weights: metrics are weighted means at each site." * benefit.weighted
    yield from noted("weighted", "samples", said)


def _weights(benefit: Benefit, method: str) -> Iterator[Finding]:
    """Say what the weights of a method are worth: found wrong, or different on every split."""
    many = len(benefit.findings[method])
    kinds = [kind for kinds in benefit.findings[method] for kind in kinds.split(", ") if kind]
    for kind in dict.fromkeys(kinds):
        said = f"{method} ended with {WRONG.get(kind, kind)} on {kinds.count(kind)} of {many} splits."
        yield Finding("weights-wrong", method, said, {"kind": kind, "splits": kinds.count(kind), "of": many})
    alike = benefit.agreement(method) if method in benefit.weights else math.nan
    said = f"On different splits the weights that {method} learned {agreement(alike)}."
    yield from noted("weights-alike", method, said * (not math.isnan(alike)), r=alike)


def _samples(benefit: Benefit) -> Iterator[Finding]:
    """Say what the reader should know of pairs and test samples."""
    tried, there = benefit.tried
    left = int((~benefit.without.isnan()).any(0).any(0).sum())
    said = f"Of {there} pairs {tried} were tried, as many for every site, and {left} sites were left out in turn."
    yield from noted("pairs-drawn", "limit", said * (tried < there), tried=tried, pairs=there, left_out=left)
    yield from _few_tested(benefit)
    sites = [site_of(benefit, name) for name in benefit.names]
    if benefit.rarer is not None:
        held = dict(zip(sites, benefit.rarer.tolist(), strict=True))
        rare = with_few(held.items())
        said = (
            f"Few test samples of the rarer class on a split ({rare}): be wary of what is said of such sites, and of "
            "means, above all by auc."
        )
        yield from noted("rare-class", "sites", said * bool(rare), samples=held)
    if benefit.minority is not None and bool(benefit.one_sided.any()):
        what = "value" if benefit.flat == CONSTANTS["mse"] else "class"
        held = dict(zip(sites, benefit.minority.tolist(), strict=True))
        said = (
            f"No star at sites with fewer than {LEAST} samples beside their most frequent {what} "
            f"({with_few(held.items(), what)}): no split of these shows what the sites lack."
        )
        yield Finding("no-star", "sites", said, {"samples": held})
    for name in dict.fromkeys(gain.site for gain in benefit.gains if gain.verdict == "not defined"):
        said = f"{site_of(benefit, name)}: {benefit.metric} is not defined on its test samples in any split."
        yield Finding("not-defined", name, said, {"metric": benefit.metric})


def _few_tested(benefit: Benefit) -> list[Finding]:
    held, what = (benefit.test, "") if benefit.groups is None else (benefit.groups, "groups of ")
    small = {name: many for name, many in zip(benefit.names, held.tolist(), strict=True) if many < FEW}
    which = ", ".join(f"{site_of(benefit, name)}: {round(many, 1):g}" for name, many in small.items())
    if len(small) == len(benefit.names) and len({*small.values()}) == 1:
        which = f"each of the {len(small)} sites has {round(next(iter(small.values())), 1):g}"
    said = (
        f"Few {what}test samples on a split ({which}): what is measured there is mostly chance, and means over sites "
        "suffer from it."
    )
    return noted("few-tested", "sites", said * bool(small), samples=small)
