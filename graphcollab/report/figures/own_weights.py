"""Whether nodes listen to others at all, over rounds, and what drives the weights that they learn."""

from __future__ import annotations

from itertools import cycle

import torch
from matplotlib.figure import Figure

from graphcollab.errors import MissingError
from graphcollab.report._text import shown
from graphcollab.report.figures._style import LOOKS, legend_right, log_if_wide, new_panels, over_rounds
from graphcollab.train import History

BAND = (0.1, 0.9)
WEIGHTS = {
    "own_weight": "own model's weight",
    "weight_entropy": "entropy of weights",
    "largest_weight": "largest other weight",
}
SAID = "weigher/"  # what names of fields begin with that a weigher adds


@shown
def own_weight_curves(history: History, title: str | None = None) -> Figure:
    """Draw the weight of nodes' own models, the entropy of their weights and the largest other weight over rounds.

    Means over nodes, and a band from the 10 % to the 90 % quantile. If the own model's weight rises to 1 and the
    entropy falls to 0, a run has become local training; if the entropy stays at 1, it averages over all neighbors.
    What the weigher adds (`Weigher.inspect`) has a panel for each kind, with a logarithmic scale where values are
    positive and span more than two powers of ten.

    Args:
        history: Of a run that watched weights (``callbacks=[WatchWeights()]``).
    """
    if not WEIGHTS.keys() <= history.values.keys():
        raise MissingError(
            "history",
            "no weights were watched: give the run callbacks=[WatchWeights()], and a method whose models travel along "
            "edges",
        )
    kinds = {"weights": dict(WEIGHTS)}
    for name in sorted(history.values):
        if name.startswith(SAID):
            kind, _, of = name.removeprefix(SAID).partition("/")
            kinds.setdefault(kind.replace("_", " "), {})[name] = (of or kind).replace("_", " ")
    figure, panels = new_panels(len(kinds), 3.0, 2.9, 1.9, title)
    looks, band = cycle(LOOKS), torch.tensor(BAND, dtype=torch.float64)
    for panel, (kind, fields) in zip(panels, kinds.items(), strict=True):
        panel.set_title(kind)
        tables = {label: history.table(name) for name, label in fields.items()}  # [T, K] each
        for label, table in tables.items():
            mean, (low, high) = table.nanmean(1), table.nanquantile(band, dim=1)
            look = next(looks)
            panel.plot(history.rounds, mean, marker=".", label=label, **look)
            panel.fill_between(history.rounds, low, high, color=look["color"], alpha=0.15, linewidth=0)
        over_rounds(panel, "")
        if kind == "weights":
            panel.set_ylim(-0.03, 1.03)
        else:
            log_if_wide(panel, torch.cat([*tables.values()]))
    legend_right(figure)
    return figure
