"""How the project's figures look, set on each figure so that a user's own matplotlib settings stay as they are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.rcsetup import cycler
from matplotlib.ticker import MaxNLocator

DPI = 150
PANELS = 4  # in a row
TEXT, GRID = "#333333", "#E3E3E3"
LONG = 24  # letters, above which names are shortened at axes

# The palette of Okabe and Ito, told apart also by the colour-blind; without its yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LOOKS = cycler(linestyle=("-", "--", ":", "-.")) * cycler(color=COLOURS) + cycler(marker=4 * list("os^DvPX"))
"""How one series after the other is drawn, all different for the first 28."""
MARKED = 25  # points of a curve at most, for each to have a marker


def new_figure(width: float, height: float, title: str | None = None) -> Figure:
    """Return an empty figure, in inches, whose layout keeps texts apart."""
    layout = ConstrainedLayoutEngine(compress=True, w_pad=0.07, h_pad=0.07)
    figure = Figure(figsize=(width, height), dpi=DPI, layout=layout, facecolor="white")
    if title:
        figure.suptitle(title, fontsize=12, color=TEXT)
    return figure


def new_panels(
    count: int, width: float, height: float, beside: float, title: str | None, **shared: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels of a size in inches, in as many rows as they need, and room beside them."""
    lines = math.ceil(count / PANELS)
    columns = math.ceil(count / lines)
    figure = new_figure(width * columns + beside, height * lines + (0.4 if title else 0.1), title)
    panels = figure.subplots(lines, columns, squeeze=False, **shared).flatten().tolist()
    for panel in panels[count:]:
        panel.set_visible(False)
    return figure, panels[:count]


def leftmost(panel: Axes) -> bool:
    """Tell whether a panel is the first of its row, and says what its vertical axis is."""
    place = panel.get_subplotspec()
    return place is not None and place.is_first_col()


def figure_names(names: Sequence[str]) -> list[str]:
    """Return names as figures write them: long ones without their middle, and dollar signs as no mathematics.

    Names that would look alike without their middle keep it.

    Example:
        >>> figure_names(["Bern", "Klinikum der Universität München Großhadern"])
        ['Bern', 'Klinikum der…Großhadern']
    """
    begin, end = LONG // 2, LONG - LONG // 2 - 1
    short = [n if len(n) <= LONG else f"{n[:begin].rstrip()}…{n[-end:].lstrip()}" for n in names]
    alike = Counter(short)
    return [(s if alike[s] == 1 else n).replace("$", r"\$") for s, n in zip(short, names, strict=True)]


def tidy(axes: Axes) -> None:
    """Leave out what carries no information, and put a light horizontal grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GRID)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    quiet(axes)


def quiet(axes: Axes) -> None:
    """Set the size and colour of all texts of a panel."""
    axes.tick_params(which="both", labelsize=9, color=GRID, labelcolor=TEXT)
    axes.title.set(fontsize=10.5, color=TEXT)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(fontsize=10, color=TEXT)


def over_rounds(axes: Axes, ylabel: str, xlabel: str = "round") -> None:
    """Finish a panel of curves over rounds."""
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    tidy(axes)


def legend_beside(axes: Axes) -> None:
    """Name lines to the right of a panel, in the order in which they end."""
    ends = [float(np.asarray(line.get_ydata())[-1]) for line in axes.lines]
    lines = [axes.lines[n] for n in np.argsort([np.inf if np.isnan(end) else -end for end in ends], kind="stable")]
    names = [str(line.get_label()) for line in lines]
    legend = axes.legend(lines, names, fontsize=9, frameon=False, loc="center left")
    legend.set_bbox_to_anchor((1.0, 0.5))


def legend_right(figure: Figure, panels: Sequence[Axes]) -> None:
    """Name what panels show, once for all of them, to their right."""
    named = {name: line for panel in panels for line, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(list(named.values()), list(named), fontsize=9, frameon=False, loc="outside right center")
