"""What sites gain by collaborating: an answer in words, a table of sites, and a figure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from graphcollab.gains import Benefit, Gain
from graphcollab.gains.outcome import CONSTANT
from graphcollab.report._figure import COLOURS, TEXT, new_figure, quiet, tidy
from graphcollab.report._text import MISSING, number, shown, text_table
from graphcollab.train.trial import SHARES

__all__ = ["benefit_answer", "benefit_figure", "benefit_table"]

SHOWN = 8  # gains that are told one by one
NAMED = 60  # sites that are named at an axis
FLOOR = -200.0  # percent; an error that has more than trebled is told and drawn as if it had trebled
GAINS = {
    False: "Gains are differences to training alone, positive where that is better",
    True: "Gains say by how many percent the error of training alone falls",
}
WRONG = {
    "own model only": "all weight on own models, which is local training,",
    "one model only": "all weight on single models",
    "uniform weights": "uniform weights, which is averaging,",
}
AGREE = 0.5  # correlation of weights above which a learned graph is called the same on other splits


@shown
def benefit_answer(benefit: Benefit) -> str:
    """Answer in words: does collaborating help, whom, by whom and by how much, and what could have been detected.

    Args:
        benefit: What `graphcollab.benefit` found.
    """
    scale, digits, _ = _scale(benefit)
    lines = [
        f"{len(benefit.names)} sites, {_of(benefit)}, {benefit.work}. {GAINS[benefit.relative]}, with 95 % intervals."
    ]
    if not any(one.helps for one in (benefit, *benefit.also.values())):
        lines.append("No evidence that collaborating helps.")
    for gain in benefit.overall:
        lines.append(
            f"In the mean over sites, {_by(gain.by)}: {_told(gain, scale, digits)}. {_means(gain, scale, digits)}"
        )
    for one in benefit.also.values():
        of_metric = _scale(one)[:2]
        told = "; ".join(f"{_by(gain.by)} {_told(gain, *of_metric)}" for gain in one.overall)
        lines.append(f"In the mean over sites, {_of(one)}{' (share of the error, %)' * one.relative}: {told}.")
    single = [gain for gain in benefit.found if gain.site in benefit.names]
    for verdict in ("gains", "loses"):
        some = [gain for gain in single if gain.verdict == verdict]
        for gain in some[:SHOWN]:
            lines.append(f"{gain.site} {verdict} {_by(gain.by)}: {_told(gain, scale, digits)}.")
        if len(some) > SHOWN:
            lines.append(f"So do {len(some) - SHOWN} more of the comparisons (Benefit.found has all).")
    for arm in ("alone", *benefit.arms):
        flat = benefit.chosen[arm].count(CONSTANT)
        if flat:
            by = "alone" if arm == "alone" else _by(arm)
            lines.append(f"On {flat} of {len(benefit.chosen[arm])} splits models {by} did no better than {CONSTANT}.")
    lines += [line for name in benefit.findings for line in _weights(benefit, name)]
    tried, there = benefit.tried
    if tried < there:
        left = int((~benefit.without.isnan()).any(0).any(0).sum())
        lines.append(
            f"Of {there} pairs {tried} were tried, as many for every site, and {left} sites were left out in turn."
        )
    undefined = [gain for gain in benefit.gains if gain.verdict == "not defined"]
    for name in dict.fromkeys(gain.site for gain in undefined):
        lines.append(f"{name}: {benefit.metric} is not defined on its test samples in any split.")
    return "\n".join(lines)


@shown
def benefit_table(benefit: Benefit, markdown: bool = False) -> str:
    """Write a row for every site: its samples, what it has alone, and what it gains by all, by methods, by one other.

    It also names the site that it gains most by when the two collaborate alone, and the one that would be missed most
    in the group of all, and tells what the model of all others gains it that it had no part in. Further metrics follow.
    The last two rows are means over sites, all alike and weighted by their test samples. A star marks a gain or loss
    there is evidence of, all comparisons considered; the last row has none.

    Args:
        benefit: What `graphcollab.benefit` found.
    """
    scale, digits, _ = _scale(benefit)
    header, rows = ["site", "train", "test", *_heads(benefit), "best single other", "missed most", "left out"], []
    for one in benefit.also.values():
        header += _heads(one, f", {one.metric}")
    for k, site in enumerate(benefit.names):
        gains = benefit.of(site)
        row = [site, f"{float(benefit.train[k]):g}", f"{float(benefit.test[k]):g}", *_cells(benefit, gains.values())]
        others = [gains[name] for name in benefit.names if name in gains and name != site]
        best = max(others, key=lambda gain: gain.gain, default=None)
        row.append(MISSING if best is None else f"{best.by} {_told(best, scale, digits)}")
        worth = scale * benefit.worth[k]
        most = int(worth.nan_to_num(-math.inf).argmax())
        missed = f"{benefit.names[most]} {number(float(worth[most]), digits, signed=True)}"
        row.append(missed if float(worth[most]) > 0 else MISSING)
        row.append(_bounded(float(scale * benefit.left_out[k]), digits))
        rows.append([*row, *(cell for one in benefit.also.values() for cell in _cells(one, one.of(site).values()))])
    totals = [f"{float(some.sum()):g}" for some in (benefit.train, benefit.test)]
    for label, name in (("all sites", "overall"), ("all, by samples", "by_samples")):
        row = [label, *totals, *_cells(benefit, getattr(benefit, name)), "", "", ""]
        rows.append([*row, *(cell for one in benefit.also.values() for cell in _cells(one, getattr(one, name)))])
    return text_table(header, rows, markdown)


@shown
def benefit_figure(benefit: Benefit, title: str | None = None) -> Figure:
    """Draw what each site gains by all together and by methods, with intervals, and what by each other site alone.

    Left, a filled mark is a gain or loss there is evidence of, all comparisons considered; right, so is a dot. Pairs
    that were not tried stay white. Where gains are shares of an error, the picture ends at -200 %.

    Args:
        benefit: What `graphcollab.benefit` found.
    """
    scale, _, unit = _scale(benefit)
    count, arms = len(benefit.names), benefit.arms
    height = min(0.9 + count * max(0.2, 0.1 * len(arms)), 10.0)
    figure = new_figure(5.2 + height, height + (1.0 if title else 0.6), title)
    left, right = figure.subplots(1, 2, width_ratios=[4.0, height])
    spread = np.linspace(-0.25, 0.25, len(arms)) if len(arms) > 1 else [0.0]
    by = {(gain.site, gain.by): gain for gain in benefit.gains}
    for a, (arm, shift) in enumerate(zip(arms, spread, strict=True)):
        gains = [by[site, arm] for site in benefit.names]
        _intervals(left, gains, shift, COLOURS[a % len(COLOURS)], scale, _by(gains[0].by))
    left.axvline(0, color=TEXT, linewidth=0.8)
    left.set(xlabel=f"gain in {benefit.metric}{unit}", ylim=(count - 0.5, -0.5))
    if benefit.relative:
        left.set_xlim(max(left.get_xlim()[0], FLOOR), 105)
    tidy(left)
    left.legend(fontsize=9, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    matrix = scale * benefit.matrix
    most = float(matrix[matrix.isfinite()].abs().max()) if bool(matrix.isfinite().any()) else 1.0
    most = min(most, -FLOOR) if benefit.relative else most
    colours = ScalarMappable(Normalize(-most, most), "PuOr_r")
    right.imshow(matrix.numpy(), norm=colours.norm, cmap=colours.cmap, interpolation="nearest")
    place = {name: k for k, name in enumerate(benefit.names)}
    marked = [(place[g.by], place[g.site]) for g in benefit.pair_gains if g.verdict in ("gains", "loses")]
    if marked:
        right.plot(*zip(*marked, strict=True), "o", color=TEXT, markersize=4)
    right.set(xlabel="with this site alone", ylabel="gain of this site")
    right.tick_params(length=0)
    right.spines[:].set_visible(False)
    quiet(right)
    for panel, axis in ((left, "y"), (right, "y"), (right, "x")):
        named = range(count) if count <= NAMED else []
        getattr(panel, f"set_{axis}ticks")(list(named), [benefit.names[k] for k in named])
        if count > NAMED // 2:
            panel.tick_params(axis=axis, labelsize=6)
    for text in right.get_xticklabels():
        text.set(rotation=45, ha="right", rotation_mode="anchor")
    bar = figure.colorbar(colours, ax=right, label=f"gain{unit}", fraction=0.05, pad=0.02)
    bar.outline.set_visible(False)
    quiet(bar.ax)
    return figure


def _heads(benefit: Benefit, of: str = "") -> list[str]:
    """Head the columns of `_cells`."""
    unit = _scale(benefit)[2] if benefit.relative else ""
    return [f"alone, {_of(benefit)}", *(f"gain {_by(arm)}{of}{unit}" for arm in benefit.arms)]


def _cells(benefit: Benefit, gains: Iterable[Gain]) -> list[str]:
    """Write what there is alone, and the gains by all together and by methods."""
    (scale, digits, _), by = _scale(benefit), {gain.by: gain for gain in gains}
    told = [by[arm] for arm in benefit.arms]
    return [_alone(benefit, told[0].alone), *(_told(gain, scale, digits) for gain in told)]


def _intervals(panel: Axes, gains: Sequence[Gain], shift: float, colour: str, scale: float, label: str) -> None:
    """Draw gains as marks with intervals, one for every site from top to bottom."""
    y = np.arange(len(gains)) + shift
    mean, low, high = (np.array([scale * getattr(gain, name) for gain in gains]) for name in ("gain", "low", "high"))
    panel.hlines(y, low, high, color=colour, linewidth=1.6)
    sure = np.array([gain.verdict in ("gains", "loses") for gain in gains])
    panel.plot(mean[sure], y[sure], "o", color=colour, markersize=5, label=label if sure.all() else None)
    named = None if sure.all() else label
    panel.plot(mean[~sure], y[~sure], "o", color=colour, markersize=5, markerfacecolor="white", label=named)


def _scale(benefit: Benefit) -> tuple[float, int | None, str]:
    """Return by what gains are multiplied, their decimals, and a unit: shares are shown in percent."""
    return (100.0, 1, " (%)") if benefit.relative or benefit.metric in SHARES else (1.0, None, "")


def _alone(benefit: Benefit, mean: float) -> str:
    """Write a mean of scores."""
    share = benefit.metric in SHARES
    return number((100.0 if share else 1.0) * mean, 1 if share else None)


def _of(benefit: Benefit) -> str:
    """Say what gains are of."""
    return f"{benefit.metric} (%)" if benefit.metric in SHARES else benefit.metric


def _by(name: str) -> str:
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
    alike = benefit.agreement(method) if method in benefit.weights and len(benefit.names) > 2 else math.nan
    if not math.isnan(alike):
        which = "agree" if alike >= AGREE else "differ: do not read them as who helps whom"
        lines.append(f"On different splits the weights it learned {which} (mean correlation {number(alike, 2)}).")
    return lines


def _told(gain: Gain, scale: float, digits: int | None) -> str:
    """Write a gain and its interval; a star where there is evidence."""
    if math.isnan(gain.gain):
        return MISSING
    mean, low, high = (_bounded(scale * value, digits) for value in (gain.gain, gain.low, gain.high))
    return f"{mean} ({low} … {high}){'*' if gain.verdict in ('gains', 'loses') else ''}"


def _bounded(value: float, digits: int | None) -> str:
    """Write a gain; of an error that has more than trebled only that it has."""
    return f"< {number(FLOOR, 0, signed=True)}" if value < FLOOR else number(value, digits, signed=True)


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
