"""The figure of what collaborating brings to each site."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graphcollab.analysis import Benefit
from graphcollab.analysis.trial import SHARES
from graphcollab.report.benefit_table import CLAIMED, CONSTANT, by_whom, mark, scale_of, site_of
from graphcollab.report.figures._style import COLORS, GRAY, figure_names, new_figure
from graphcollab.report.values import gain_text, shown

NAMED = 60  # sites that are named at an axis
WRITTEN = 10  # sites up to which every gain of the matrix is written into it
MOST = 0.9  # share of gains, or of ends of intervals, that axes and colors are made for; the others are cut
HUNDRED = 100.0  # from which on gains in the matrix have no decimals
MEANS = "all sites"
FLOOR = -200.0  # percent; errors that have more than trebled are beyond the axis


@shown
def benefit_figure(benefit: Benefit, title: str | None = None) -> Figure:
    """Draw what each site gains by all together and by methods, with intervals, and what by each other site in a pair.

    Left, a filled mark is a gain or loss there is evidence of, all comparisons considered, numbers of test samples are
    beside names, and the last row is the mean over sites; right, evidence is in bold with a frame. Pairs that were not
    tried, or have no value, are gray, and all are where constants did as well as their models on half of the splits or
    more. Intervals and colors far beyond those of nine in ten are cut, so that a site with few samples does not hide
    the others; a gain beyond the axis is written at its end. Further metrics: draw ``benefit.also``.
    """
    count, arms = len(benefit.names), benefit.arms
    height = min(1.1 + count * max(0.28, 0.12 * len(arms)), 10.0)
    figure = new_figure(6.0 + height, height + 1.2, title)
    left, right = figure.subplots(1, 2, width_ratios=[4.0, height])
    _sites(left, benefit)
    _pairs(right, benefit)
    sites = figure_names([site_of(benefit, name) for name in benefit.names])
    names = [f"{name} ({float(test):.3g})" for name, test in zip(sites, benefit.test, strict=True)]
    rows = [*names, f"{MEANS} ({float(benefit.test.sum()):.4g})"]
    for panel, axis, texts in ((left, "y", rows), (right, "y", sites), (right, "x", sites)):
        named = range(len(texts)) if count <= NAMED else range(count, len(texts))
        getattr(panel, f"set_{axis}ticks")(list(named), [texts[k] for k in named])
        if count > NAMED // 2:
            panel.tick_params(axis=axis, labelsize=6)
    right.tick_params(axis="x", rotation=90)
    said = f"{benefit.work}; 95 % intervals; filled or bold: evidence, all comparisons considered"
    if any(benefit.by_constants(arm) and not benefit.untold(arm) for arm in arms):
        said += f"\n{CONSTANT}: on half of the splits or more {benefit.flat} in the place of models"
    figure.supxlabel(said, fontsize="small")
    return figure


def _sites(panel: Axes, benefit: Benefit) -> None:
    scale, count, arms = scale_of(benefit)[0], len(benefit.names), benefit.arms
    by = {(gain.site, gain.by): gain for gain in (*benefit.gains, *benefit.overall)}
    bounds = _bounds(benefit, scale)
    spread = np.linspace(-0.25, 0.25, len(arms)) if len(arms) > 1 else [0.0]
    for a, (arm, shift) in enumerate(zip(arms, spread, strict=True)):
        if benefit.untold(arm):
            panel.plot([], [], " ", label=f"{by_whom(arm)}: no better than {benefit.flat}")
            continue
        color = COLORS[a % len(COLORS)]
        gains = [by[site, arm] for site in (*benefit.names, MEANS)]
        mean, low, high = scale * np.array([(gain.gain, gain.low, gain.high) for gain in gains]).T
        sure = np.array([gain.verdict in CLAIMED for gain in gains])
        y = np.arange(len(gains)) + shift
        panel.hlines(y, low, high, color=color)
        for some, inside in ((sure, color), (~sure, "white")):
            some = some & ~(mean < bounds[0])
            panel.plot(mean[some], y[some], "o", color=color, markersize=5, markerfacecolor=inside)
        for k in np.flatnonzero(mean < bounds[0]).tolist():
            panel.annotate(gain_text(float(mean[k]), 0), (bounds[0], y[k]), color=color, fontsize="small")
        inside = color if sure.all() else "white"
        panel.plot([], [], "o", color=color, markerfacecolor=inside, label=by_whom(arm) + mark(benefit, arm))
    panel.axvline(0, color="black", linewidth=0.8)
    what = f"fall of the {benefit.metric} (%)" if benefit.relative else f"gain in {benefit.metric}{_points(benefit)}"
    panel.set(xlabel=what, ylabel="site (test samples)", xlim=bounds, ylim=(count + 0.5, -0.5))
    panel.axhline(count - 0.5, color=GRAY)
    panel.grid(axis="y", color=GRAY)
    for k, site in enumerate(benefit.names):
        if by[site, arms[0]].verdict == "not defined":
            panel.annotate(f"{benefit.metric} is not defined", (0, k), va="center", fontsize="small")
    panel.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _bounds(benefit: Benefit, scale: float) -> tuple[float, float]:
    """Return the ends of the axis: room for all means down to the floor, and for the ends of most intervals."""
    ends = scale * np.array([(g.gain, g.low, g.high) for g in (*benefit.gains, *benefit.overall)])
    ends[:, 1:] = np.where(np.isnan(ends[:, 1:]), ends[:, :1], ends[:, 1:])  # gains without an interval
    known = ends[~np.isnan(ends[:, 0])]
    if not len(known):
        return -1.0, 1.0
    low = min(0.0, known[:, 0].min(), np.quantile(known[:, 1], 1 - MOST))
    high = max(0.0, known[:, 0].max(), np.quantile(known[:, 2], MOST))
    low = max(low, FLOOR) if benefit.relative else low
    room = 0.06 * max(high - low, 1e-9)
    return float(low - room), float(high + room)


def _pairs(panel: Axes, benefit: Benefit) -> None:
    scale, digits, _ = scale_of(benefit)
    matrix = scale * benefit.matrix.numpy()
    if constants := benefit.by_constants("pairs"):
        matrix = np.full_like(matrix, np.nan)
        text = f"models of pairs did no better\nthan {benefit.flat}"
        panel.annotate(text, (0.5, 0.5), xycoords="axes fraction", ha="center", va="center", fontsize="small")
    sizes = np.abs(matrix[np.isfinite(matrix)])
    most = float(np.quantile(sizes, MOST)) if len(sizes) else 1.0
    most = (min(most, -FLOOR) if benefit.relative else most) or 1.0
    panel.set_facecolor(GRAY)
    image = panel.imshow(np.ma.masked_invalid(matrix), "PuOr", vmin=-most, vmax=most, interpolation="nearest")
    place = {name: k for k, name in enumerate(benefit.names)}
    for gain in [] if constants else benefit.pair_gains:
        at, sure = (place[gain.by], place[gain.site]), gain.verdict in CLAIMED
        value = scale * gain.gain
        if len(benefit.names) <= WRITTEN and np.isfinite(value):
            ink = "white" if abs(value) > 0.7 * most else "black"
            text = gain_text(value, 0 if abs(value) >= HUNDRED and digits is not None else digits)
            frame: dict[str, Any] = {"bbox": {"fill": False, "edgecolor": ink}, "fontweight": "bold"} if sure else {}
            panel.text(*at, text, ha="center", va="center", fontsize="small", color=ink, **frame)
        elif sure:
            panel.plot(*at, "o", color="black", markersize=4)
    panel.set(xlabel="in a pair with this site", ylabel="gain of this site")
    if len(sizes):
        label = "fall of the error (%)" if benefit.relative else f"gain{_points(benefit)}"
        extend = "both" if (sizes > most).any() else "neither"
        panel.figure.colorbar(image, ax=panel, label=label, fraction=0.05, pad=0.02, extend=extend)


def _points(benefit: Benefit) -> str:
    return " (points)" * (benefit.metric in SHARES)
