"""When do weights tell clusters apart?"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from matplotlib.figure import Figure
from torch import Tensor

from graphcollab.metrics import similarity_by_cluster
from graphcollab.report._heatmaps import edge_matrix
from graphcollab.report._panels import bands_by_cluster
from graphcollab.settings import checked

__all__ = ["weight_curves"]


@checked
def weight_curves(
    graphs: Mapping[int, tuple[Tensor, Tensor]],
    cluster: Tensor,
    pooled: bool = True,
    missing: float | None = 0.0,
    title: str | None = None,
) -> Figure:
    """Draw the weight that nodes give to their own cluster and to others, over rounds.

    It is what `weight_heatmaps` shows, and Fig. 3 of `CoBo: Collaborative Learning via Bilevel Optimization
    <https://arxiv.org/abs/2409.05539>`_ (Hashemi et al., NeurIPS 2024), followed over time: mean weight of ordered
    pairs of different nodes, and a band from the smallest to the largest. Clusters have been found where the bands no
    longer overlap.

    Args:
        graphs: Edges j -> i and what i gives to j, by round, such as ``history.graphs``.
        cluster: The true cluster of each node.
        pooled: Draw one panel for the nodes of all clusters. Otherwise there is one for each cluster of receivers.
        missing: The weight of ordered pairs that have no edge; None shows existing edges only.
        title: Title of the whole figure.

    Shapes:
        graphs: [2, E] and [E] for each round.
        cluster: [K].

    Raises:
        ValueError: If there is no graph, or edges do not fit the nodes.

    Example:
        >>> import torch
        >>> edge_index, cluster = torch.tensor([[1, 2, 0], [0, 0, 1]]), torch.tensor([0, 0, 1])
        >>> figure = weight_curves({1: (edge_index, torch.tensor([0.5, 0.25, 1.0]))}, cluster)
        >>> [(line.get_label(), line.get_ydata().tolist()) for line in figure.axes[0].lines]
        [('own cluster', [0.75]), ('others', [0.0625])]
    """
    if missing is not None:
        graphs = {r: _all_pairs(*graph, len(cluster), missing, f"round {r}") for r, graph in graphs.items()}
    inside, between = similarity_by_cluster(graphs, cluster, quantiles=(0.0, 1.0), pooled=pooled)
    if bool((inside.isnan() & between.isnan()).all()):
        raise ValueError("there are no weights between different nodes: record graphs with RecordGraph(rounds)")
    return bands_by_cluster(sorted(graphs), None if pooled else cluster, inside, between, "weight", title)


def _all_pairs(
    edge_index: Tensor, edge_weight: Tensor, count: int, missing: float, where: str
) -> tuple[Tensor, Tensor]:
    """Return edges between all ordered pairs of nodes, and their weights."""
    matrix = edge_matrix(edge_index, edge_weight, count, where).nan_to_num(missing)  # receivers in rows
    receiver, sender = torch.meshgrid(torch.arange(count), torch.arange(count), indexing="ij")
    return torch.stack([sender.flatten(), receiver.flatten()]), matrix.flatten()
