"""Do the weights show the clusters? Graphs with a weight for every pair in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import torch
from torch import Tensor

from graphcollab.metrics import adjusted_rand_index, recovery_auc
from graphcollab.report._text import mean_spread, text_table
from graphcollab.settings import Real, checked

__all__ = ["weight_table"]

COLUMNS = ("weight inside", "weight between", "recovery AUC", "adjusted Rand", "exact on")


@checked
def weight_table(
    runs: Mapping[str, Sequence[tuple[Tensor, Tensor]]],
    cluster: Tensor,
    threshold: Annotated[float, Real(least=0, below=1)] = 0.5,
    markdown: bool = False,
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
        runs: For every method one graph, edges j -> i and their weights, for each seed.
        cluster: The true cluster of each node.
        threshold: What separates listening from not listening, as a share of m.
        markdown: Write the table in Markdown.

    Shapes:
        cluster: [K].

    Raises:
        ValueError: If there are no runs, a method has none, or the threshold is not in [0, 1).

    Example:
        >>> edge_index = torch.tensor([[1, 0, 3, 2, 2], [0, 1, 2, 3, 0]])
        >>> weight = torch.tensor([1.0, 0.9, 1.0, 0.7, 0.2])
        >>> print(weight_table({"cobo": [(edge_index, weight)]}, torch.tensor([0, 0, 1, 1])))
        method  weight inside  weight between  recovery AUC  adjusted Rand  exact on
        ------  -------------  --------------  ------------  -------------  --------
        cobo            0.900           0.025         1.000           1.00    1 of 1
    """
    if not runs or not all(runs.values()):
        counts = {name: len(seeds) for name, seeds in runs.items()}
        raise ValueError(f"expected the graph of at least one run of each method, got {counts}")
    rows = []
    for name, seeds in runs.items():
        # [S, 5]
        values = torch.tensor([_measure(*graph, cluster.cpu(), threshold) for graph in seeds], dtype=torch.float64)
        shown = [mean_spread(column, digits) for column, digits in zip(values.T[:4], (3, 3, 3, 2), strict=True)]
        rows.append([name, *shown, f"{int(values[:, 4].sum())} of {len(values)}"])
    return text_table(["method", *COLUMNS], rows, markdown)


def _measure(edge_index: Tensor, weight: Tensor, cluster: Tensor, threshold: float) -> list[float]:
    """Return the values of one graph in the order of the columns."""
    edge_index, weight, count = edge_index.cpu(), weight.cpu().double(), len(cluster)
    area = recovery_auc(edge_index, weight, cluster)
    rand = adjusted_rand_index(edge_index, weight, cluster)
    matrix = weight.new_zeros(count, count).index_put((edge_index[1], edge_index[0]), weight)
    same = cluster[:, None] == cluster
    own = torch.eye(count, dtype=torch.bool)
    inside, apart = matrix[same & ~own], matrix[~same]
    return [float(inside.mean()), float(apart.mean()), area, rand, float(_exact(matrix, same, own, threshold))]


def _exact(matrix: Tensor, same: Tensor, own: Tensor, threshold: float) -> bool:
    """Tell whether every receiver, a row, gives much to its own cluster and little to others."""
    alone = same.sum(1) == 1
    most = torch.where(alone, matrix.diagonal(), matrix.masked_fill(own, 0).amax(1)).clamp(min=0)
    limit = threshold * most[:, None]
    return bool(((matrix > limit) | ~same | own).all() and ((matrix <= limit) | same).all())
