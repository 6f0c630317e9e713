"""Learned graphs in numbers: do they show the true clusters?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated

import torch
from torch import Tensor

from graphcollab.metrics import adjusted_rand_index, cluster_traffic, contact_counts, never_sampled, recovery_auc
from graphcollab.metrics.edges import Graph, Graphs, pair_weights
from graphcollab.report._text import require_some, shown, table_text
from graphcollab.report.values import Cell, Column, Table, mean_cell
from graphcollab.settings import Count, Real


@shown
def weight_table(
    runs: Mapping[str, Sequence[Graph]],
    cluster: Tensor,
    threshold: Annotated[float, Real(least=0, below=1)] = 0.5,
) -> str:
    """Return how well weights show the true clusters, mean and standard deviation over runs.

    Columns are the mean weight of pairs inside a cluster and of pairs of different ones (pairs without an edge weigh
    0), the area under the ROC curve (`recovery_auc`), the adjusted Rand index (`adjusted_rand_index`), and on how many
    runs the clusters are exact. `peer_table` is for methods whose nodes meet others every round.

    Clusters are exact if every receiver tells its own from the others: with m the largest weight that it gives to
    another node, it gives more than half of m to everybody in its cluster, and at most half of m to everybody else. So
    it does not matter whether weights are in [0, 1] or sum to 1. A node that is alone in its cluster is compared with
    itself: m is the weight of its self-loop, 0 without one. A node that listens to nobody has not found its cluster,
    unless it is alone in it.

    Args:
        runs: For every method one graph, edges j -> i, [2, E], and their weights, [E], for each seed.
        threshold: What separates listening from not listening, as a share of m.

    Example:
        >>> edge_index = torch.tensor([[1, 0, 3, 2, 2], [0, 1, 2, 3, 0]])
        >>> weight = torch.tensor([1.0, 0.9, 1.0, 0.7, 0.2])
        >>> print(weight_table({"cobo": [(edge_index, weight)]}, torch.tensor([0, 0, 1, 1])))
        method  weight inside  weight between  recovery AUC  adjusted Rand  exact on
        ------  -------------  --------------  ------------  -------------  --------
        cobo            0.900           0.025         1.000           1.00    1 of 1
    """
    require_some(runs, "the graph of at least one run of each method")
    cluster = cluster.cpu()
    same, own = cluster[:, None] == cluster, torch.eye(len(cluster), dtype=torch.bool)
    alone, rows = same.sum(1) == 1, []
    for name, seeds in runs.items():
        values, exact = [], 0
        for edge_index, weight in seeds:
            weights = pair_weights(edge_index.cpu(), weight.cpu(), len(cluster)).nan_to_num(0.0)
            inside, between = float(weights[same & ~own].mean()), float(weights[~same].mean())
            area, rand = (of(edge_index, weight, cluster) for of in (recovery_auc, adjusted_rand_index))
            values.append((inside, between, area, rand))
            most = torch.where(alone, weights.diagonal(), weights.masked_fill(own, 0).amax(1)).clamp(min=0)
            heard = weights > threshold * most[:, None]
            exact += bool((heard | ~same | own).all() and (~heard | same).all())
        rows.append([Cell(name), *_cells(values), Cell(exact, unit=f"of {len(seeds)}")])
    digits = {"weight inside": 3, "weight between": 3, "recovery AUC": 3, "adjusted Rand": 2}
    columns = [Column("method"), *(Column(title, "number", n) for title, n in digits.items())]
    return table_text(Table([*columns, Column("exact on", "count")], rows))


@shown
def peer_table(runs: Mapping[str, Sequence[Graphs]], cluster: Tensor, last: Count | None = None) -> str:
    """Return how well the graphs of methods show the true clusters, mean and standard deviation over runs.

    Of the last rounds: the share of the merged models that came from a receiver's own cluster (`cluster_traffic`, mean
    over rounds), and of the counts who listened to whom how often (`contact_counts`) the area under the ROC curve
    (`recovery_auc`, pairs that never met count 0) and the adjusted Rand index (`adjusted_rand_index`). Of the whole
    run: how many nodes nobody else ever listened to (`never_sampled`). Methods whose nodes listen to nobody have no
    values. The area is below 1 for nodes that find enough peers and stop looking for the others.

    Args:
        runs: For every method the graphs by round, such as ``history.graphs``, for each seed.
        last: How many of the recorded rounds count as the last ones. Default: a third of them, rounded up.

    Example:
        >>> edge_index = torch.tensor([[1, 0, 3, 2], [0, 1, 2, 3]])
        >>> graphs = {1: (edge_index, torch.tensor([1.0, 1.0, 1.0, 0.0]))}
        >>> print(peer_table({"dac": [graphs]}, torch.tensor([0, 0, 1, 1])))
        method  from own cluster (%)  recovery AUC  adjusted Rand  never heard
        ------  --------------------  ------------  -------------  -----------
        dac                    100.0         0.875           1.00          1.0
    """
    require_some(runs, "the graphs of at least one run of each method")
    cluster, rows = cluster.cpu(), []
    for name, seeds in runs.items():
        values = []
        for graphs in seeds:
            late = {round_: graphs[round_] for round_ in sorted(graphs)[-(last or math.ceil(len(graphs) / 3)) :]}
            edge_index, times = contact_counts(late, len(cluster))
            if not len(times):
                values.append((math.nan,) * 4)
                continue
            share = 100 * float(cluster_traffic(late, cluster)[1].nanmean())
            area, rand = (of(edge_index, times.double(), cluster) for of in (recovery_auc, adjusted_rand_index))
            values.append((share, area, rand, len(never_sampled(graphs, len(cluster)))))
        rows.append([Cell(name), *_cells(values)])
    digits = {"from own cluster (%)": 1, "recovery AUC": 3, "adjusted Rand": 2, "never heard": 1}
    return table_text(Table([Column("method"), *(Column(title, "number", n) for title, n in digits.items())], rows))


def _cells(values: Sequence[tuple[float, ...]]) -> list[Cell]:
    """Return what was measured of each run, a column after the other."""
    return [*map(mean_cell, torch.tensor(values, dtype=torch.float64).T)]
