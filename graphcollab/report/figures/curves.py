"""Curves over rounds: how good models become, whom nodes listen to, and what merging does.

"Little Help" is *With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies*
(Hagander & Ihre-Thomason, Lund University, 2024).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from graphcollab.errors import EmptyError, MissingError, ShapeError
from graphcollab.metrics import cluster_traffic, similarity_by_cluster
from graphcollab.metrics.edges import Graphs, pair_weights
from graphcollab.naming import find_nodes
from graphcollab.report._text import require_some, shown
from graphcollab.report.figures._style import (
    COLORS,
    LOOKS,
    legend_right,
    log_if_wide,
    new_figure,
    new_panels,
    over_rounds,
)
from graphcollab.train import History
from graphcollab.train.trial import SHARES

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
    found = {}
    for name, seeds in curves.items():
        values = [dict(zip(rounds, of, strict=True)) for rounds, of in seeds]
        rounds = sorted(set.intersection(*map(set, values)))
        if not rounds:
            raise MissingError(f"method {name!r}", f"{name}: its {len(seeds)} seeds have no evaluated round in common")
        table = torch.tensor([[seed[r] for r in rounds] for seed in values], dtype=torch.float64)
        found[name] = rounds, table * (100 if percent else 1)
    figure, panel = _draw_curves(found, title)
    many = max(map(len, curves.values()))
    band = f"\n(band: one standard deviation over {many} seeds)" if many > 1 else ""
    over_rounds(panel, f"mean test {metric}{' (%)' if percent else ''}", over + band)
    legend_right(figure)
    return figure


@shown
def traffic_curves(graphs: Mapping[str, Graphs], cluster: Tensor, title: str | None = None) -> Figure:
    """Draw over rounds which share of the models that nodes listen to comes from their own cluster.

    It is the mean over receivers, as `cluster_traffic` has it. The dotted line is the share that peers drawn at random
    have.

    Args:
        graphs: Edges j -> i, [2, E], and what i gave to j, [E], by round, such as ``history.graphs``; by name of the
            method.
    """
    require_some(graphs, "the graph of at least one round of each run", ": record with RecordGraph")
    means = {name: 100 * cluster_traffic(rounds, cluster)[1] for name, rounds in graphs.items()}
    figure, panel = _draw_curves({name: (sorted(graphs[name]), mean[None]) for name, mean in means.items()}, title)
    size = cluster.unique(return_counts=True)[1].double()
    chance = 100 * float((size * (size - 1)).sum() / max(len(cluster) * (len(cluster) - 1), 1))
    panel.axhline(chance, color="black", linestyle=":", linewidth=1, label="peers at random")
    panel.set_ylim(-2, 102)
    over_rounds(panel, "heard from own cluster (%)")
    legend_right(figure)
    return figure


def _draw_curves(curves: Mapping[str, tuple[Sequence[int], Tensor]], title: str | None) -> tuple[Figure, Axes]:
    """Draw means of values [S, T] over rounds, and a band of one standard deviation where there are several seeds."""
    figure = new_figure(6.4, 4.0, title)
    panel = figure.subplots()
    panel.set_prop_cycle(LOOKS)
    for name, (rounds, values) in curves.items():
        mean = values.mean(0).numpy()
        (line,) = panel.plot(rounds, mean, marker=".", label=name)
        if len(values) > 1:
            std = values.std(0).numpy()
            panel.fill_between(rounds, mean - std, mean + std, color=line.get_color(), alpha=0.15, linewidth=0)
    return figure, panel


@shown
def similarity_curves(scores: Graphs, cluster: Tensor, metric: str = "similarity", title: str | None = None) -> Figure:
    """Draw the similarity that nodes measure to their own cluster and to others, over rounds.

    It is the upper part of Fig. 4.3 to 4.5 of *Little Help*, for all nodes of a cluster together: mean, and a band from
    the 10 % to the 90 % quantile. Where the bands overlap, nodes cannot be sure of their cluster.

    Args:
        scores: Edges j -> i, [2, E], and the similarity that i has measured, [E], by round, such as ``history.scores``.
        cluster: The true cluster of each node, [K]. There is a panel for each whose nodes have measured something.
        metric: What was measured.
    """
    hint = "no similarities were recorded: record them with RecordGraph(scores=True), or measure them with "
    inside, between = similarity_by_cluster(scores, cluster, (0.1, 0.9), False)
    used = (~(inside[0].isnan() & between[0].isnan()).all(0)).nonzero().flatten().tolist()
    if not used:
        raise EmptyError("graphs", f"{hint}ProbeSimilarity(...)")
    bands = {f"cluster {int(cluster.unique()[c])}": (inside[:, :, c], between[:, :, c]) for c in used}
    return _draw_bands(sorted(scores), bands, metric, title)


@shown
def weight_curves(graphs: Graphs, cluster: Tensor, title: str | None = None) -> Figure:
    """Draw the weight that nodes give to their own cluster and to others, over rounds.

    It is what `weight_heatmaps` shows, and Fig. 3 of `CoBo: Collaborative Learning via Bilevel Optimization
    <https://arxiv.org/abs/2409.05539>`_ (Hashemi et al., NeurIPS 2024), followed over time: mean weight of ordered
    pairs of different nodes, and a band from the smallest to the largest. Clusters have been found where the bands no
    longer overlap. Pairs that have no edge weigh 0.

    """
    every = torch.ones(len(cluster), len(cluster)).nonzero().T.flip(0)  # all ordered pairs
    dense = {r: pair_weights(*graph, len(cluster), f"round {r}: ") for r, graph in graphs.items()}
    graphs = {r: (every, weights.nan_to_num(0.0).flatten()) for r, weights in dense.items()}
    inside, between = similarity_by_cluster(graphs, cluster, (0.0, 1.0), True)
    if bool((inside[0].isnan() & between[0].isnan()).all()):
        raise EmptyError(
            "graphs", "there are no weights between different nodes: record graphs with RecordGraph(rounds)"
        )
    return _draw_bands(sorted(graphs), {"all nodes": (inside[:, :, 0], between[:, :, 0])}, "weight", title)


def _draw_bands(
    rounds: Sequence[int], bands: Mapping[str, tuple[Tensor, Tensor]], ylabel: str, title: str | None
) -> Figure:
    """Draw mean, low and high [3, T] of what is measured inside clusters and between them, a panel for each name."""
    figure, panels = _panels_over_rounds([*bands], ylabel, title)
    for panel, pair in zip(panels, bands.values(), strict=True):
        for label, band, color, line in zip(("own cluster", "others"), pair, COLORS, ("-", "--"), strict=False):
            mean, low, high = band.numpy()
            panel.plot(rounds, mean, color=color, linestyle=line, marker=".", label=label)
            panel.fill_between(rounds, low, high, color=color, alpha=0.15, linewidth=0)
    legend_right(figure)
    return figure


def _panels_over_rounds(names: Sequence[str], ylabel: str, title: str | None) -> tuple[Figure, list[Axes]]:
    """Return a figure with one panel for each name, all with the same axes."""
    figure, panels = new_panels(len(names), 2.7, 2.9, 1.7, title, sharex=True, sharey=True)
    for panel, name in zip(panels, names, strict=True):
        panel.set_title(name)
        over_rounds(panel, ylabel)
        panel.label_outer()
    return figure, panels


@shown
def merge_curves(history: History, cluster: Tensor | None = None, title: str | None = None) -> Figure:
    """Draw the validation metric before and after merging over rounds, cluster by cluster.

    It is the lower part of Fig. 4.3 to 4.5, and Fig. 4.6, of *Little Help*. Means over nodes; what lies between the
    curves is shaded where merging made models worse. A vertical line is where `HealthCheck` found that a cluster, or
    some of its nodes, die. The scale is logarithmic for metrics other than shares that are positive and span more than
    two powers of ten.

    Args:
        history: Of a run that watched merging (``callbacks=[WatchMerging()]``).
        cluster: The true cluster of each node, [K], a panel each. Default: one panel for all nodes.
    """
    if not {"val_metric_before", "val_metric_after"} <= history.values.keys():
        raise MissingError("history", "the run did not watch merging: give it callbacks=[WatchMerging()]")
    cluster = torch.zeros(len(history.names)) if cluster is None else cluster.cpu()
    if cluster.shape != (len(history.names),):
        raise ShapeError(
            "cluster", f"cluster must be [K] for K = {len(history.names)} nodes, got {list(cluster.shape)}"
        )
    share = history.metric in SHARES
    clusters = cluster.unique().tolist()
    names = [f"cluster {one:g}" for one in clusters] if len(clusters) > 1 else ["all nodes"]
    figure, panels = _panels_over_rounds(names, f"validation {history.metric}{' (%)' if share else ''}", title)
    # twice [T, K]
    tables = [(100 if share else 1) * history.table(f"val_metric_{when}") for when in ("before", "after")]
    if not share:
        log_if_wide(panels[0], torch.cat(tables))  # the panels share it
    rounds = history.rounds[len(history.rounds) - len(tables[0]) :]
    for panel, one in zip(panels, clusters, strict=True):
        before, after = (table[:, cluster == one].nanmean(1).numpy() for table in tables)
        panel.plot(rounds, before, color=COLORS[1], linestyle="--", label="before merging")
        panel.plot(rounds, after, color=COLORS[0], label="after merging")
        worse = after < before if history.higher_is_better else after > before
        panel.fill_between(
            rounds, before, after, where=worse, color=COLORS[1], alpha=0.2, linewidth=0, label="merging hurts"
        )
        for finding in history.findings:
            where = find_nodes(finding.nodes, history.names)
            if finding.kind == "cluster death" and bool((cluster[where] == one).any()):
                panel.axvline(finding.round, color="black", linestyle=":", linewidth=1, label="cluster death")
    legend_right(figure)
    return figure
