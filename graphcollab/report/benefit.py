"""What sites gain by collaborating: an answer in words, and a table of sites."""

from __future__ import annotations

import math
from collections.abc import Iterable

from graphcollab.gains import Benefit, Gain
from graphcollab.naming import few, numbered
from graphcollab.report._text import FEW, MISSING, agreement, below, number, shown, shown_in, text_table
from graphcollab.train.trial import SHARES

__all__ = ["benefit_answer", "benefit_table"]

CONSTANT = "†"  # marks gains of constants that stand for models
IN_UNITS = ("mae", "rmse")
MANY = 1000  # times as many samples, from which on no estimate is told
SHOWN = 8  # gains that are told one by one
FLOOR = -200.0  # percent; of an error that has more than trebled it is told how many times as large it is
GAINS = {
    False: "Gains are differences to training alone, positive where that is better",
    True: "Gains say by how many percent the error of training alone falls",
}
WRONG = {
    "own model only": "all weight on own models, which is local training,",
    "one model only": "all weight on single models",
    "uniform weights": "uniform weights, which is averaging,",
    "still equal weights": "weights that were still equal after so few rounds, and say nothing of who helps whom,",
}


@shown
def benefit_answer(benefit: Benefit) -> str:
    """Answer in words: does collaborating help, whom, by whom and by how much, and what could have been detected.

    Args:
        benefit: What `graphcollab.benefit` found.
    """
    scale, digits, _ = scale_of(benefit)
    lines = [
        f"{len(benefit.names)} sites, {_of(benefit)}, {benefit.work}. {GAINS[benefit.relative]}, with 95 % intervals."
    ]
    every = (benefit, *benefit.also.values())
    if not any(one.helps for one in every):
        harmful = [gain.by for gain in benefit.overall if gain.verdict == "loses"]
        if harmful == list(benefit.arms):
            lines.append("Evidence that collaborating harms, and none that it helps: train alone.")
        elif harmful:
            ways = ", ".join(map(by_whom, harmful))
            lines.append(f"Evidence that collaborating {ways} harms, and none that anything helps: train alone.")
        else:
            harmed = " There is evidence that some sites lose by it." * any(one.found for one in every)
            lines.append(f"No evidence that collaborating helps.{harmed}")
    for gain, weighted in zip(benefit.overall, benefit.by_samples, strict=True):
        lines.append(
            f"In the mean over sites, {by_whom(gain.by)}{_mark(benefit, gain.by)}: {_told(gain, scale, digits)}, "
            f"weighted by test samples {_told(weighted, scale, digits)}. {_means(gain, scale, digits)}"
        )
    for one in benefit.also.values():
        of_metric = scale_of(one)[:2]
        told = "; ".join(f"{by_whom(gain.by)} {_told(gain, *of_metric)}" for gain in one.overall)
        said = "a star is evidence" if any(gain.verdict != "no evidence" for gain in one.overall) else "no evidence"
        lines.append(f"In {_of(one)}{', % of the error' * one.relative}, mean over sites: {told}: {said}.")
    if benefit.also:
        metrics = f"{len(benefit.also) + 1} metrics"
        lines.append(f"Each of {metrics} has its share of the chance to claim something: with fewer, less is needed.")
    single = [gain for gain in benefit.found if gain.site in benefit.names]
    for verdict in ("gains", "loses"):
        some = [gain for gain in single if gain.verdict == verdict]
        for gain in some[:SHOWN]:
            by = by_whom(gain.by) if gain.by in benefit.arms else by_whom(site_of(benefit, gain.by))
            by += _mark(benefit, gain.by if gain.by in benefit.arms else "pairs")
            lines.append(f"{site_of(benefit, gain.site)} {verdict} {by}: {_told(gain, scale, digits)}.")
        if len(some) > SHOWN:
            lines.append(f"So do {len(some) - SHOWN} more of the comparisons (Benefit.found has all).")
    for arm in ("alone", *benefit.arms, "pairs", "without"):
        chosen = benefit.chosen.get(arm, [])
        if flat := chosen.count(benefit.flat):
            lines.append(f"On {flat} of {len(chosen)} splits models {_models(arm)} did no better than {benefit.flat}.")
    if benefit.flat and any(benefit.flat in chosen for chosen in benefit.chosen.values()):
        mark = f"{CONSTANT}: " * any(map(benefit.by_constants, benefit.chosen))
        lines.append(f"{mark}There {benefit.flat} counts in place of the models, for each site that of its own.")
    lines += [_constants(one) for one in every]
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
        told = ", ".join(f"{site_of(benefit, name)}: {many:g}" for name, many in small)
        if len(small) == len(benefit.names) and len({many for _, many in small}) == 1:
            told = f"each of the {len(small)} sites has {small[0][1]:g}"
        lines.append(
            f"Few {what}test samples on a split ({told}): what such sites gain is mostly chance, and so are means."
        )
    rarer = [] if benefit.rarer is None else zip(benefit.names, benefit.rarer.tolist(), strict=True)
    if rare := [f"{site_of(benefit, name)}: {many:g}" for name, many in rarer if 0 < many < FEW]:
        lines.append(
            f"Few test samples of the rarer class on a split ({', '.join(rare)}): be wary of what is said of such "
            "sites, and of means, above all by auc."
        )
    undefined = [gain for gain in benefit.gains if gain.verdict == "not defined"]
    for name in dict.fromkeys(gain.site for gain in undefined):
        lines.append(f"{site_of(benefit, name)}: {benefit.metric} is not defined on its test samples in any split.")
    lines.append(_next(benefit, scale, digits))
    return "\n".join(line for line in lines if line)


@shown
def benefit_table(benefit: Benefit, markdown: bool = False) -> str:
    """Write a row for every site: its samples, what it has alone, and what it gains by all, by methods, by one other.

    It also names the site that it gains most by when the two collaborate alone, and the one that would be missed most
    in the group of all (none where no absence costs it anything), both only where models of such groups did better than
    constants on most splits, and tells what the model of all others gains it that it had no part in. Where constants do
    as well as training alone at any site, they have a column of their own (`graphcollab.gains.Benefit`). The last two
    rows are means over sites, all alike and weighted by their test samples. A star marks a gain or loss there is
    evidence of, all comparisons considered; the last row has none. Further metrics have tables of their own.

    Args:
        benefit: What `graphcollab.benefit` found.
    """
    tables = [_table(benefit, markdown)]
    for name, one in benefit.also.items():
        tables.append(f"{name}:\n\n{_table(one, markdown)}")
    whole = "\n\n".join(tables)
    marked = f"{CONSTANT}: on half of the splits or more {benefit.flat} of each site, and not a model."
    notes = [
        "Intervals are of one comparison alone, at 95 %; a star marks evidence after correction for all comparisons, "
        "so an interval without 0 may have none.",
        f"({MISSING} … {MISSING}): alike on all splits, so how it varies is not known." * (f"({MISSING} …" in whole),
        "×4: the error is four times as large." * ("×" in whole),
        marked * (CONSTANT in whole),
    ]
    return below(whole, *notes)


def _table(benefit: Benefit, markdown: bool) -> str:
    """Write the table of one metric."""
    scale, digits, unit = scale_of(benefit)
    unit = unit if benefit.relative else ""
    alone = [f"alone, {_of(benefit)}", *(["constant"] if _rivals(benefit) else [])]
    ways = [f"gain {by_whom(arm)}{unit}{_mark(benefit, arm)}" for arm in benefit.arms]
    header, rows = ["site", "train", "test", *alone, *ways, "best single other", "missed most", "left out"], []
    paired, grouped = not benefit.by_constants("pairs"), not any(map(benefit.by_constants, ("together", "without")))
    for k, site in enumerate(benefit.names):
        gains = benefit.of(site)
        row = [site, f"{float(benefit.train[k]):g}", f"{float(benefit.test[k]):g}", *_cells(benefit, gains.values())]
        others = [gains[name] for name in benefit.names if name in gains and name != site]
        best = max(others, key=lambda gain: gain.gain, default=None)
        row.append(f"{site_of(benefit, best.by)} {_told(best, scale, digits)}" if best and paired else MISSING)
        worth = scale * benefit.worth[k]
        most = int(worth.nan_to_num(-math.inf).argmax())
        missed = f"{site_of(benefit, benefit.names[most])} {number(float(worth[most]), digits, signed=True)}"
        row.append(missed if float(worth[most]) > 0 and grouped else MISSING)
        rows.append([*row, bounded(float(benefit.left_out[k]), scale, digits)])
    totals = [f"{float(some.sum()):g}" for some in (benefit.train, benefit.test)]
    for label, gained in (("all sites", benefit.overall), ("all, by samples", benefit.by_samples)):
        rows.append([label, *totals, *_cells(benefit, gained), "", "", ""])
    return text_table(header, rows, markdown)


def _cells(benefit: Benefit, gains: Iterable[Gain]) -> list[str]:
    """Write what there is alone, what constants have, and the gains by all together and by methods."""
    (scale, digits, _), by = scale_of(benefit), {gain.by: gain for gain in gains}
    told = [by[arm] for arm in benefit.arms]
    means = [told[0].alone, *([told[0].constant] if _rivals(benefit) else [])]
    return [*(_mean(benefit, mean) for mean in means), *(_told(gain, scale, digits) for gain in told)]


def _rivals(benefit: Benefit) -> bool:
    """Tell whether constants do as well as training alone at any site."""
    constant, alone = benefit.constant.nanmean(0), benefit.scores["alone"].nanmean(0)
    return bool((constant >= alone if benefit.higher_is_better else constant <= alone).any())


def _constants(benefit: Benefit) -> str:
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
    models = ", ".join(f"{_models(arm)} ({_mean(benefit, mean)})" for arm, mean in worse.items())
    return (
        f"In {_of(benefit)}, mean over sites, models {models} do no better than {benefit.flat} of each site "
        f"({_mean(benefit, first.constant)}): what does not is no gain."
    )


def _mark(benefit: Benefit, arm: str) -> str:
    """Mark what constants, and no models, gain or lose on half of the splits or more."""
    return CONSTANT * benefit.by_constants(arm)


def _models(arm: str) -> str:
    """Say which models."""
    return {"alone": "alone", "pairs": "of pairs", "without": "of all but one"}.get(arm, by_whom(arm))


def scale_of(benefit: Benefit) -> tuple[float, int | None, str]:
    """Return by what gains are multiplied, their decimals, and a unit: shares are shown in percent."""
    return shown_in(benefit.relative or benefit.metric in SHARES, 1)


def _mean(benefit: Benefit, mean: float) -> str:
    """Write a mean of scores."""
    scale, digits, _ = shown_in(benefit.metric in SHARES, 1)
    return number(scale * mean, digits)


def _of(benefit: Benefit) -> str:
    """Say what gains are of."""
    return benefit.metric + shown_in(benefit.metric in SHARES, 1)[2]


def by_whom(name: str) -> str:
    """Say by whom or what."""
    return "by all together" if name == "together" else f"by {name}"


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


def _told(gain: Gain, scale: float, digits: int | None) -> str:
    """Write a gain and its interval; a star where there is evidence."""
    if math.isnan(gain.gain):
        return MISSING
    values = (gain.gain, gain.low, gain.high)
    far = any(_far(value, scale) for value in values)  # then all in one unit
    mean, low, high = (_times(value) if far else number(scale * value, digits, signed=True) for value in values)
    return f"{mean} ({low} … {high}){'*' if gain.verdict in ('gains', 'loses') else ''}"


def bounded(gain: float, scale: float, digits: int | None) -> str:
    """Write a gain; of an error that has more than trebled how many times as large it is."""
    return _times(gain) if _far(gain, scale) else number(scale * gain, digits, signed=True)


def _far(gain: float, scale: float) -> bool:
    return scale > 1 and scale * gain < FLOOR  # shares differ by one at most


def _times(gain: float) -> str:
    return f"×{number(1 - gain, None)}"


def site_of(benefit: Benefit, name: str) -> str:
    """Name a site so that it does not look like a number."""
    return f"site {name}" if numbered(benefit.names) else name


def _next(benefit: Benefit, scale: float, digits: int | None) -> str:
    """Say what to do: by what to collaborate, or without evidence how many samples would tell, by estimate."""
    if found := [gain for gain in benefit.overall if gain.verdict == "gains"]:
        best = max(found, key=lambda gain: gain.gain)
        worse = [site_of(benefit, g.site) for g in benefit.gains if g.by == best.by and g.verdict == "loses"]
        return (
            f"So let them collaborate {by_whom(best.by)}{', which of these gains most' * (len(found) > 1)}"
            + f"; but train {few(worse)} alone, where there is evidence of a loss" * bool(worse)
            + "."
        )
    if benefit.helps:
        return "So collaborate where a site is said to gain, by what it gains by; for the others train alone."
    if any(one.found for one in (benefit, *benefit.also.values())) or not any(g.detectable for g in benefit.overall):
        return ""
    advice = "So train alone, or ask again with more samples"
    times = {gain.by: _times_as_many(gain, benefit.relative) for gain in benefit.overall}
    best = min(benefit.overall, key=lambda gain: times[gain.by])
    if not times[best.by] < MANY:
        return f"{advice}."
    told = number(scale * best.gain, digits, signed=True)
    return (
        f"{advice}: if the gain {by_whom(best.by)} is indeed {told}, it would take about {times[best.by]:.2g} times as "
        "many to find it (an estimate: what can be found shrinks with the square root of their number)."
    )


def _times_as_many(gain: Gain, relative: bool) -> float:
    """Estimate how many times as many samples it would take to find a gain; infinity where there seems to be none."""
    if not (math.isfinite(gain.gain) and math.isfinite(gain.detectable) and 0 < gain.gain < gain.detectable):
        return math.inf
    seen, needed = (-math.log1p(-one) if relative else one for one in (gain.gain, gain.detectable))
    return (needed / seen) ** 2


def _means(gain: Gain, scale: float, digits: int | None) -> str:
    """Say what that means, and what could have been detected."""
    if gain.verdict in ("gains", "loses"):
        return f"There is evidence of that (p = {gain.p_value:.2g})."
    if gain.detectable == 0:
        return "All models did the same, so this says nothing: train for longer."
    if math.isnan(gain.detectable):
        return "The gain was the same on all splits, so how it varies is not known: try more of them, repeats=..."
    if scale > 1 and gain.detectable >= 1:  # of shares
        return "That is no evidence, and with so few samples no gain would have been found four times out of five."
    bar = number(scale * gain.detectable, digits)
    return f"That is no evidence; {bar} would have been found four times out of five."
