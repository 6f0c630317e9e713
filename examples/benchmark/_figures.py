"""Figures of reproductions: whom nodes listen to, what they measure, and what merging does, over rounds.

"Little Help" is *With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies*
(Hagander & Ihre-Thomason, Lund University, 2024).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from torch import Tensor
from torch_geometric.utils import scatter

from graphcollab._base.errors import RangeError, ShapeError
from graphcollab.analysis import Comparison
from graphcollab.analysis.metrics.edges import Graph, Graphs, check_edges, pair_weights
from graphcollab.analysis.metrics.traffic import cluster_traffic, contact_counts, never_sampled
from graphcollab.analysis.trial import SHARES
from graphcollab.persistence import History
from graphcollab.report import accuracy_curves, weight_heatmaps
from graphcollab.report.figures._style import COLORS, GRAY, LOOKS, legend_right, new_figure, new_panels, over_rounds

WEIGHTS = {
    "own_weight": "own model's weight",
    "weight_entropy": "entropy of weights",
    "largest_weight": "largest other weight",
}


def contact_heatmap(graphs: Mapping[str, Graphs], cluster: Tensor) -> Figure:
    """Draw K x K heat maps of how often nodes listened to each other over a run, methods side by side.

    They are Fig. 4.2 and 4.9 of *Little Help*. A row is a receiver, a column a sender, sorted by cluster; pairs that
    never met stay white. Color follows the square root of the count, so that peers met once can be seen beside those
    met every round. A title counts the nodes that nobody ever listened to, whose columns are empty.

    Args:
        graphs: Edges j -> i, [2, E], and what i gave to j, [E], by round; by name of the method.
        cluster: The true cluster of each node, [K].
    """
    many, order = len(cluster), cluster.argsort(stable=True)
    counts = {name: pair_weights(*contact_counts(rounds, many), many) for name, rounds in graphs.items()}
    most = max(float(matrix.nan_to_num(0.0).max()) for matrix in counts.values())
    norm, ends = PowerNorm(0.5, 0.0, most or 1.0), cluster[order].unique_consecutive(return_counts=True)[1].cumsum(0)
    figure, panels = new_panels(len(graphs), 2.9, 3.4, 1.2, None)
    for panel, (name, matrix) in zip(panels, counts.items(), strict=True):
        image = panel.imshow(matrix[order][:, order].numpy(), norm=norm, cmap="magma_r", interpolation="nearest")
        unheard = len(never_sampled(graphs[name], many))
        panel.set(title=f"{name}\n{unheard} never listened to", xlabel="sender, by cluster", xticks=[], yticks=[])
        for end in ends[:-1].tolist():
            panel.axhline(end - 0.5, color="black", linewidth=0.4, alpha=0.6)
            panel.axvline(end - 0.5, color="black", linewidth=0.4, alpha=0.6)
    panels[0].set_ylabel("receiver, by cluster")
    figure.colorbar(image, ax=panels, label="rounds listened to", fraction=0.05, pad=0.02)
    return figure


def traffic_curves(graphs: Mapping[str, Graphs], cluster: Tensor) -> Figure:
    """Draw over rounds which share of the models that nodes listen to comes from their own cluster.

    It is the mean over receivers, as `cluster_traffic` has it. The dotted line is the share that peers drawn at random
    have.

    Args:
        graphs: Edges j -> i, [2, E], and what i gave to j, [E], by round; by name of the method.
        cluster: The true cluster of each node, [K].
    """
    figure = new_figure(6.4, 4.0)
    panel = figure.subplots()
    panel.set_prop_cycle(LOOKS)
    for name, rounds in graphs.items():
        panel.plot(sorted(rounds), 100 * cluster_traffic(rounds, cluster)[1].numpy(), marker=".", label=name)
    size = cluster.unique(return_counts=True)[1].double()
    chance = 100 * float((size * (size - 1)).sum() / max(len(cluster) * (len(cluster) - 1), 1))
    panel.axhline(chance, color="black", linestyle=":", linewidth=1, label="peers at random")
    panel.set_ylim(-2, 102)
    over_rounds(panel, "heard from own cluster (%)")
    legend_right(figure)
    return figure


def similarity_curves(scores: Graphs, cluster: Tensor, metric: str, title: str) -> Figure:
    """Draw the similarity that nodes measure to their own cluster and to others, over rounds.

    It is the upper part of Fig. 4.3 to 4.5 of *Little Help*, for all nodes of a cluster together: mean, and a band from
    the 10 % to the 90 % quantile. Where the bands overlap, nodes cannot be sure of their cluster.

    Args:
        scores: Edges j -> i, [2, E], and the similarity that i has measured, [E], by round, such as ``history.scores``.
        cluster: The true cluster of each node, [K]. There is a panel for each whose nodes have measured something.
        metric: What was measured.
        title: Title of the figure.
    """
    inside, between = similarity_by_cluster(scores, cluster, (0.1, 0.9), False)
    used = (~(inside[0].isnan() & between[0].isnan()).all(0)).nonzero().flatten().tolist()
    bands = {f"cluster {int(cluster.unique()[c])}": (inside[:, :, c], between[:, :, c]) for c in used}
    return _draw_bands(sorted(scores), bands, metric, title)


def weight_curves(graphs: Graphs, cluster: Tensor, title: str) -> Figure:
    """Draw the weight that nodes give to their own cluster and to others, over rounds.

    It is what `weight_heatmaps` shows, and Fig. 3 of `CoBo: Collaborative Learning via Bilevel Optimization
    <https://arxiv.org/abs/2409.05539>`_ (Hashemi et al., NeurIPS 2024), followed over time: mean weight of ordered
    pairs of different nodes, and a band from the smallest to the largest. Clusters have been found where the bands no
    longer overlap. Pairs that have no edge weigh 0.
    """
    every = torch.ones(len(cluster), len(cluster)).nonzero().T.flip(0)  # all ordered pairs
    dense = {r: pair_weights(*graph, len(cluster), f"round {r}: ") for r, graph in graphs.items()}
    complete = {r: (every, weights.nan_to_num(0.0).flatten()) for r, weights in dense.items()}
    inside, between = similarity_by_cluster(complete, cluster, (0.0, 1.0), True)
    return _draw_bands(sorted(graphs), {"all nodes": (inside[:, :, 0], between[:, :, 0])}, "weight", title)


def similarity_by_cluster(
    scores: Graphs, cluster: Tensor, quantiles: tuple[float, float] = (0.1, 0.9), pooled: bool = False
) -> tuple[Tensor, Tensor]:
    """Return measured similarities inside and between clusters, round by round.

    Where the two overlap, no way of choosing peers by them can tell the clusters apart: see Fig. 4.3 to 4.5 of *With a
    Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies* (Hagander &
    Ihre-Thomason, Lund University, 2024). A node's similarity to itself, and values that are not finite, are left out.

    Args:
        scores: Edges j -> i and the similarity that i has measured, by round, such as ``history.scores``.
        cluster: The true cluster of each node, [K].
        quantiles: Lower and upper end of the bands, 0 <= low <= high <= 1.
        pooled: Take the receivers of all clusters together, C = 1.

    Returns:
        Similarities to the own cluster and to others, each [3, T, C], float64; mean, lower and upper end, by round and
        by cluster of the receivers, both ascending. NaN where there is no value.
    """
    if quantiles[0] > quantiles[1]:
        raise RangeError("quantiles", f"quantiles must be (low, high) with low <= high, got {quantiles}")
    cluster = cluster.cpu()
    group = torch.zeros_like(cluster) if pooled else cluster
    groups = group.unique()
    bands = torch.empty(2, 3, len(scores), len(groups), dtype=torch.float64)
    for t, round_ in enumerate(sorted(scores)):
        edge_index, score = scores[round_][0].detach().cpu(), scores[round_][1].detach().cpu().double()
        check_edges(edge_index, score.nan_to_num(), cluster.numel(), f"round {round_}: ")
        used = (edge_index[0] != edge_index[1]) & score.isfinite()
        (sender, receiver), score = edge_index[:, used].long(), score[used]
        same = cluster[sender] == cluster[receiver]
        for c, one in enumerate(groups):
            here = group[receiver] == one
            bands[0, :, t, c] = _spread(score[here & same], quantiles)
            bands[1, :, t, c] = _spread(score[here & ~same], quantiles)
    return bands[0], bands[1]


def _spread(values: Tensor, quantiles: tuple[float, float]) -> Tensor:
    """Return mean and two quantiles [3], with linear interpolation; `torch.quantile` takes no more than 16 M values."""
    if not len(values):
        return torch.full((3,), torch.nan, dtype=torch.float64)
    return torch.tensor([float(values.mean()), *np.quantile(values.numpy(), quantiles)], dtype=torch.float64)


def _draw_bands(rounds: Sequence[int], bands: Mapping[str, tuple[Tensor, Tensor]], ylabel: str, title: str) -> Figure:
    """Draw mean, low and high [3, T] of what is measured inside clusters and between them, a panel for each name."""
    figure, panels = _panels_over_rounds([*bands], ylabel, title)
    for panel, pair in zip(panels, bands.values(), strict=True):
        for label, band, color, line in zip(("own cluster", "others"), pair, COLORS, ("-", "--"), strict=False):
            mean, low, high = band.numpy()
            panel.plot(rounds, mean, color=color, linestyle=line, marker=".", label=label)
            panel.fill_between(rounds, low, high, color=color, alpha=0.15, linewidth=0)
    legend_right(figure)
    return figure


def _panels_over_rounds(names: Sequence[str], ylabel: str, title: str) -> tuple[Figure, list[Axes]]:
    """Return a figure with one panel for each name, all with the same axes."""
    figure, panels = new_panels(len(names), 2.7, 2.9, 1.7, title, sharex=True, sharey=True)
    for panel, name in zip(panels, names, strict=True):
        panel.set_title(name)
        over_rounds(panel, ylabel)
        panel.label_outer()
    return figure, panels


def merge_curves(history: History, cluster: Tensor, title: str, deaths: Mapping[int, int] | None = None) -> Figure:
    """Draw the validation metric before and after merging over rounds, cluster by cluster.

    It is the lower part of Fig. 4.3 to 4.5, and Fig. 4.6, of *Little Help*. Means over nodes; what lies between the
    curves is shaded where merging made models worse. The scale is logarithmic for metrics
    other than shares that are positive and span more than two powers of ten.

    Args:
        history: Of a run with ``callbacks=[WatchMerging()]``.
        cluster: The true cluster of each node, [K], a panel each.
        title: Title of the figure.
        deaths: The round in which a cluster was found to die, by cluster, where there is a vertical line.
    """
    share = history.metric in SHARES
    clusters = cluster.unique().tolist()
    names = [f"cluster {one:g}" for one in clusters]
    figure, panels = _panels_over_rounds(names, f"validation {history.metric}{' (%)' if share else ''}", title)
    # twice [T, K]
    tables = [(100 if share else 1) * history.table(f"val_metric_{when}") for when in ("before", "after")]
    if not share:
        log_if_wide(panels[0], torch.cat(tables))  # the panels share it
    for panel, one in zip(panels, clusters, strict=True):
        before, after = (table[:, cluster == one].nanmean(1).numpy() for table in tables)
        panel.plot(history.rounds, before, color=COLORS[1], linestyle="--", label="before merging")
        panel.plot(history.rounds, after, color=COLORS[0], label="after merging")
        worse = after < before if history.higher_is_better else after > before
        hurts = {"color": COLORS[1], "alpha": 0.2, "linewidth": 0, "label": "merging hurts"}
        panel.fill_between(history.rounds, before, after, where=worse, **hurts)
        if deaths and one in deaths:
            panel.axvline(deaths[one], color="black", linestyle=":", linewidth=1, label="cluster death")
    legend_right(figure)
    return figure


def log_if_wide(axes: Axes, values: Tensor) -> None:
    """Make the vertical scale logarithmic for positive values that span more than two powers of ten."""
    known = values[values.isfinite()]
    if len(known) and 0 < 100 * float(known.min()) < float(known.max()):
        axes.set_yscale("log")


def own_weight_curves(history: History, title: str) -> Figure:
    """Draw the weight of nodes' own models, the entropy of their weights and the largest other weight over rounds.

    Means over nodes, and a band from the 10 % to the 90 % quantile. If the own model's weight rises to 1 and the
    entropy falls to 0, a run has become local training; if the entropy stays at 1, it averages over all neighbors.
    What attention adds has a panel for each kind, with a logarithmic scale where values are positive and span more than
    two powers of ten.

    Args:
        history: Of a run with ``callbacks=[WatchWeights()]``.
        title: Title of the figure.
    """
    kinds = {"weights": dict(WEIGHTS)}
    for name in sorted(history.values):
        if name.startswith("weigher/"):
            kind, _, of = name.removeprefix("weigher/").partition("/")
            kinds.setdefault(kind.replace("_", " "), {})[name] = (of or kind).replace("_", " ")
    figure, panels = new_panels(len(kinds), 3.0, 2.9, 1.9, title)
    looks, band = cycle(LOOKS), torch.tensor([0.1, 0.9], dtype=torch.float64)
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


def comparison_figures(
    comparison: Comparison, weights_of: Sequence[str], title: str | None = None
) -> dict[str, Figure]:
    """Draw how methods did, and whom the nodes listened to on the last seed.

    Returns ``accuracy``; ``weights_<name>`` for each of some methods that did not fail, nodes sorted by cluster or
    classes where known; and ``weight_by_overlap`` at their last two recorded rounds where classes are known.
    """
    figures, late, classes = {"accuracy": accuracy_curves(comparison, title)}, {}, None
    for name in weights_of:
        if name not in comparison.results:
            continue
        result = comparison.results[name]
        graphs, classes = result.history.graphs, result.tasks.classes
        group = classes if result.tasks.cluster is None else result.tasks.cluster
        figures[f"weights_{name}"] = weight_heatmaps(result, cluster=group, title=f"{name}: who listens to whom")
        late |= {f"{name}, round {round_}": graphs[round_] for round_ in sorted(graphs)[-2:]}
    if classes is not None:
        heading = "Do nodes listen to those with the same classes?"
        figures["weight_by_overlap"] = weight_by_overlap_figure(late, classes, heading)
    return figures


def weight_by_overlap(edge_index: Tensor, edge_weight: Tensor, classes: Tensor) -> tuple[Tensor, ...]:
    """Return mean weights against the number of classes that two nodes share.

    It is what Fig. 7 of `"Learning to Collaborate in Decentralized Learning of Personalized Models"
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_ shows.
    All ordered pairs of different nodes count; a pair without an edge has weight 0.

    Returns:
        The numbers of shared classes that occur, ascending; of the ordered pairs with each the mean weight and its
        standard deviation (of the population); and how many pairs they are. All four are [O].
    """
    if classes.dim() != 2 or classes.dtype != torch.bool:
        raise ShapeError(
            "classes", f"classes must be bool of shape [K, C], got {classes.dtype} of {list(classes.shape)}"
        )
    shared = (classes.double() @ classes.double().t()).round()
    weights = pair_weights(edge_index, edge_weight, len(classes))
    different = ~torch.eye(len(classes), dtype=torch.bool)
    weights = weights.where(~weights.isnan(), 0.0)[different]  # [K (K - 1)]
    overlap, group, pairs = shared[different].long().unique(return_inverse=True, return_counts=True)
    mean = scatter(weights, group, dim_size=len(overlap), reduce="mean")
    std = scatter((weights - mean[group]).square(), group, dim_size=len(overlap), reduce="mean").sqrt()
    return overlap, mean, std, pairs


def weight_by_overlap_figure(graphs: Mapping[str, Graph], classes: Tensor, title: str) -> Figure:
    """Draw mean mixing weights against the number of classes that two nodes share, methods side by side.

    It is Fig. 7 of `Learning to Collaborate in Decentralized Learning of Personalized Models (Li et al., CVPR 2022)
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_. All ordered pairs of different nodes count, those without an edge
    with weight 0. Bars reach one standard deviation over pairs up and down, but not below 0. The dashed line is the
    mean weight of all pairs: where a method knows nothing, every mean lies on it.

    Args:
        graphs: Edges j -> i, [2, E], and what i gives to j, [E], by the name of the panel.
        classes: Which classes each node has, [K, C] of bool.
        title: Title of the figure.
    """
    figure = new_figure(2.9 * len(graphs) + 0.8, 3.7, title)
    panels = figure.subplots(1, len(graphs), squeeze=False, sharey=True)[0]
    for panel, (name, (edge_index, edge_weight)) in zip(panels, graphs.items(), strict=True):
        found = weight_by_overlap(edge_index.cpu(), edge_weight.cpu(), classes.cpu())
        overlap, mean, std, pairs = (values.numpy() for values in found)
        below = std.clip(max=mean.clip(min=0)) if (mean >= 0).all() else std
        panel.errorbar(overlap, mean, [below, std], color=COLORS[0], marker="o", capsize=4)
        overall = float((mean * pairs).sum() / pairs.sum())
        panel.axhline(overall, color=COLORS[1], linestyle="--", label="all pairs")
        panel.set(title=name, xlabel="shared classes\n(number of pairs)", xmargin=0.12)
        panel.set_xticks(overlap, [f"{o}\n({p:,})" for o, p in zip(overlap, pairs, strict=True)])
        panel.grid(axis="y", color=GRAY)
    panels[0].set_ylabel("mixing weight (mean ± std)")
    panels[0].legend(frameon=False, loc="upper left")
    return figure
