"""`benefit_answer`: what sites gain by collaborating, in words, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterator

from graphcollab._wording import printable
from graphcollab.findings import Finding
from graphcollab.gains import Benefit
from graphcollab.gains.constant import CONSTANTS
from graphcollab.gains.held import LEAST
from graphcollab.naming import few
from graphcollab.report._benefit_advice import advice, best_group
from graphcollab.report._gains import CLAIMED, by_whom, mark, means, models, of_metric, site_of, told
from graphcollab.report._text import FEW, agreement, noted, number, shown, shown_in, with_few
from graphcollab.train.trial import SHARES

IN_UNITS = ("mae", "rmse")
SHOWN = 8  # gains that are told one by one
GAINS = {
    False: "Gains are differences to training alone, positive where that is better",
    True: "Gains say by how many percent the error of training alone falls (negative: rises)",
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
    every, to_do = (benefit, *benefit.also.values()), advice(benefit)
    return [
        *_question(benefit, benefit.level * len(every)),
        *(_headline(one, len(every) > 1) for one in every),
        *_means(benefit),
        *_groups(benefit),
        *_further(benefit),
        *_single(benefit),
        *_stood(benefit),
        *(finding for one in every for finding in _no_better(one)),
        *_units(benefit),
        *(finding for name in benefit.findings for finding in _weights(benefit, name)),
        *_samples(benefit),
        *([] if to_do is None else [to_do]),
    ]


def _question(benefit: Benefit, level: float) -> Iterator[Finding]:
    said = (
        f"{len(benefit.names)} sites, {of_metric(benefit)}, {benefit.work}. {GAINS[benefit.relative]}, with 95 % "
        "intervals of each by itself. A star is evidence: the chance that any is wrong is at most "
        f"{100 * level:.3g} %."
    )
    yield Finding("question", "sites", said, {"sites": len(benefit.names), "level": level})


def _headline(benefit: Benefit, several: bool) -> Finding:
    """Say whether there is evidence of anything, in one metric of several or the only one."""
    by = {verdict: [gain.by for gain in benefit.overall if gain.verdict == verdict] for verdict in CLAIMED}
    groups = [gain.site for gain in benefit.group_gains if gain.verdict == "gains"]
    single = [gain for gain in benefit.found if gain.site in benefit.names]
    sites = {verdict: [gain.site for gain in single if gain.verdict == verdict] for verdict in CLAIMED}
    ways = {verdict: " and ".join(map(by_whom, names)) for verdict, names in by.items()}
    said = [
        *[f"Evidence that collaborating {ways['gains']} helps."] * bool(by["gains"]),
        *[f"Evidence that {few(groups)} gain by collaborating without the others."] * bool(groups),
        *["Evidence of gains at single sites."] * bool(sites["gains"]),
        *[f"Evidence that collaborating {ways['loses']} harms."] * bool(by["loses"]),
        *["Evidence of losses at single sites."] * bool(sites["loses"]),
    ]
    if all(gain.verdict == "not defined" for gain in benefit.overall):
        said = [f"{benefit.metric} is not defined, so this says nothing; log_loss is defined everywhere."]
    elif not (by["gains"] or groups or sites["gains"]):
        said = ["No evidence that collaborating helps.", *said]
    numbers = {**by, "groups": groups, "sites": sites}
    return Finding("evidence", benefit.metric, f"In {benefit.metric}: " * several + " ".join(said), numbers)


def _means(benefit: Benefit) -> Iterator[Finding]:
    """Yield what is gained in the mean over sites, by all together and by every method."""
    for gain, weighted in zip(benefit.overall, benefit.by_samples, strict=True):
        by = f"In the mean over sites, {by_whom(gain.by)}{mark(benefit, gain.by)}:"
        if benefit.untold(gain.by):
            yield Finding("mean", gain.by, f"{by} models have no part in it.", {"constants": True})
            continue
        said = f"{by} {told(benefit, gain)}, weighted by test samples {told(benefit, weighted)}. {means(benefit, gain)}"
        numbers = {name: getattr(gain, name) for name in ("gain", "low", "high", "p_value", "detectable", "verdict")}
        constants = benefit.by_constants(gain.by)
        yield Finding("mean", gain.by, said, {**numbers, "weighted": weighted.gain, "constants": constants})


def _groups(benefit: Benefit) -> Iterator[Finding]:
    """Tell of the group of all but one that gains most, where it gains more than all together."""
    together = next((gain.gain for gain in benefit.overall if gain.by == "together"), math.nan)
    best = best_group(benefit)
    if best is not None and best.gain > max(together, 0):
        said = (
            f"Of the groups of all but one, {best.site} together gain most: {told(benefit, best)} in the mean over "
            f"them. {means(benefit, best)}"
        )
        yield Finding("group", best.site, said, {"gain": best.gain, "verdict": best.verdict})


def _further(benefit: Benefit) -> Iterator[Finding]:
    """Yield the means of further metrics."""
    for one in benefit.also.values():
        gains = "; ".join(f"{by_whom(gain.by)} {told(one, gain)}" for gain in one.overall)
        line = f"In {of_metric(one)}{', % of the error' * one.relative}, mean over sites: {gains}."
        yield Finding("metric", one.metric, line, {gain.by: gain.gain for gain in one.overall})
    many = 1 + len(benefit.also)
    strictly = (
        f"With {many} metrics each is judged more strictly, so that the chance of a wrong star stays the same: fewer "
        "metrics need less evidence."
    )
    yield from noted("metrics", "metrics", strictly * (many > 1), metrics=many)


def _single(benefit: Benefit) -> Iterator[Finding]:
    """Tell what there is evidence of at single sites."""
    for verdict in CLAIMED:
        some = [gain for gain in benefit.found if gain.site in benefit.names and gain.verdict == verdict]
        for gain in some[:SHOWN]:
            by = by_whom(gain.by if gain.by in benefit.arms else site_of(benefit, gain.by))
            said = f"{site_of(benefit, gain.site)} {verdict} {by}: {told(benefit, gain)}."
            yield Finding("site", gain.site, said, {"by": gain.by, "gain": gain.gain, "verdict": verdict})
        left = max(len(some) - SHOWN, 0)
        yield from noted("more-sites", verdict, f"Further comparisons: {left}." * bool(left), comparisons=left)


def _stood(benefit: Benefit) -> Iterator[Finding]:
    """Say where constants stood in the place of models that did no better."""
    for arm in ("alone", *benefit.arms, "pairs", "without"):
        chosen = benefit.chosen.get(arm, [])
        if flat := chosen.count(benefit.flat):
            said = (
                f"On {flat} of {len(chosen)} splits models {models(arm)} did no better than {benefit.flat} of each "
                "site, which took their place."
            )
            yield Finding("constants", arm, said, {"splits": flat, "of": len(chosen)})


def _no_better(benefit: Benefit) -> list[Finding]:
    """Say which models do no better than constants in the mean over sites, beside those for which constants stood."""
    first, (scale, digits, _) = benefit.overall[0], shown_in(benefit.metric in SHARES, 1)
    every = {"alone": first.alone} | {gain.by: gain.score for gain in benefit.overall}
    worse = {
        arm: mean
        for arm, mean in every.items()
        if (mean <= first.constant if benefit.higher_is_better else mean >= first.constant)
        and not benefit.by_constants(arm)
    }
    of_models = ", ".join(f"{models(arm)} ({number(scale * mean, digits)})" for arm, mean in worse.items())
    said = (
        f"In {of_metric(benefit)}, mean over sites, models {of_models} do no better than {benefit.flat} of each site "
        f"({number(scale * first.constant, digits)}), so gains of such models are not counted."
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
        said = f"Found on {kinds.count(kind)} of {many} splits with {method}: {kind}."
        yield Finding("weights-wrong", method, said, {"kind": kind, "splits": kinds.count(kind), "of": many})
    alike = benefit.agreement(method) if method in benefit.weights else math.nan
    if not math.isnan(alike):
        yield agreement(method, alike, "splits")


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
    which = few([f"{site_of(benefit, name)}: {round(many, 1):g}" for name, many in small.items()])
    said = (
        f"Few {what}test samples on a split ({which}): what is measured there is mostly chance, and means over sites "
        "suffer from it."
    )
    return noted("few-tested", "sites", said * bool(small), samples=small)
