"""Panels with curves over rounds, one for each cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from graphcollab.report._style import COLOURS, MARKED, new_figure, over_rounds

PANELS = 4  # in a row


def panels_over_rounds(names: Sequence[str], ylabel: str, title: str | None) -> tuple[Figure, list[Axes]]:
    """Return a figure with one panel for each name, all with the same axes."""
    lines = math.ceil(len(names) / PANELS)
    columns = math.ceil(len(names) / lines)
    figure = new_figure(2.7 * columns + 1.7, 2.9 * lines + (0.4 if title else 0.1), title)
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).flatten().tolist()
    for n, panel in enumerate(panels):
        panel.set_visible(n < len(names))
        if n < len(names):
            panel.set_title(names[n])
            over_rounds(panel, "" if n % columns else ylabel)
            panel.tick_params(labelleft=n % columns == 0, labelbottom=True)
    return figure, panels[: len(names)]


def bands_by_cluster(
    rounds: Sequence[int],
    cluster: Tensor | None,
    inside: Tensor,
    between: Tensor,
    ylabel: str,
    title: str | None,
) -> Figure:
    """Draw what is measured inside clusters and between them over rounds: mean and band, a panel for each cluster.

    Clusters for which there is nothing are left out (callers check that not all are).
    """
    used = (~(inside[0].isnan() & between[0].isnan()).all(0)).nonzero().flatten().tolist()
    names = ["all nodes"] if cluster is None else [f"cluster {int(cluster.unique()[c])}" for c in used]
    figure, panels = panels_over_rounds(names, ylabel, title)
    for panel, c in zip(panels, used, strict=True):
        kinds = (("own cluster", inside, COLOURS[0], "-"), ("others", between, COLOURS[1], "--"))
        for label, band, colour, line in kinds:
            mean, low, high = band[:, :, c].numpy()
            gaps = bool(band[0, :, c].isnan().any())  # between which a single round would not be seen
            marker = "o" if gaps or len(rounds) <= MARKED else ""
            panel.plot(rounds, mean, color=colour, linestyle=line, marker=marker, markersize=3, label=label)
            panel.fill_between(rounds, low, high, color=colour, alpha=0.15, linewidth=0)
    legend_right(figure, panels)
    return figure


def legend_right(figure: Figure, panels: Sequence[Axes]) -> None:
    """Name what panels show, once for all of them, to their right."""
    named = {name: line for panel in panels for line, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(list(named.values()), list(named), fontsize=9, frameon=False, loc="outside right center")
