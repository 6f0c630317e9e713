"""Details behind the answer of a benefit: chosen models, units, weights, and the samples of sites."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from graphcollab._base.findings import Finding
from graphcollab._base.naming import few, setting
from graphcollab.analysis import Benefit, Gain
from graphcollab.analysis.held import LEAST
from graphcollab.analysis.metrics import METRICS
from graphcollab.data.losses import constant_of
from graphcollab.report._terms import FEW, agreement, with_few
from graphcollab.report.benefit_table import by_whom, of_metric, site_of, values_in
from graphcollab.report.values import number
from graphcollab.report.words import say

MODELS = {"alone": "alone", "pairs": "of pairs, judged as one,", "without": "of all but one"}


def models_in(arm: str) -> str:
    """Describe the models that an arm trains."""
    return MODELS.get(arm, by_whom(arm))


def of_constants(benefit: Benefit, first: Benefit) -> Iterator[Finding]:
    """Report where constants replaced models, and which other models are no better on average over sites."""
    for arm in ("alone", *benefit.arms, "pairs", "without") if benefit is first else ():
        picked = benefit.picked.get(arm, [])
        if flat := picked.count(None):
            numbers = {"splits": flat, "of": len(picked)}
            yield say("constants", arm, numbers, models=models_in(arm), flat=benefit.flat)
    (scale, digits, _), said = values_in(benefit), set[str]()
    for code, gains in (("no-better", benefit.overall), ("no-better-weighted", benefit.by_samples)):
        worse = {arm: mean for arm, mean in no_better(benefit, gains).items() if not benefit.by_constants(arm)}
        if {*worse} <= said:
            continue
        of_models = ", ".join(f"{models_in(arm)} ({number(scale * mean, digits)})" for arm, mean in worse.items())
        words = {"metric": of_metric(benefit), "of_models": of_models, "flat": benefit.flat}
        words["told"] = number(scale * gains[0].constant, digits)
        yield say(code, benefit.metric, {"models": worse, "constant": gains[0].constant}, **words)
        said |= {*worse}


def of_chosen(benefit: Benefit) -> Iterator[Finding]:
    """Report how often each of several models was chosen, for arms whose mean over sites uses models."""
    picked = {arm: filter(None, benefit.picked.get(arm, ())) for arm in ("alone", *benefit.arms)}
    counts = {arm: Counter(one.model for one in some if one.model) for arm, some in picked.items()}
    splits = len(benefit.scores["alone"])
    told = [
        f"{models_in(arm)}: {', '.join(f'{name} on {many} of {splits} splits' for name, many in count.most_common())}"
        for arm, count in counts.items()
        if count
    ]
    if told:
        yield say("models", "models", {arm: dict(count) for arm, count in counts.items()}, told="; ".join(told))


def of_last_rounds(benefit: Benefit) -> Iterator[Finding]:
    """Report models for which the last round was the best on at least half of the splits."""
    arms, of = ("alone", *benefit.arms), len(benefit.scores["alone"])
    rounds = {arm: [one.rounds for one in benefit.picked.get(arm, ()) if one is not None] for arm in arms}
    most = max(map(max, filter(None, rounds.values())), default=0)
    splits = {arm: last for arm, many in rounds.items() if 2 * (last := many.count(most)) >= of}
    if most > 1 and splits:
        models = ", ".join(f"{models_in(arm)} (on {last} of {of} splits)" for arm, last in splits.items())
        numbers = {"splits": splits, "of": of, "rounds": most}
        yield say("last-round", "rounds", numbers, models=models, setting=setting(rounds=...))


def no_better(benefit: Benefit, gains: Sequence[Gain]) -> dict[str, float]:
    """Return the mean metric over sites, for training alone and each arm, if it is no better than that of constants."""
    every = {"alone": gains[0].alone} | {gain.by: gain.score for gain in gains}
    sign, flat = 1 if benefit.higher_is_better else -1, gains[0].constant
    return {arm: mean for arm, mean in every.items() if sign * mean <= sign * flat}


def of_units(benefit: Benefit) -> Iterator[Finding]:
    """Report the unit of errors, and that samples have weights."""
    judged = [one.metric for one in (benefit, *benefit.also.values()) if one.metric in METRICS]
    named = {metric: METRICS[metric].unit for metric in judged if METRICS[metric].unit}
    if benefit.deviation is not None and named:
        name, deviation = benefit.deviation
        units = " and ".join(f"{metric} in {'squares of ' * (power > 1)}the unit" for metric, power in named.items())
        words = {"units": units, "column": name, "told": number(deviation, None)}
        yield say("standardized", f"column {name!r}", {"deviation": deviation, "metrics": [*named]}, **words)
    if benefit.weighted:
        yield say("weighted", "samples", {})


def of_weights(benefit: Benefit, method: str) -> Iterator[Finding]:
    """Report problems with a method's weights, or that they differ between splits."""
    kinds = [kind for kinds in benefit.findings[method] for kind in kinds.split(", ") if kind]
    for kind in dict.fromkeys(kinds):
        numbers = {"kind": kind, "splits": kinds.count(kind), "of": len(benefit.findings[method])}
        yield say("weights-wrong", method, numbers, method=method)
    alike = benefit.agreement(method) if method in benefit.weights else math.nan
    if not math.isnan(alike):
        yield agreement(method, alike, "splits")


def of_samples(benefit: Benefit) -> Iterator[Finding]:
    """Report sites with few samples, groups or events, or without a class, and undefined metrics."""
    tried, there = benefit.tried
    if tried < there:
        left = int((~benefit.without.isnan()).any(0).any(0).sum())
        yield say("pairs-drawn", "limit", {"tried": tried, "pairs": there, "left_out": left})
    tested, what = (benefit.test, "") if benefit.groups is None else (benefit.groups, "groups of ")
    if small := {name: n for name, n in zip(benefit.names, tested.tolist(), strict=True) if n < FEW}:
        which = few([f"{site_of(benefit, name)}: {round(n, 1):g}" for name, n in small.items()])
        yield say("few-tested", "sites", {"samples": small}, what=what, which=which)
    sites = [site_of(benefit, name) for name in benefit.names]
    what = "class" if benefit.flat == constant_of("cross_entropy") else "value"
    beside = "groups of " * (benefit.groups is not None) + f"samples beside their most frequent {what}"
    rare, nothing = "test samples of the rarer class", f"one {what} only"
    if benefit.flat == constant_of("cox"):
        rare, beside, nothing = "test events", "events", "no event"
    if benefit.rarer is not None:
        held = dict(zip(sites, benefit.rarer.tolist(), strict=True))
        if which := with_few(held.items(), nothing):
            yield say("rare-class", "sites", {"samples": held}, rare=rare, which=which)
    if benefit.minority is not None and bool(benefit.one_sided.any()):
        held = dict(zip(sites, benefit.minority.tolist(), strict=True))
        which = with_few(held.items(), nothing)
        yield say("no-star", "sites", {"samples": held}, least=LEAST, beside=beside, which=which)
    lacking = benefit.scores["alone"].isnan().sum(0).tolist()  # number of splits
    some = {site: len(benefit.scores["alone"]) - n for site, n in zip(sites, lacking, strict=True) if n}
    if which := few([f"{site}: {n}" for site, n in some.items() if n]):
        numbers = {"splits": some, "of": len(benefit.scores["alone"]), "metric": benefit.metric}
        yield say("partly-defined", "sites", numbers, which=which)
    for name in dict.fromkeys(gain.site for gain in benefit.gains if gain.verdict == "not defined"):
        yield say("not-defined", name, {"metric": benefit.metric}, site=site_of(benefit, name))
