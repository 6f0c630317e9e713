"""`benefit_figure`: what sites gain by collaborating, as a picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from graphcollab.gains import Benefit, Gain
from graphcollab.report._gains import CLAIMED, CONSTANT, bounded, by_whom, mark, scale_of, site_of
from graphcollab.report._text import shown
from graphcollab.report.figures._style import COLOURS, GRID, TEXT, figure_names, new_figure, quiet, tidy

__all__ = ["benefit_figure"]

NAMED = 60  # sites that are named at an axis
WRITTEN = 10  # sites up to which every gain of the matrix is written into it
MOST = 0.9  # share of gains, or of ends of intervals, that axes and colours are made for; the others are cut
HUNDRED = 100.0  # from which on gains in the matrix have no decimals
MEANS = "all sites"
FLOOR = -200.0  # percent; errors that have more than trebled are beyond the axis


@shown
def benefit_figure(benefit: Benefit, title: str | None = None) -> Figure:
    """Draw what each site gains by all together and by methods, with intervals, and what by each other site in a pair.

    Left, a filled mark is a gain or loss there is evidence of, all comparisons considered, the number of a site's test
    samples is beside its name, and the last row is the mean over sites; right, evidence is in bold with a frame. Pairs
    that were not tried, or have no value, are grey, and so are all pairs where constants did as well as their models on
    half of the splits or more. Intervals and colours that are far beyond those of nine in ten are cut (arrows), so that
    a site with few samples does not hide the others; beside an arrow is the gain where that is cut, too. Further
    metrics have figures of their own, of ``benefit.also``.

    Args:
        benefit: What `graphcollab.benefit` found.
    """
    count, arms = len(benefit.names), benefit.arms
    height = min(1.1 + count * max(0.28, 0.12 * len(arms)), 10.0)
    figure = new_figure(6.0 + height, height + (1.2 if title else 0.9), title)
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
    for text in right.get_xticklabels():
        text.set(rotation=45, ha="right", rotation_mode="anchor")
    said = f"{benefit.work}; 95 % intervals; filled or bold: evidence, all comparisons considered"
    if any(benefit.by_constants(arm) and not benefit.untold(arm) for arm in arms):
        said += f"\n{CONSTANT}: on half of the splits or more {benefit.flat} in the place of models"
    figure.supxlabel(said, fontsize=8)
    return figure


def _sites(panel: Axes, benefit: Benefit) -> None:
    """Draw every site's gains by all together and by methods."""
    scale, count, arms = scale_of(benefit)[0], len(benefit.names), benefit.arms
    every = [*benefit.gains, *benefit.overall]
    by = {(gain.site, gain.by): gain for gain in every}
    ends = np.array([(scale * g.gain, scale * g.low, scale * g.high) for g in every])
    ends[:, 1:] = np.where(np.isnan(ends[:, 1:]), ends[:, :1], ends[:, 1:])  # gains without an interval
    known = ends[~np.isnan(ends[:, 0])]
    low, high = (-1.0, 1.0)
    if len(known):  # all means with room for an arrow, and the ends of most intervals
        least, most = known[:, 0].min(), known[:, 0].max()
        beside = 0.05 * (most - max(least, FLOOR))
        low = min(0.0, least - beside, np.quantile(known[:, 1], 1 - MOST))
        high = max(0.0, most + beside, np.quantile(known[:, 2], MOST))
    low = max(low, FLOOR) if benefit.relative else low
    room = 0.06 * max(high - low, 1e-9)
    spread = np.linspace(-0.25, 0.25, len(arms)) if len(arms) > 1 else [0.0]
    for a, (arm, shift) in enumerate(zip(arms, spread, strict=True)):
        gains = [by[site, arm] for site in (*benefit.names, MEANS)]
        if benefit.untold(arm):
            panel.plot([], [], " ", label=f"{by_whom(arm)}: no better than {benefit.flat}")
            continue
        label = by_whom(arm) + mark(benefit, arm)
        _intervals(panel, gains, shift, COLOURS[a % len(COLOURS)], scale, (low, high), label)
    panel.axvline(0, color=TEXT, linewidth=0.8)
    what = f"fall of the {benefit.metric} (%)" if benefit.relative else f"gain in {benefit.metric}{_points(benefit)}"
    panel.set(xlabel=what, ylabel="site (test samples)", xlim=(low - room, high + room), ylim=(count + 0.5, -0.5))
    panel.axhline(count - 0.5, color=GRID, linewidth=1.2)
    for k, site in enumerate(benefit.names):
        if by[site, arms[0]].verdict == "not defined":
            panel.annotate(f"{benefit.metric} is not defined", (0, k), (6, 0), textcoords="offset points", va="center",
                           fontsize=8, color=TEXT)  # fmt: skip
    tidy(panel)
    panel.legend(fontsize=9, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _intervals(
    panel: Axes,
    gains: Sequence[Gain],
    shift: float,
    colour: str,
    scale: float,
    bounds: tuple[float, float],
    label: str,
) -> None:
    """Draw gains as marks with intervals, one for every site from top to bottom; what is cut ends in an arrow."""
    y = np.arange(len(gains)) + shift
    size = 5 if len(gains) <= NAMED // 2 else 3.5
    mean, low, high = (np.array([scale * getattr(gain, name) for gain in gains]) for name in ("gain", "low", "high"))
    panel.hlines(y, np.maximum(low, bounds[0]), np.maximum(np.minimum(high, bounds[1]), bounds[0]), color=colour,
                 linewidth=1.6)  # fmt: skip
    for cut, end, arrow in ((low < bounds[0], bounds[0], "<"), (high > bounds[1], bounds[1], ">")):
        panel.plot(np.full(int(cut.sum()), end), y[cut], arrow, color=colour, markersize=size)
    sure, seen = np.array([gain.verdict in CLAIMED for gain in gains]), ~(mean < bounds[0])
    for k in np.flatnonzero(~seen).tolist():
        weight = "bold" if sure[k] else "normal"
        panel.annotate(bounded(gains[k].gain, scale, 0), (bounds[0], y[k]), (5, 1), textcoords="offset points",
                       va="bottom", fontsize=size + 2, color=colour, fontweight=weight)  # fmt: skip
    for some, inside in ((sure & seen, colour), (~sure & seen, "white")):
        panel.plot(mean[some], y[some], "o", color=colour, markersize=size, markerfacecolor=inside)
    panel.plot([], [], "o", color=colour, markersize=5, markerfacecolor=colour if sure.all() else "white", label=label)


def _pairs(panel: Axes, benefit: Benefit) -> None:
    """Draw what every site gains by every other when the two collaborate."""
    scale, digits, _ = scale_of(benefit)
    matrix = scale * benefit.matrix.numpy()
    if constants := benefit.by_constants("pairs"):
        matrix = np.full_like(matrix, np.nan)
        panel.annotate(f"models of pairs did no better\nthan {benefit.flat}", (0.5, 0.5), xycoords="axes fraction",
                       ha="center", va="center", fontsize=8, color=TEXT)  # fmt: skip
    sizes = np.abs(matrix[np.isfinite(matrix)])
    most = float(np.quantile(sizes, MOST)) if len(sizes) else 1.0
    most = (min(most, -FLOOR) if benefit.relative else most) or 1.0
    colours = ScalarMappable(Normalize(-most, most), "PuOr_r")
    panel.set_facecolor(GRID)
    panel.imshow(np.ma.masked_invalid(matrix), "PuOr_r", vmin=-most, vmax=most, interpolation="nearest")
    place = {name: k for k, name in enumerate(benefit.names)}
    for gain in [] if constants else benefit.pair_gains:
        at, sure = (place[gain.by], place[gain.site]), gain.verdict in CLAIMED
        value = scale * gain.gain
        if len(benefit.names) <= WRITTEN and np.isfinite(value):
            ink = "white" if abs(value) > 0.7 * most else TEXT
            text = bounded(gain.gain, scale, 0 if abs(value) >= HUNDRED and digits is not None else digits)
            box = {"boxstyle": "square,pad=0.25", "fill": False, "edgecolor": ink} if sure else None
            panel.text(*at, text, ha="center", va="center", fontsize=8, color=ink, bbox=box,
                       fontweight="bold" if sure else "normal")  # fmt: skip
        elif sure:
            panel.plot(*at, "o", color=TEXT, markersize=4)
    panel.set(xlabel="in a pair with this site", ylabel="gain of this site")
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    quiet(panel)
    label = "fall of the error (%)" if benefit.relative else f"gain{_points(benefit)}"
    if not len(sizes):
        return
    beyond = bool((sizes > most).any())
    bar = panel.figure.colorbar(
        colours, ax=panel, label=label, fraction=0.05, pad=0.02, extend="both" if beyond else "neither"
    )
    bar.outline.set_visible(False)
    quiet(bar.ax)


def _points(benefit: Benefit) -> str:
    return " (points)" if scale_of(benefit)[0] > 1 else ""
