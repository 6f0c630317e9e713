"""`benefit_answer`: what sites gain by collaborating, in words, and what to do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphcollab._ranges import printable
from graphcollab.findings import Finding
from graphcollab.gains import Benefit, Gain
from graphcollab.gains.held import LEAST
from graphcollab.gains.outcome import LEVELS
from graphcollab.metrics import METRICS
from graphcollab.naming import few, setting
from graphcollab.report._terms import FEW, agreement, best_group, best_way, with_few
from graphcollab.report.benefit_table import (
    CLAIMED,
    GAINS,
    by_whom,
    gain_cell,
    mark,
    of_metric,
    scale_of,
    site_of,
    values_in,
)
from graphcollab.report.values import Column, bounded, cell_text, number, p_text, shown
from graphcollab.report.words import ADVICE, TEXTS, asked_of, explained, metric_in_words, metric_name, rows_used
from graphcollab.train.baseline import OWN
from graphcollab.train.constants import CONSTANTS, FREQUENCIES
from graphcollab.train.trial import SHARES

SHOWN = 8  # gains that are told one by one
MOST = 20  # times as many samples, beyond which no number is told
MOVES = {True: "rises", False: "falls"}
MODELS = {"alone": "alone", "pairs": "of pairs", "without": "of all but one"}


@shown
def benefit_answer(benefit: Benefit) -> str:
    """Answer in words: does collaborating help, whom, by whom, by how much, what could have been found, what to do."""
    return printable("\n".join(map(str, benefit_findings(benefit))))


def benefit_findings(benefit: Benefit, source: str = "") -> list[Finding]:
    """Return `benefit_answer` as findings; the last may be of code ``"advice"``, its subject a key of `ADVICE`."""
    every = (benefit, *benefit.also.values())
    level = benefit.level * len(every)
    return [
        *_question(benefit, source),
        *(_headline(one, len(every) > 1) for one in every),
        *_best(benefit),
        *_simpler(benefit),
        *_unfinished(benefit),
        _say("reading", "gains", {"level": level}, gains=GAINS[benefit.relative], chance=100 * level),
        *_means(benefit),
        *_groups(benefit),
        *_further(benefit),
        *_single(benefit),
        *(finding for one in every for finding in _constants(one, benefit)),
        *_chosen(benefit),
        *_units(benefit),
        *(finding for name in benefit.findings for finding in _weights(benefit, name)),
        *_samples(benefit),
        *(Finding("doubt", "tasks", f"Doubt about the data: {one}") for one in benefit.about.get("doubts", ())),
        *_advice(benefit),
    ]


def _say(code: str, subject: str, numbers: Mapping[str, Any], **words: object) -> Finding:
    return Finding(code, subject, TEXTS[code].format(**{**numbers, **words}), numbers)


def _unit(benefit: Benefit) -> str:
    """Return the unit of gains in a sentence."""
    return " %" if benefit.relative else " points" * (benefit.metric in SHARES)


def _question(benefit: Benefit, source: str) -> Iterator[Finding]:
    asked = asked_of(benefit.about, source) or f"{len(benefit.names)} sites."
    metric = metric_in_words(benefit.metric, benefit.higher_is_better)
    work = f", after {benefit.work}{rows_used(benefit.about)}" * bool(benefit.work)
    yield _say("question", "sites", {"sites": len(benefit.names)}, asked=asked, metric=metric, work=work)


def _best(benefit: Benefit) -> Iterator[Finding]:
    """Say in words what the best of all ways gains in the mean over sites."""
    if (best := best_way(benefit)) is None:
        return
    (scale, digits, _), sign = scale_of(benefit), 1 if best.gain >= 0 else -1
    low, high = sorted(sign * scale * end for end in (best.low, best.high))
    way = f"{explained(best.by, 'all together' if best.by == 'together' else '')}{mark(benefit, best.by)}"
    words = {"metric": metric_name(benefit.metric), "moves": MOVES[(sign > 0) == benefit.higher_is_better]}
    many = len(benefit.overall)
    words["way"] = f"Of {many} ways tried, {way} does best:" if many > 1 else f"By {way}"
    if many > 1 and sign < 0:
        words["way"] = f"None of {many} ways tried gains; by the least bad, {way},"
    write = bounded if benefit.relative else number
    words["told"] = f"{write(sign * scale * best.gain, digits)}{_unit(benefit)}"
    between = f" (95 % interval {write(low, digits)} … {write(high, digits)})" * (low == low)
    yield _say("best", best.by, {"gain": best.gain}, between=between, sure=_sure(benefit, best), **words)


def _headline(benefit: Benefit, several: bool) -> Finding:
    by = {verdict: [gain.by for gain in benefit.overall if gain.verdict == verdict] for verdict in CLAIMED}
    groups = [gain.site for gain in benefit.group_gains if gain.verdict == "gains"]
    single = [gain for gain in benefit.found if gain.site in benefit.names]
    sites = {verdict: [gain.site for gain in single if gain.verdict == verdict] for verdict in CLAIMED}
    ways = {verdict: " and ".join(map(by_whom, names)) for verdict, names in by.items()}
    cases = {
        f"Evidence that collaborating {ways['gains']} helps.": by["gains"],
        f"Evidence that {few(groups)} gain by collaborating without the others.": groups,
        "Evidence of gains at single sites.": sites["gains"],
        f"Evidence that collaborating {ways['loses']} harms.": by["loses"],
        "Evidence of losses at single sites.": sites["loses"],
    }
    said = [text for text, some in cases.items() if some]
    if all(gain.verdict == "not defined" for gain in benefit.overall):
        other = "; log_loss is defined everywhere" * (benefit.metric == "auc")
        said = [f"{benefit.metric} is not defined, so this says nothing{other}."]
    elif not (by["gains"] or groups or sites["gains"]):
        quick = f" This was a quick run, with {benefit.quick}." * bool(benefit.quick)
        said = [f"No evidence that collaborating helps.{quick}", *said]
    numbers = {**by, "groups": groups, "sites": sites}
    return Finding("evidence", benefit.metric, f"In {benefit.metric}: " * several + " ".join(said), numbers)


def _means(benefit: Benefit) -> Iterator[Finding]:
    for gain, weighted in zip(benefit.overall, benefit.by_samples, strict=True):
        by = f"{by_whom(gain.by)}{mark(benefit, gain.by)}"
        if benefit.untold(gain.by):
            yield _say("mean", gain.by, {"constants": True}, by=by, told="models have no part in it")
            continue
        numbers = {name: getattr(gain, name) for name in ("gain", "low", "high", "p_value", "detectable", "verdict")}
        numbers |= {"weighted": weighted.gain, "constants": benefit.by_constants(gain.by)}
        said = f"{_told(benefit, gain)}, weighted by test samples {_told(benefit, weighted)}. {_sure(benefit, gain)}"
        yield _say("mean", gain.by, numbers, by=by, told=said.removesuffix("."))


def _told(benefit: Benefit, gain: Gain) -> str:
    scale, digits, _ = scale_of(benefit)
    return cell_text(gain_cell(gain, scale), Column("", "gain", digits))


def _sure(benefit: Benefit, gain: Gain) -> str:
    scale, digits, _ = scale_of(benefit)
    if gain.verdict in CLAIMED:
        allowed = LEVELS["overall" if gain.site == "all sites" else "groups"] * benefit.level
        close = f"; up to {number(allowed, None)} counts as evidence" * (2 * gain.p_value > allowed)
        return f"There is evidence of that ({p_text(gain.p_value)}{close})."
    if gain.detectable == 0:
        return "All models did the same, so this says nothing: train for longer."
    if math.isnan(gain.detectable):
        alike = "The gain was the same on all splits, so how it varies is not known"
        return f"{alike}: try more of them, {setting(repeats=...)}."
    most = 1 - gain.alone if benefit.metric in SHARES and benefit.higher_is_better else 1
    if (benefit.relative or benefit.metric in SHARES) and gain.detectable >= most:
        return "That is no evidence, and four times out of five no gain would be found with so few samples or splits."
    least = f"{number(scale * gain.detectable, digits)}{_unit(benefit)}"
    return f"That is no evidence; a gain of {least} would have been found four times out of five."


def _groups(benefit: Benefit) -> Iterator[Finding]:
    """Tell of the group of all but one that gains most, of those that do better without that one."""
    best = best_group(benefit)
    if best is not None and best.gain > 0:
        numbers = {"gain": best.gain, "verdict": best.verdict}
        yield _say("group", best.site, numbers, site=best.site, told=_told(benefit, best), sure=_sure(benefit, best))


def _further(benefit: Benefit) -> Iterator[Finding]:
    for one in benefit.also.values():
        gains = "; ".join(f"{by_whom(gain.by)} {_told(one, gain)}" for gain in one.overall)
        numbers = {gain.by: gain.gain for gain in one.overall}
        what = f"{of_metric(one)}{', % of the error' * one.relative}"
        yield Finding("metric", one.metric, TEXTS["metric"].format(metric=what, told=gains), numbers)
    if benefit.also:
        yield _say("metrics", "metrics", {"metrics": 1 + len(benefit.also)})


def _single(benefit: Benefit) -> Iterator[Finding]:
    for verdict in CLAIMED:
        some = [gain for gain in benefit.found if gain.site in benefit.names and gain.verdict == verdict]
        for gain in some[:SHOWN]:
            by = by_whom(gain.by if gain.by in benefit.arms else site_of(benefit, gain.by))
            numbers = {"by": gain.by, "gain": gain.gain, "verdict": verdict}
            yield _say("site", gain.site, numbers, site=site_of(benefit, gain.site), by=by, told=_told(benefit, gain))
        if left := len(some[SHOWN:]):
            yield _say("more-sites", verdict, {"comparisons": left})


def _models(arm: str) -> str:
    return MODELS.get(arm, by_whom(arm))


def _constants(benefit: Benefit, first: Benefit) -> Iterator[Finding]:
    """Say where constants stood in the place of models, and which others do no better in the mean over sites."""
    for arm in ("alone", *benefit.arms, "pairs", "without") if benefit is first else ():
        chosen = benefit.chosen.get(arm, [])
        if flat := chosen.count(benefit.flat):
            numbers = {"splits": flat, "of": len(chosen)}
            yield _say("constants", arm, numbers, models=_models(arm), flat=benefit.flat)
    (scale, digits, _), said = values_in(benefit), set[str]()
    for code, gains in (("no-better", benefit.overall), ("no-better-weighted", benefit.by_samples)):
        worse = {arm: mean for arm, mean in _no_better(benefit, gains).items() if not benefit.by_constants(arm)}
        if {*worse} <= said:
            continue
        of_models = ", ".join(f"{_models(arm)} ({number(scale * mean, digits)})" for arm, mean in worse.items())
        words = {"metric": of_metric(benefit), "of_models": of_models, "flat": benefit.flat}
        words["told"] = number(scale * gains[0].constant, digits)
        yield _say(code, benefit.metric, {"models": worse, "constant": gains[0].constant}, **words)
        said |= {*worse}


def _chosen(benefit: Benefit) -> Iterator[Finding]:
    """Say which of several models were chosen how often, where the mean over sites is of them."""
    counts = {arm: Counter(filter(None, benefit.models.get(arm, ()))) for arm in ("alone", *benefit.arms)}
    splits = len(benefit.scores["alone"])
    told = [
        f"{_models(arm)}: {', '.join(f'{name} on {many} of {splits} splits' for name, many in count.most_common())}"
        for arm, count in counts.items()
        if count
    ]
    if told:
        yield _say("models", "models", {arm: dict(count) for arm, count in counts.items()}, told="; ".join(told))


def _unfinished(benefit: Benefit) -> Iterator[Finding]:
    """Say of which models the last round was the best on half of the splits or more."""
    arms, of = ("alone", *benefit.arms), len(benefit.scores["alone"])
    rounds = {arm: [one[-1] for one in benefit.picked.get(arm, ()) if one is not None] for arm in arms}
    most = max(map(max, filter(None, rounds.values())), default=0)
    splits = {arm: last for arm, many in rounds.items() if 2 * (last := many.count(most)) >= of}
    if most > 1 and splits:
        models = ", ".join(f"{_models(arm)} (on {last} of {of} splits)" for arm, last in splits.items())
        numbers = {"splits": splits, "of": of, "rounds": most}
        yield _say("last-round", "rounds", numbers, models=models, setting=setting(rounds=...))


def _no_better(benefit: Benefit, gains: Sequence[Gain]) -> dict[str, float]:
    """Return the mean metric over sites, training alone and by each arm, where it is no better than constants'."""
    every = {"alone": gains[0].alone} | {gain.by: gain.score for gain in gains}
    sign, flat = 1 if benefit.higher_is_better else -1, gains[0].constant
    return {arm: mean for arm, mean in every.items() if sign * mean <= sign * flat}


def _units(benefit: Benefit) -> Iterator[Finding]:
    judged = [one.metric for one in (benefit, *benefit.also.values()) if one.metric in METRICS]
    named = {metric: METRICS[metric].unit for metric in judged if METRICS[metric].unit}
    if benefit.deviation is not None and named:
        name, deviation = benefit.deviation
        units = " and ".join(f"{metric} in {'squares of ' * (power > 1)}the unit" for metric, power in named.items())
        words = {"units": units, "column": name, "told": number(deviation, None)}
        yield _say("standardized", f"column {name!r}", {"deviation": deviation, "metrics": [*named]}, **words)
    if benefit.weighted:
        yield _say("weighted", "samples", {})


def _weights(benefit: Benefit, method: str) -> Iterator[Finding]:
    """Say what the weights of a method are worth: found wrong, or different on every split."""
    kinds = [kind for kinds in benefit.findings[method] for kind in kinds.split(", ") if kind]
    for kind in dict.fromkeys(kinds):
        numbers = {"kind": kind, "splits": kinds.count(kind), "of": len(benefit.findings[method])}
        yield _say("weights-wrong", method, numbers, method=method)
    alike = benefit.agreement(method) if method in benefit.weights else math.nan
    if not math.isnan(alike):
        yield agreement(method, alike, "splits")


def _samples(benefit: Benefit) -> Iterator[Finding]:
    tried, there = benefit.tried
    if tried < there:
        left = int((~benefit.without.isnan()).any(0).any(0).sum())
        yield _say("pairs-drawn", "limit", {"tried": tried, "pairs": there, "left_out": left})
    tested, what = (benefit.test, "") if benefit.groups is None else (benefit.groups, "groups of ")
    if small := {name: n for name, n in zip(benefit.names, tested.tolist(), strict=True) if n < FEW}:
        which = few([f"{site_of(benefit, name)}: {round(n, 1):g}" for name, n in small.items()])
        yield _say("few-tested", "sites", {"samples": small}, what=what, which=which)
    sites = [site_of(benefit, name) for name in benefit.names]
    what = "class" if benefit.flat == FREQUENCIES else "value"
    beside = "groups of " * (benefit.groups is not None) + f"samples beside their most frequent {what}"
    rare, nothing = "test samples of the rarer class", f"one {what} only"
    if benefit.flat == CONSTANTS["cox"]:
        rare, beside, nothing = "test events", "events", "no event"
    if benefit.rarer is not None:
        held = dict(zip(sites, benefit.rarer.tolist(), strict=True))
        if which := with_few(held.items(), nothing):
            yield _say("rare-class", "sites", {"samples": held}, rare=rare, which=which)
    if benefit.minority is not None and bool(benefit.one_sided.any()):
        held = dict(zip(sites, benefit.minority.tolist(), strict=True))
        which = with_few(held.items(), nothing)
        yield _say("no-star", "sites", {"samples": held}, least=LEAST, beside=beside, which=which)
    for name in dict.fromkeys(gain.site for gain in benefit.gains if gain.verdict == "not defined"):
        yield _say("not-defined", name, {"metric": benefit.metric}, site=site_of(benefit, name))


def _simpler(benefit: Benefit) -> Iterator[Finding]:
    """Tell where a simple tool at each site does better than training alone, or one in one place than every way."""
    simple, ours = {gain.by: gain for gain in benefit.by_baseline}, best_way(benefit)
    if OWN in simple and simple[OWN].low > 0 and ours is not None:
        gain = next(one for one in benefit.against(OWN).overall if one.by == ours.by)
        words = {"told": _told(benefit, simple[OWN]), "by": by_whom(ours.by), "beyond": _told(benefit, gain)}
        yield _say("alone-weak", OWN, {"gain": gain.gain}, own=explained(OWN), **words)
    best = max(filter(None, [ours, *simple.values()]), key=lambda gain: gain.gain, default=None)
    if best is not None and best.by in simple and best.low > 0:
        yield _say("simpler", best.by, {"gain": best.gain}, by=explained(best.by), told=_told(benefit, best))


def _advice(benefit: Benefit) -> Iterator[Finding]:
    def so(what: str, words: Mapping[str, object] | None = None, **numbers: object) -> Finding:
        return Finding("advice", what, ADVICE[what].format(**{**numbers, **(words or {})}), numbers)

    def leave_out(group: Gain) -> Finding:
        site = site_of(benefit, group.site.removeprefix("all but "))
        return so("leave-out", {"site": site}, alone=[site])

    overall, groups = benefit.overall, [gain for gain in benefit.group_gains if gain.verdict == "gains"]
    best, group = best_way(benefit), best_group(benefit)
    stood = [arm for arm in ("alone", *benefit.arms) if benefit.untold(arm)]
    if not (stood or benefit.quick) and len(useless := _no_better(benefit, overall)) > len(overall):  # whatever they do
        stood = [*useless]
    tested, harm = [gain for gain in overall if gain.detectable > 0], any(g.verdict == "loses" for g in overall)
    if best is not None and best.verdict == "gains":
        worse = [site_of(benefit, g.site) for g in benefit.gains if g.by == best.by and g.verdict == "loses"]
        but = f"; but train {few(worse)} alone, where there is evidence of a loss" * bool(worse)
        yield so("collaborate", {"by": by_whom(best.by), "but": but}, by=best.by, alone=worse)
    elif groups:
        yield leave_out(max(groups, key=lambda gain: gain.gain))
    elif any(one.helps for one in (benefit, *benefit.also.values())):
        yield so("starred")
    elif harm and not benefit.quick:
        yield leave_out(group) if group is not None and group.low > 0 else so("alone")  # by its own interval
    elif stood and not harm:
        words = {"which": " and ".join(map(_models, stood)), "flat": benefit.flat}
        yield so("longer", words | {name: setting(**{name: ...}) for name in ("rounds", "lrs")}, models=stood)
    elif benefit.quick:
        yield so("again", quick=benefit.quick)
    elif tested and all(gain.high <= 0 for gain in tested):
        yield so("alone")
    elif tested:
        every = [((gain.detectable / gain.gain) ** 2, by_whom(gain.by)) for gain in tested if gain.gain > 0]
        times, by = min(every, default=(math.inf, ""))  # as noise falls with the square root of their number
        many = "more"
        if times <= MOST:
            many = f"about {math.ceil(times)} times as many (for the gain {by}, if it is as it seems)"
        yield so("undecided", {"many": many}, times=times)
