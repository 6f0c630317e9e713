"""Curves over rounds: how good models become."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import torch
from matplotlib.figure import Figure

from graphcollab.errors import MissingError, TooFewError
from graphcollab.report._text import failures, shown
from graphcollab.report.figures._style import LOOKS, legend_right, new_figure, over_rounds
from graphcollab.train import Comparison
from graphcollab.train.baseline import BASELINES

ByMethod: TypeAlias = Mapping[str, Sequence[tuple[Sequence[int], Sequence[Any]]]]
Curves = Annotated[
    Comparison | ByMethod,
    "what compare returns, or pairs (rounds, values) of every seed, by method, {'l2c': [([1, 2], [0.5, 0.75])]}",
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
        curves: What `compare` returns, drawn over local steps per site where numbers of rounds differ, without failed
            seeds, as names say; or for every method one pair (rounds, values) per seed, with a round in common.
        metric: Name of the metric; a comparison knows it, as well as what follows.
        percent: Whether values are shares to be shown in percent.
        over: What the curves count where it is no rounds.
    """
    if isinstance(curves, Comparison):
        metric, percent, (curves, over) = curves.metric, curves.share, _of_comparison(curves)
    if not curves or not all(map(len, curves.values())):
        counts = {name: len(seeds) for name, seeds in curves.items()}
        raise TooFewError("curves", f"expected at least one curve per method, got {counts}")
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


def _of_comparison(comparison: Comparison) -> tuple[ByMethod, str]:
    """Return the curves of every method's seeds, and what they count: rounds, or local steps where rounds differ."""
    chosen = {name: trials for name, trials in comparison.chosen.items() if name not in BASELINES}
    kept = {name: [trial for trial in trials if not trial.failure] for name, trials in chosen.items()}
    every = [trial for trials in kept.values() for trial in trials]
    known = not any(math.isnan(trial.local_steps) for trial in every)
    in_steps = known and len({trial.curve[0][-1] for trial in every}) > 1
    curves = {}
    for name, trials in kept.items():
        why = failures(comparison, name)
        if trials:
            each = trials[0].local_steps / trials[0].curve[0][-1] if in_steps else 1
            found = [([round(each * one) for one in trial.curve[0]], trial.curve[1]) for trial in trials]
            curves[f"{name} ({why})" if why else name] = found
    return curves, "local steps per site" if in_steps else "round"
