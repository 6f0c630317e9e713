"""How the metric grows over rounds (Fig. 3 of L2C)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure

from graphcollab.report._style import MARKED, legend_beside, looks, new_figure, over_rounds
from graphcollab.settings import checked

__all__ = ["accuracy_curves"]

Curve = tuple[Sequence[int], Sequence[Any]]


@checked
def accuracy_curves(
    curves: Mapping[str, Sequence[Curve]],
    title: str | None = None,
    metric: str = "accuracy",
    percent: bool = True,
) -> Figure:
    """Draw the mean metric over rounds.

    It is Fig. 3 of
    `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR 2022)
    <https://openaccess.thecvf.com/content/CVPR2022/html/Li_Learning_To_Collaborate_in_Decentralized_Learning_of_Personalized_Models_CVPR_2022_paper.html>`_,
    with a band of one standard deviation over seeds up and down; a single seed has none. Rounds at which not all seeds
    of a method were evaluated are left out.

    Args:
        curves: For every method one pair (rounds, values) per seed, such as
            ``{name: [trial.curve for trial in trials] for name, trials in comparison.chosen.items()}``.
        title: Title of the figure.
        metric: Name of the metric.
        percent: Whether values are shares to be shown in percent.

    Raises:
        ValueError: If there is no curve, or the seeds of a method have no round in common.

    Example:
        >>> figure = accuracy_curves({"local": [([1, 2], [0.5, 0.7]), ([1, 2], [0.5, 0.9])]})
        >>> figure.axes[0].lines[0].get_ydata().tolist()
        [50.0, 80.0]
    """
    if not curves or not all(curves.values()):
        counts = {name: len(seeds) for name, seeds in curves.items()}
        raise ValueError(f"expected at least one curve per method, got {counts}")
    scale = 100 if percent else 1
    figure = new_figure(6.4, 4.0 if title else 3.7, title)
    panel = figure.subplots()
    ends = {}
    for (name, seeds), look in zip(curves.items(), looks(), strict=False):
        values = [dict(zip(rounds, found, strict=True)) for rounds, found in seeds]
        rounds = sorted(set.intersection(*(set(seed) for seed in values)))
        if not rounds:
            raise ValueError(f"{name}: its {len(seeds)} seeds have no evaluated round in common")
        # [S, T]
        table = scale * torch.tensor([[seed[r] for r in rounds] for seed in values], dtype=torch.float64)
        mean = table.mean(0).numpy()
        marker = look["marker"] if len(rounds) <= MARKED else ""
        (line,) = panel.plot(
            rounds, mean, color=look["color"], linestyle=look["linestyle"], marker=marker, markersize=4, linewidth=1.8
        )
        ends[name] = (mean[-1], line)
        if len(values) > 1:
            std = table.std(0).numpy()
            panel.fill_between(rounds, mean - std, mean + std, color=look["color"], alpha=0.15, linewidth=0)
    legend_beside(panel, ends)
    over_rounds(panel, f"mean test {metric}{' (%)' if percent else ''}")
    return figure
