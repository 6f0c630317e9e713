"""`benefit_answer`: what sites gain by collaborating, in words, and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable

from graphcollab.gains import Benefit, Gain
from graphcollab.gains.constant import CONSTANTS
from graphcollab.gains.held import LEAST
from graphcollab.naming import few
from graphcollab.report._gains import (
    CLAIMED,
    CONSTANT,
    bounded,
    by_whom,
    claim,
    mark,
    mean_of,
    models,
    of_metric,
    scale_of,
    site_of,
    told,
)
from graphcollab.report._text import FEW, agreement, below, number, shown, with_few

__all__ = ["NO_STAR", "benefit_answer"]

IN_UNITS = ("mae", "rmse")
MANY = 1000  # times as many samples, from which on no estimate is told
NEW_ROWS = " (with new rows if you can, since these have shown which site to leave out)"
NO_STAR = "No star at sites"
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
    scale, digits, _ = scale_of(benefit)
    every = (benefit, *benefit.also.values())
    chance = f"{100 * benefit.level * len(every):.3g} %"
    lines = [
        f"{len(benefit.names)} sites, {of_metric(benefit)}, {benefit.work}. {GAINS[benefit.relative]}, with 95 % "
        f"intervals of each by itself. A star is evidence: the chance that any is wrong is at most {chance}.",
        *(_headline(one, len(every) > 1) for one in every),
    ]
    for gain, weighted in zip(benefit.overall, benefit.by_samples, strict=True):
        if benefit.untold(gain.by):
            lines.append(f"In the mean over sites, {by_whom(gain.by)}{CONSTANT}: models have no part in it.")
            continue
        lines.append(
            f"In the mean over sites, {by_whom(gain.by)}{mark(benefit, gain.by)}: {told(gain, scale, digits)}, "
            f"weighted by test samples {told(weighted, scale, digits)}. {_means(gain, benefit)}"
        )
    lines.append(_groups(benefit))
    for one in benefit.also.values():
        of_one = scale_of(one)[:2]
        means = "; ".join(f"{by_whom(gain.by)} {told(gain, *of_one)}" for gain in one.overall)
        said = "a star is evidence" if any(gain.verdict in CLAIMED for gain in one.overall) else "no evidence"
        lines.append(f"In {of_metric(one)}{', % of the error' * one.relative}, mean over sites: {means}: {said}.")
    if benefit.also:
        lines.append(
            f"With {len(every)} metrics each is judged more strictly, so that the chance of a wrong star stays the "
            "same: fewer metrics need less evidence."
        )
    lines += _single(benefit)
    lines += _stood(benefit)
    lines += [_no_better(one) for one in every]
    lines += _about(benefit)
    lines.append(_next(benefit))
    return below("\n".join(line for line in lines if line))


def _headline(benefit: Benefit, several: bool) -> str:
    """Say whether there is evidence of anything, in one metric of several or the only one."""
    where = f"In {benefit.metric}: " * several
    by = {verdict: [gain.by for gain in benefit.overall if gain.verdict == verdict] for verdict in CLAIMED}
    helped = [gain.site for gain in benefit.group_gains if gain.verdict == "gains"]
    single = [gain for gain in benefit.found if gain.site in benefit.names]
    said = []
    if all(gain.verdict == "not defined" for gain in benefit.overall):
        hint = "; metrics='log_loss' is defined everywhere" * (benefit.metric == "auc")
        return f"{where}It cannot be said whether collaborating helps: {benefit.metric} is not defined{hint}."
    if by["gains"]:
        said.append(f"Evidence that collaborating {_ways(by['gains'])} helps.")
    if helped and not by["gains"]:
        alone = [site.removeprefix("all but ") for site in helped]
        if len(helped) == 1:
            said.append(f"Evidence that {helped[0]} gain by collaborating without it.")
        else:
            said.append(f"Evidence that the others gain by collaborating without one of {few(alone)}.")
    if not said and any(gain.verdict == "gains" for gain in single):
        said.append("Evidence that some sites gain by collaborating, and none that all do in the mean.")
    if by["loses"]:
        ways = "" if by["loses"] == list(benefit.arms) else f" {_ways(by['loses'])}"
        nothing = "" if said else f", and none that {'anything' if ways else 'it'} helps"
        said.append(f"Evidence that collaborating{ways} harms{nothing}.")
    elif not said:
        lost = " There is evidence that some sites lose by it." * any(gain.verdict == "loses" for gain in single)
        said.append(f"No evidence that collaborating helps.{lost}")
    return where + " ".join(said)


def _ways(names: Iterable[str]) -> str:
    return " and ".join(map(by_whom, names))


def _groups(benefit: Benefit) -> str:
    """Tell of the group of all but one that gains most, where it gains more than all together."""
    together = next((gain.gain for gain in benefit.overall if gain.by == "together"), math.nan)
    best = _best_group(benefit)
    if best is None or not best.gain > max(together, 0):
        return ""
    scale, digits, _ = scale_of(benefit)
    return (
        f"Of the groups of all but one, {best.site} together gain most: {told(best, scale, digits)} in the mean over "
        f"them. {_means(best, benefit)}"
    )


def _spoiled(benefit: Benefit) -> Gain | None:
    """Return what all but one gain together, if that is likely by its own interval."""
    best = _best_group(benefit)
    return best if best is not None and best.low > 0 else None


def _best_group(benefit: Benefit) -> Gain | None:
    gains = [] if benefit.by_constants("without") else benefit.group_gains
    return max(gains, key=lambda gain: gain.gain, default=None)


def _single(benefit: Benefit) -> list[str]:
    """Tell what there is evidence of at single sites."""
    lines = []
    for verdict in CLAIMED:
        some = [gain for gain in benefit.found if gain.site in benefit.names and gain.verdict == verdict]
        lines += [claim(benefit, gain) for gain in some[:SHOWN]]
        if (left := len(some) - SHOWN) > 0:
            lines.append(f"The same holds for {left} more comparison{'s' * (left > 1)}.")
    return lines


def _stood(benefit: Benefit) -> list[str]:
    """Say where constants stood in the place of models that did no better."""
    lines = []
    for arm in ("alone", *benefit.arms, "pairs", "without"):
        chosen = benefit.chosen.get(arm, [])
        if flat := chosen.count(benefit.flat):
            lines.append(f"On {flat} of {len(chosen)} splits models {models(arm)} did no better than {benefit.flat}.")
    if lines and benefit.flat:
        sign = f"{CONSTANT}: " * any(map(benefit.by_constants, benefit.arms))
        lines.append(f"{sign}There {benefit.flat} of each site took the place of these models.")
    return lines


def _no_better(benefit: Benefit) -> str:
    """Say which models do no better than constants in the mean over sites, beside those for which constants stood."""
    first = benefit.overall[0]
    means = {"alone": first.alone} | {gain.by: gain.score for gain in benefit.overall}
    worse = {
        arm: mean
        for arm, mean in means.items()
        if (mean <= first.constant if benefit.higher_is_better else mean >= first.constant)
        and not benefit.by_constants(arm)
    }
    if not worse:
        return ""
    of_models = ", ".join(f"{models(arm)} ({mean_of(benefit, mean)})" for arm, mean in worse.items())
    return (
        f"In {of_metric(benefit)}, mean over sites, models {of_models} do no better than {benefit.flat} of each site "
        f"({mean_of(benefit, first.constant)}), so gains of such models are not counted."
    )


def _about(benefit: Benefit) -> list[str]:
    """Say what the reader should know of targets, weights, pairs and samples."""
    lines = []
    every = (benefit, *benefit.also.values())
    if benefit.deviation is not None and (of_values := [one.metric for one in every if one.metric in IN_UNITS]):
        name, deviation = benefit.deviation
        lines.append(
            f"Targets were standardised: {' and '.join(of_values)} in standard deviations of {name!r} (one is about "
            f"{number(deviation, None)})."
        )
    lines.append("Samples have weights: metrics are weighted means at each site." * benefit.weighted)
    lines += [line for name in benefit.findings for line in _weights(benefit, name)]
    tried, there = benefit.tried
    if tried < there:
        left = int((~benefit.without.isnan()).any(0).any(0).sum())
        lines.append(
            f"Of {there} pairs {tried} were tried, as many for every site, and {left} sites were left out in turn."
        )
    held, what = (benefit.test, "") if benefit.groups is None else (benefit.groups, "groups of ")
    small = [(name, many) for name, many in zip(benefit.names, held.tolist(), strict=True) if many < FEW]
    if small:
        said = ", ".join(f"{site_of(benefit, name)}: {round(many, 1):g}" for name, many in small)
        if len(small) == len(benefit.names) and len({many for _, many in small}) == 1:
            said = f"each of the {len(small)} sites has {round(small[0][1], 1):g}"
        lines.append(
            f"Few {what}test samples on a split ({said}): what is measured there is mostly chance, and means over "
            "sites suffer from it."
        )
    sites = [site_of(benefit, name) for name in benefit.names]
    if benefit.rarer is not None and (rare := with_few(zip(sites, benefit.rarer.tolist(), strict=True))):
        lines.append(
            f"Few test samples of the rarer class on a split ({rare}): be wary of what is said of such sites, and of "
            "means, above all by auc."
        )
    if benefit.minority is not None and bool(benefit.one_sided.any()):
        what = "value" if benefit.flat == CONSTANTS["mse"] else "class"
        lines.append(
            f"{NO_STAR} with fewer than {LEAST} samples beside their most frequent {what} "
            f"({with_few(zip(sites, benefit.minority.tolist(), strict=True), what)}): no split of these shows what the "
            "sites lack."
        )
    undefined = [gain for gain in benefit.gains if gain.verdict == "not defined"]
    for name in dict.fromkeys(gain.site for gain in undefined):
        lines.append(f"{site_of(benefit, name)}: {benefit.metric} is not defined on its test samples in any split.")
    return lines


def _weights(benefit: Benefit, method: str) -> list[str]:
    """Say what the weights of a method are worth: found wrong, or different on every split."""
    many = len(benefit.findings[method])
    kinds = [kind for kinds in benefit.findings[method] for kind in kinds.split(", ") if kind]
    lines = [
        f"{method} ended with {WRONG.get(kind, kind)} on {kinds.count(kind)} of {many} splits."
        for kind in dict.fromkeys(kinds)
    ]
    alike = benefit.agreement(method) if method in benefit.weights else math.nan
    return [
        *lines,
        *([] if math.isnan(alike) else [f"On different splits the weights that {method} learned {agreement(alike)}."]),
    ]


def _next(benefit: Benefit) -> str:
    """Say what to do: by what to collaborate, or without evidence what would tell."""
    if found := [gain for gain in benefit.overall if gain.verdict == "gains"]:
        best = max(found, key=lambda gain: gain.gain)
        worse = [site_of(benefit, g.site) for g in benefit.gains if g.by == best.by and g.verdict == "loses"]
        return (
            f"So let them collaborate {by_whom(best.by)}{', which of these gains most' * (len(found) > 1)}"
            + f"; but train {few(worse)} alone, where there is evidence of a loss" * bool(worse)
            + "."
        )
    if groups := [gain for gain in benefit.group_gains if gain.verdict == "gains"]:
        best = max(groups, key=lambda gain: gain.gain)
        site = best.site.removeprefix("all but ")
        return (
            f"So let {best.site} collaborate, and train {site_of(benefit, site)} alone. Ask again without it for what "
            f"the others gain by each other{NEW_ROWS}."
        )
    if any(one.helps for one in (benefit, *benefit.also.values())):
        return "So collaborate where a star says that a site gains, by what it gains by; for the others train alone."
    harmful = any(gain.verdict == "loses" for gain in benefit.overall)
    if harmful and benefit.quick:
        return (
            f"But this was a quick run ({benefit.quick}), whose models may have learned too little: ask again with the "
            "usual numbers before you decide."
        )
    if harmful:
        if (spoiled := _spoiled(benefit)) is None:
            return "So train alone."
        site = site_of(benefit, spoiled.site.removeprefix("all but "))
        return (
            f"So do not let all collaborate. Ask again without {site}, which seems to spoil the group: the others may "
            f"gain by each other{NEW_ROWS}."
        )
    if stood := [arm for arm in ("alone", *benefit.arms) if benefit.untold(arm)]:
        of_models = " and ".join(map(models, stood))
        return (
            f"So nothing can be said yet: models {of_models} learned no more than {benefit.flat}. Train for longer, "
            "rounds=..., or by larger steps, lrs=...; if that changes nothing, what they are given may tell nothing of "
            "the target."
        )
    if benefit.quick:
        return f"So nothing is decided: this was a quick run ({benefit.quick}). Ask again with the usual numbers first."
    tested = [gain for gain in benefit.overall if gain.detectable > 0]
    if not tested:
        return ""
    if all(gain.high <= 0 for gain in tested):
        return "So train alone."
    said = "So this is undecided, which is not a no. Until more is known train alone, or ask again with more samples"
    times = {gain.by: _times_as_many(gain, benefit.relative) for gain in tested}
    best = min(tested, key=lambda gain: times[gain.by])
    if not times[best.by] < MANY:
        return f"{said}."
    scale, digits, _ = scale_of(benefit)
    return (
        f"{said}: if the gain {by_whom(best.by)} is indeed {bounded(best.gain, scale, digits)}, it would take about "
        f"{float(f'{times[best.by]:.2g}'):g} times as many to find it (an estimate: what can be found shrinks with the "
        "square root of their number)."
    )


def _times_as_many(gain: Gain, relative: bool) -> float:
    """Estimate how many times as many samples it would take to find a gain; infinity where there seems to be none."""
    if not (math.isfinite(gain.gain) and math.isfinite(gain.detectable) and 0 < gain.gain < gain.detectable):
        return math.inf
    seen, needed = (-math.log1p(-one) if relative else one for one in (gain.gain, gain.detectable))
    return (needed / seen) ** 2


def _means(gain: Gain, benefit: Benefit) -> str:
    """Say what that means, and what could have been detected."""
    scale, digits, _ = scale_of(benefit)
    if gain.verdict in CLAIMED:
        return f"There is evidence of that (p = {gain.p_value:.2g})."
    if gain.detectable == 0:
        return "All models did the same, so this says nothing: train for longer."
    if math.isnan(gain.detectable):
        return "The gain was the same on all splits, so how it varies is not known: try more of them, repeats=..."
    if scale > 1 and gain.detectable >= 1:  # of shares
        return "That is no evidence, and with so few samples no gain would have been found four times out of five."
    unit = " %" if benefit.relative else " points" if scale > 1 else ""
    return (
        f"That is no evidence; a gain of {number(scale * gain.detectable, digits)}{unit} would have been found four "
        "times out of five."
    )
