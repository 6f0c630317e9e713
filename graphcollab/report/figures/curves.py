"""Curves over rounds: how good models become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import torch
from matplotlib.figure import Figure

from graphcollab.errors import MissingError
from graphcollab.report._text import require_some, shown
from graphcollab.report.figures._style import LOOKS, legend_right, new_figure, over_rounds

Curves = Annotated[
    Mapping[str, Sequence[tuple[Sequence[int], Sequence[Any]]]],
    "pairs (rounds, values) of every seed, by method, {'l2c': [([1, 2], [0.5, 0.75])]} (of what compare returns, "
    "comparison_figures draws them)",
]


@shown
def accuracy_curves(
    curves: Curves,
    title: str | None = None,
    metric: str = "accuracy",
    percent: bool = True,
    over: str = "round",
) -> Figure:
    """Draw the mean metric over rounds.

    It is Fig. 3 of `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR 2022)
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_, with a band of one standard deviation over seeds up and down; a
    single seed has none. Rounds at which not all seeds of a method were evaluated are left out.

    Args:
        curves: For every method one pair (rounds, values) per seed, such as
            ``{name: [trial.curve for trial in trials] for name, trials in comparison.chosen.items()}``. They must have
            a round in common.
        metric: Name of the metric.
        percent: Whether values are shares to be shown in percent.
        over: What the curves count where it is no rounds, such as ``"local steps per node"``.
    """
    require_some(curves, "at least one curve per method")
    figure = new_figure(6.4, 4.0, title)
    panel = figure.subplots()
    panel.set_prop_cycle(LOOKS)
    for name, seeds in curves.items():
        found = [dict(zip(rounds, values, strict=True)) for rounds, values in seeds]
        rounds = sorted(set.intersection(*map(set, found)))
        if not rounds:
            raise MissingError(f"method {name!r}", f"{name}: its {len(seeds)} seeds have no evaluated round in common")
        table = torch.tensor([[seed[r] for r in rounds] for seed in found], dtype=torch.float64)  # [S, T]
        table *= 100 if percent else 1
        mean = table.mean(0).numpy()
        (line,) = panel.plot(rounds, mean, marker=".", label=name)
        if len(seeds) > 1:
            std = table.std(0).numpy()
            panel.fill_between(rounds, mean - std, mean + std, color=line.get_color(), alpha=0.15, linewidth=0)
    many = max(map(len, curves.values()))
    band = f"\n(band: one standard deviation over {many} seeds)" if many > 1 else ""
    over_rounds(panel, f"mean test {metric}{' (%)' if percent else ''}", over + band)
    legend_right(figure)
    return figure
