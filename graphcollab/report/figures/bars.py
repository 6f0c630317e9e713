"""Figures of pages: gains with intervals, gains of pairs, and the calibration of probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from graphcollab.report.figures._style import GRAY, LOOKS, figure_names, legend_right, new_figure
from graphcollab.report.values import Cell

USUAL = 0.9  # share of the gains that determine the range of axes and colors
WRITTEN = 12  # maximum number of sites for which gains are written into the cells of a matrix


def gain_bars(gains: Mapping[str, Mapping[str, Cell]], title: str) -> Figure:
    """Draw the gain of every site by every way to train, with its interval; filled marks have evidence."""
    sites = [*dict.fromkeys(site for of_way in gains.values() for site in of_way)]
    cells = [cell for of_way in gains.values() for cell in of_way.values()]
    most = _usual(torch.tensor([[cell.value, *(cell.interval or [cell.value] * 2)] for cell in cells]))
    figure = new_figure(8.0, 1.2 + 0.1 * len(sites) * (1 + len(gains)))
    panel = figure.subplots()
    for k, ((way, of_way), look) in enumerate(zip(gains.items(), LOOKS(), strict=False)):
        for site, cell in of_way.items():
            place, value = sites.index(site) + (k + 0.5) / len(gains) - 0.5, cell.value or 0.0
            ends = [value if math.isnan(end) else end for end in cell.interval or [value] * 2]
            panel.plot(ends, [place, place], color=look["color"], linewidth=1)
            ink = look["color"] if cell.star else "white"
            inside = min(max(value, -most), most)
            panel.plot([inside], [place], "o", color=look["color"], markerfacecolor=ink, markersize=5, label=way)
    panel.axvline(0, color="gray", linewidth=0.8)
    panel.set(xlim=(-1.1 * most, 1.1 * most), xlabel=title, ylim=(len(sites) - 0.4, -0.6))
    panel.set_yticks(range(len(sites)), figure_names(sites))
    panel.grid(axis="x", color=GRAY)
    legend_right(figure)
    return figure


def gain_matrix(gains: Tensor, names: Sequence[str], title: str) -> Figure:
    """Draw the gains of sites (rows) by others (columns), [K, K], losses orange and gains purple; NaN stays white."""
    size = 3.0 + 0.3 * len(names)
    figure = new_figure(size + 1.2, size)
    panel, most = figure.subplots(), _usual(gains)
    picture = panel.imshow(gains.numpy(), cmap="PuOr", vmin=-most, vmax=most, interpolation="nearest")
    panel.set(xlabel="by whom", ylabel="who gains")
    panel.set_xticks(range(len(names)), figure_names(names), rotation=90)
    panel.set_yticks(range(len(names)), figure_names(names))
    for i, j in gains.isfinite().nonzero().tolist() if len(names) <= WRITTEN else ():
        gain = float(gains[i, j])
        ink = "white" if abs(gain) > 0.7 * most else "black"
        panel.text(j, i, f"{gain:+.3g}".replace("-", "−"), ha="center", va="center", fontsize=7, color=ink)
    figure.colorbar(picture, ax=panel, label=title, extend="both")
    return figure


def calibration_curves(rows: Mapping[str, Tensor], titles: Sequence[str]) -> Figure:
    """Draw the percentage of right predictions over that predicted, given samples and both, [n, 3], by method."""
    figure = new_figure(6.4, 4.0)
    panel = figure.subplots()
    least = min(float(of_method[:, 1].min()) for of_method in rows.values())
    panel.plot([least, 100], [least, 100], ":", color="gray")
    for (name, of_method), look in zip(rows.items(), LOOKS(), strict=False):
        samples, predicted, right = of_method.T
        panel.plot(predicted, right, linewidth=1, label=name, **look)
        panel.scatter(predicted, right, 5 + 95 * samples / samples.max(), color=look["color"])
    panel.set(xlabel=titles[0], ylabel=titles[1], ylim=(0, 102))
    panel.grid(color=GRAY)
    legend_right(figure)
    return figure


def _usual(gains: Tensor) -> float:
    """Return the size that most gains do not exceed, for scales on which a few outliers hide no other gain."""
    sizes = gains.double().abs().nan_to_num(0.0).flatten()
    return float(sizes[sizes > 0].quantile(USUAL)) if bool((sizes > 0).any()) else 1.0
