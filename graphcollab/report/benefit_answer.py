"""`benefit_answer`: which sites gain by collaborating, in words, with advice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from graphcollab._base.findings import Finding
from graphcollab._base.naming import few, setting
from graphcollab._base.ranges import printable
from graphcollab.analysis import Benefit, Gain
from graphcollab.analysis.baseline import OWN
from graphcollab.analysis.outcome import LEVELS
from graphcollab.analysis.trial import SHARES
from graphcollab.report._terms import best_group, best_way
from graphcollab.report.benefit_details import (
    models_in,
    no_better,
    of_chosen,
    of_constants,
    of_last_rounds,
    of_samples,
    of_units,
    of_weights,
)
from graphcollab.report.benefit_table import (
    CLAIMED,
    GAINS,
    by_whom,
    gain_cell,
    mark,
    of_metric,
    scale_of,
    site_of,
)
from graphcollab.report.values import number, p_text, shown
from graphcollab.report.words import ADVICE, TEXTS, asked_of, explained, metric_in_words, metric_name, rows_used, say

SHOWN = 8  # number of gains reported individually
MOST = 20  # multiple of the samples above which no number is reported
MOVES = {True: "rises", False: "falls"}


@shown
def benefit_answer(benefit: Benefit) -> str:
    """Answer in words whether collaborating helps, whom, with whom, by how much, what is detectable, and what to do."""
    return printable("\n".join(map(str, benefit_findings(benefit))))


def benefit_findings(benefit: Benefit, source: str = "") -> list[Finding]:
    """Return `benefit_answer` as findings; the last may have code ``"advice"``, with a key of `ADVICE` as subject."""
    every = (benefit, *benefit.also.values())
    level = benefit.level * len(every)
    return [
        *_question(benefit, source),
        *(_headline(one, len(every) > 1) for one in every),
        *_best(benefit),
        *_swayed(benefit),
        *_simpler(benefit),
        *of_last_rounds(benefit),
        say("reading", "gains", {"level": level}, gains=GAINS[benefit.relative], chance=100 * level),
        *_means(benefit),
        *_groups(benefit),
        *_further(benefit),
        *_single(benefit),
        *(finding for one in every for finding in of_constants(one, benefit)),
        *of_chosen(benefit),
        *of_units(benefit),
        *(finding for name in benefit.findings for finding in of_weights(benefit, name)),
        *of_samples(benefit),
        *(Finding("doubt", "tasks", f"Doubt about the data: {one}") for one in benefit.about.get("doubts", ())),
        *_advice(benefit),
    ]


def _unit(benefit: Benefit) -> str:
    """Return the unit of gains for use in a sentence."""
    return " %" if benefit.relative else " points" * (benefit.metric in SHARES)


def _question(benefit: Benefit, source: str) -> Iterator[Finding]:
    asked = asked_of(benefit.about, source) or f"{len(benefit.names)} sites."
    metric = metric_in_words(benefit.metric, benefit.higher_is_better)
    work = f", after {benefit.work}{rows_used(benefit.about)}" * bool(benefit.work)
    yield say("question", "sites", {"sites": len(benefit.names)}, asked=asked, metric=metric, work=work)


def _best(benefit: Benefit) -> Iterator[Finding]:
    """Report the mean gain over sites of the best way to train."""
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
    words["told"] = f"{number(sign * scale * best.gain, digits)}{_unit(benefit)}"
    between = f" (95 % interval {number(low, digits)} … {number(high, digits)})" * (low == low)
    yield say("best", best.by, {"gain": best.gain}, between=between, sure=_sure(benefit, best), **words)


def _swayed(benefit: Benefit) -> Iterator[Finding]:
    """Report a site with few samples that widens the interval of the best mean gain by at least half."""
    best, count = best_way(benefit), len(benefit.names)
    if best is None or best.verdict != "no evidence" or count < 3 or best.by not in benefit.arms:
        return
    others = benefit.test.new_ones(count, count).fill_diagonal_(0)
    gains = [one for weight in others for one in benefit.mean_gains(weight, (best.by,))]
    wide = [one.high - one.low for one in gains]
    k = min(range(count), key=lambda k: math.inf if math.isnan(wide[k]) else wide[k])
    if 1.5 * wide[k] < best.high - best.low:
        rows, told = number(float(benefit.test[k]), 0), _told(benefit, gains[k])
        numbers = {"gain": gains[k].gain, "low": gains[k].low, "high": gains[k].high}
        yield say("swayed", benefit.names[k], numbers, site=site_of(benefit, benefit.names[k]), rows=rows, told=told)


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
        other = "; log loss is defined everywhere" * (benefit.metric == "auc")
        said = [f"{metric_name(benefit.metric)} is not defined, so this says nothing{other}."]
    elif not (by["gains"] or groups or sites["gains"]):
        quick = f" This was a quick run, with {benefit.quick}." * bool(benefit.quick)
        said = [f"No evidence that collaborating helps.{quick}", *said]
    numbers = {**by, "groups": groups, "sites": sites}
    return Finding(
        "evidence", benefit.metric, f"In {metric_name(benefit.metric)}: " * several + " ".join(said), numbers
    )


def _means(benefit: Benefit) -> Iterator[Finding]:
    for gain, weighted in zip(benefit.overall, benefit.by_samples, strict=True):
        by = f"{by_whom(gain.by)}{mark(benefit, gain.by)}"
        if benefit.untold(gain.by):
            yield say("mean", gain.by, {"constants": True}, by=by, told="models have no part in it")
            continue
        numbers = {name: getattr(gain, name) for name in ("gain", "low", "high", "p_value", "detectable", "verdict")}
        numbers |= {"weighted": weighted.gain, "constants": benefit.by_constants(gain.by)}
        said = f"{_told(benefit, gain)}, weighted by test samples {_told(benefit, weighted)}. {_sure(benefit, gain)}"
        yield say("mean", gain.by, numbers, by=by, told=said.removesuffix("."))


def _told(benefit: Benefit, gain: Gain) -> str:
    return gain_cell(benefit, gain).text


def _sure(benefit: Benefit, gain: Gain) -> str:
    scale, digits, _ = scale_of(benefit)
    family = LEVELS["overall" if gain.site == "all sites" else "groups"]
    level, adjusted = benefit.level * (1 + len(benefit.also)), min(1.0, gain.p_value * (1 + len(benefit.also)) / family)
    rivals = [benefit.flat] * (gain.constant == gain.constant) + [name for name in benefit.baseline if name == OWN]
    over = f" of a gain over {', over '.join(['training alone', *rivals])}" * (bool(rivals) and gain.gain > 0)
    near = f" ({p_text(adjusted)}{over}, corrected for all comparisons; below {number(level, None)} is evidence)"
    near *= level < 2 * adjusted < 6 * level or (gain.verdict not in CLAIMED and gain.low * gain.high > 0)
    if gain.verdict in CLAIMED:
        return f"There is evidence of that{near or f' ({p_text(adjusted)})'}."
    if gain.detectable == 0:
        finer = f"judge by a finer metric, {setting(metric='brier')}, or " * (benefit.metric == "accuracy")
        return f"All models did the same, so this says nothing: {finer}train for longer."
    if math.isnan(gain.detectable):
        alike = "The gain was the same on all splits, so how it varies is not known"
        return f"{alike}: try more of them, {setting(repeats=...)}."
    most = 1 - gain.alone if benefit.metric in SHARES and benefit.higher_is_better else 1
    if (benefit.relative or benefit.metric in SHARES) and gain.detectable >= most:
        few_samples = "four times out of five no gain would be found with so few samples or splits"
        return f"That is no evidence{near}, and {few_samples}."
    least = f"{number(scale * gain.detectable, digits)}{_unit(benefit)}"
    return f"That is no evidence{near}; a gain of {least} would have been found four times out of five."


def _size(benefit: Benefit, gain: float) -> float:
    """Return a gain on the scale of its interval, the log ratio for errors."""
    if not benefit.relative:
        return gain
    return math.inf if gain >= 1 else -math.log1p(-gain)


def _groups(benefit: Benefit) -> Iterator[Finding]:
    """Report the group of all sites but one that gains most, among those that do better without that site."""
    best = best_group(benefit)
    if best is not None and best.gain > 0:
        numbers = {"gain": best.gain, "verdict": best.verdict}
        yield say("group", best.site, numbers, site=best.site, told=_told(benefit, best), sure=_sure(benefit, best))


def _further(benefit: Benefit) -> Iterator[Finding]:
    for one in benefit.also.values():
        gains = "; ".join(f"{by_whom(gain.by)} {_told(one, gain)}" for gain in one.overall)
        numbers = {gain.by: gain.gain for gain in one.overall}
        what = f"{of_metric(one)}{', % of the error' * one.relative}"
        yield Finding("metric", one.metric, TEXTS["metric"].format(metric=what, told=gains), numbers)
    if benefit.also:
        yield say("metrics", "metrics", {"metrics": 1 + len(benefit.also)})


def _single(benefit: Benefit) -> Iterator[Finding]:
    for verdict in CLAIMED:
        some = [gain for gain in benefit.found if gain.site in benefit.names and gain.verdict == verdict]
        for gain in some[:SHOWN]:
            by = by_whom(gain.by if gain.by in benefit.arms else site_of(benefit, gain.by))
            numbers = {"by": gain.by, "gain": gain.gain, "verdict": verdict}
            yield say("site", gain.site, numbers, site=site_of(benefit, gain.site), by=by, told=_told(benefit, gain))
        if left := len(some[SHOWN:]):
            yield say("more-sites", verdict, {"comparisons": left})


def _simpler(benefit: Benefit) -> Iterator[Finding]:
    """Report if a baseline at each site beats training alone, or if a pooled baseline beats every way to train."""
    simple, ours = {gain.by: gain for gain in benefit.by_baseline}, best_way(benefit)
    if OWN in simple and simple[OWN].low > 0 and ours is not None:
        gain = next(one for one in benefit.against(OWN).overall if one.by == ours.by)
        words = {"told": _told(benefit, simple[OWN]), "by": by_whom(ours.by), "beyond": _told(benefit, gain)}
        yield say("alone-weak", OWN, {"gain": gain.gain}, own=explained(OWN), **words)
    best = max(filter(None, [ours, *simple.values()]), key=lambda gain: gain.gain, default=None)
    if best is not None and best.by in simple and best.low > 0:
        yield say("simpler", best.by, {"gain": best.gain}, by=explained(best.by), told=_told(benefit, best))


def _advice(benefit: Benefit) -> Iterator[Finding]:
    def so(what: str, words: Mapping[str, object] | None = None, **numbers: object) -> Finding:
        return Finding("advice", what, ADVICE[what].format(**{**numbers, **(words or {})}), numbers)

    def leave_out(group: Gain) -> Finding:
        site = site_of(benefit, group.site.removeprefix("all but "))
        return so("leave-out", {"site": site}, alone=[site])

    overall, groups = benefit.overall, [gain for gain in benefit.group_gains if gain.verdict == "gains"]
    best, group = best_way(benefit), best_group(benefit)
    stood = [arm for arm in ("alone", *benefit.arms) if benefit.untold(arm)]
    if not (stood or benefit.quick) and len(useless := no_better(benefit, overall)) > len(overall):  # with any arm
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
        yield leave_out(group) if group is not None and group.low > 0 else so("alone")  # judged by its own interval
    elif stood and not harm:
        words = {"which": " and ".join(map(models_in, stood)), "flat": benefit.flat}
        yield so("longer", words | {name: setting(**{name: ...}) for name in ("rounds", "lrs")}, models=stood)
    elif benefit.quick:
        ways = " and ".join(by_whom(gain.by) for gain in overall if gain.verdict == "loses")
        yield so("again", {"but": f", except that collaborating {ways} harms" * harm}, quick=benefit.quick)
    elif tested and all(gain.high <= 0 for gain in tested):
        yield so("alone")
    elif tested:
        sizes = [(_size(benefit, one.detectable), _size(benefit, one.gain), one) for one in tested if one.gain > 0]
        every = [((needed / found) ** 2, by_whom(one.by)) for needed, found, one in sizes]
        times, by = min(every, default=(math.inf, ""))  # since noise decreases with the square root of their number
        many = "more"
        if times <= MOST:
            many = f"about {math.ceil(times)} times as many (for the gain {by}, if it is as it seems)"
        # The whole level, of which means have only a share, or the interval of this comparison alone
        if best is not None and best.gain > 0 and (best.p_value <= benefit.level or best.low > 0):
            yield so("likely", {"many": many, "way": by_whom(best.by)}, times=times, by=best.by)
        else:
            yield so("undecided", {"many": many}, times=times)
