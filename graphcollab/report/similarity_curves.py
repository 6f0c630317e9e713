"""Can nodes tell their cluster from others? (Fig. 4.3 of *With a Little Help from My Friends*)."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure
from torch import Tensor

from graphcollab.metrics import similarity_by_cluster
from graphcollab.report._panels import bands_by_cluster
from graphcollab.settings import checked

__all__ = ["similarity_curves"]


@checked
def similarity_curves(
    scores: Mapping[int, tuple[Tensor, Tensor]],
    cluster: Tensor,
    metric: str = "similarity",
    pooled: bool = False,
    title: str | None = None,
) -> Figure:
    """Draw the similarity that nodes measure to their own cluster and to others, over rounds.

    It is the upper part of Fig. 4.3 to 4.5 of *With a Little Help from My Friends: A Comparative Study of Decentralized
    Deep Learning Strategies* (Hagander & Ihre-Thomason, Lund University, 2024), for all nodes of a cluster together:
    mean, and a band from the 10 % to the 90 % quantile. Where the bands overlap, nodes cannot be sure of their cluster.

    Args:
        scores: Edges j -> i and the similarity that i has measured, by round, such as ``history.scores``.
        cluster: The true cluster of each node. There is a panel for each cluster whose nodes have measured something.
        metric: What was measured.
        pooled: Draw one panel for the nodes of all clusters.
        title: Title of the whole figure.

    Shapes:
        scores: [2, E] and [E] for each round.
        cluster: [K].

    Raises:
        ValueError: If nothing was measured, or edges do not fit the nodes.

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[1, 2, 0], [0, 0, 2]])
        >>> scores = {1: (edge_index, torch.tensor([0.5, 0.25, 0.125]))}
        >>> figure = similarity_curves(scores, torch.tensor([0, 0, 1]))
        >>> [axes.get_title() for axes in figure.axes]
        ['cluster 0', 'cluster 1']
    """
    inside, between = similarity_by_cluster(scores, cluster, pooled=pooled)
    if bool((inside.isnan() & between.isnan()).all()):
        raise ValueError(
            "no similarities were recorded: record them with RecordGraph(scores=True), or measure them with "
            "ProbeSimilarity(...)"
        )
    return bands_by_cluster(sorted(scores), None if pooled else cluster, inside, between, metric, title)
