"""Curves of a metric over rounds."""

from __future__ import annotations

from typing import Annotated

from matplotlib.figure import Figure

from graphcollab._base.errors import MissingError, TooFewError
from graphcollab.analysis import Comparison
from graphcollab.report._terms import ByMethod, curves_of, failures, in_common
from graphcollab.report.figures._style import LOOKS, legend_right, new_figure, over_rounds
from graphcollab.report.values import shown

Curves = Annotated[
    Comparison | ByMethod,
    "what compare returns, or pairs (rounds, values) of every seed, by method, {'l2c': [([1, 2], [0.5, 0.75])]}",
]


@shown
def accuracy_curves(curves: Curves, title: str | None = None, metric: str = "accuracy", percent: bool = True) -> Figure:
    """Draw the mean metric over rounds.

    It reproduces Fig. 3 of `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR
    2022) <https://doi.org/10.1109/CVPR52688.2022.00954>`_, with a band of plus or minus one standard deviation over
    seeds; a single seed has none. Rounds at which not all seeds of a method were evaluated are omitted.

    Args:
        curves: The output of `compare`, drawn over local steps per site if numbers of rounds differ, without failed
            seeds, as stated in the names; or one pair (rounds, values) per seed for every method, with a common round.
        metric: Name of the metric; a comparison determines this and the next argument.
        percent: Whether values are shares to be shown in percent.
    """
    over, whole = "round", {}
    if isinstance(curves, Comparison):
        metric, percent = curves.metric, curves.share
        whole = {name: f"{name} ({why})" for name in curves.chosen if (why := failures(curves, name))}
        curves, over = curves_of(curves)
    if not curves or not all(map(len, curves.values())):
        counts = {name: len(seeds) for name, seeds in curves.items()}
        raise TooFewError("curves", f"expected at least one curve per method, got {counts}")
    figure = new_figure(6.4, 4.0, title)
    panel = figure.subplots()
    panel.set_prop_cycle(LOOKS)
    for name, seeds in curves.items():
        rounds, found = in_common(seeds)
        if not rounds:
            raise MissingError(f"method {name!r}", f"{name}: its {len(seeds)} seeds have no evaluated round in common")
        table = found * (100 if percent else 1)
        mean = table.mean(0).numpy()
        (line,) = panel.plot(rounds, mean, marker=".", label=whole.get(name, name))
        if len(seeds) > 1:
            std = table.std(0).numpy()
            panel.fill_between(rounds, mean - std, mean + std, color=line.get_color(), alpha=0.15, linewidth=0)
    many = max(map(len, curves.values()))
    band = f"\n(band: one standard deviation over {many} seeds)" if many > 1 else ""
    over_rounds(panel, f"mean test {metric}{' (%)' if percent else ''}", over + band)
    legend_right(figure)
    return figure
