"""Can nodes tell their own cluster from others by what they measure?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from graphcollab.metrics._edges import check_edges
from graphcollab.settings import Fraction, checked

__all__ = ["Band", "SimilarityByCluster", "similarity_by_cluster"]


class Band(NamedTuple):
    """How values are spread: their mean and two quantiles, NaN where there is no value.

    Shapes:
        All: [T, C].
    """

    mean: Tensor
    low: Tensor
    high: Tensor


class SimilarityByCluster(NamedTuple):
    """Similarities measured by the nodes of each cluster.

    Args:
        rounds: Rounds, ascending.
        clusters: The clusters of the receivers, ascending.
        inside: Similarities to the own cluster.
        between: Similarities to other clusters.

    Shapes:
        rounds: [T], int64; clusters: [C]; inside, between: three times [T, C].
    """

    rounds: Tensor
    clusters: Tensor
    inside: Band
    between: Band


@checked
def similarity_by_cluster(
    scores: Mapping[int, tuple[Tensor, Tensor]],
    cluster: Tensor,
    quantiles: tuple[Fraction, Fraction] = (0.1, 0.9),
    pooled: bool = False,
) -> SimilarityByCluster:
    """Return measured similarities inside and between clusters, round by round.

    Where the two overlap, no way of choosing peers by them can tell the clusters apart: see Fig. 4.3 to 4.5 of *With a
    Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies* (Hagander &
    Ihre-Thomason, Lund University, 2024). A node's similarity to itself, and values that are not finite, are left out.

    Args:
        scores: Edges j -> i and the similarity that i has measured, by round, such as ``history.scores``.
        cluster: The true cluster of each node.
        quantiles: Lower and upper end of the bands.
        pooled: Take the nodes of all clusters together, as one row of results whose "cluster" is -1.

    Shapes:
        scores: [2, E] and [E] for each round.
        cluster: [K].

    Raises:
        ValueError: If shapes do not belong together, an edge is out of range, or the quantiles are not
            0 <= low <= high <= 1.

    Example:
        >>> edge_index = torch.tensor([[1, 2, 0], [0, 0, 2]])
        >>> found = similarity_by_cluster({1: (edge_index, torch.tensor([0.5, 0.25, 0.125]))}, torch.tensor([0, 0, 1]))
        >>> found.inside.mean.tolist(), found.between.mean.tolist()
        ([[0.5, nan]], [[0.25, 0.125]])
    """
    if quantiles[0] > quantiles[1]:
        raise ValueError(f"quantiles must be (low, high) with low <= high, got {quantiles}")
    cluster = cluster.cpu()
    clusters = torch.tensor([-1]) if pooled else cluster.unique()
    bands = torch.empty(2, 3, len(scores), len(clusters), dtype=torch.float64)  # inside and between; mean, low, high
    for t, round_ in enumerate(sorted(scores)):
        edge_index, score = scores[round_][0].detach().cpu(), scores[round_][1].detach().cpu().double()
        check_edges(edge_index, score.nan_to_num(), cluster.numel(), f"round {round_}: ")
        used = (edge_index[0] != edge_index[1]) & score.isfinite()
        (sender, receiver), score = edge_index[:, used].long(), score[used]
        same = cluster[sender] == cluster[receiver]
        for c, one in enumerate(clusters):
            here = torch.ones_like(same) if pooled else cluster[receiver] == one
            bands[0, :, t, c] = _spread(score[here & same], quantiles)
            bands[1, :, t, c] = _spread(score[here & ~same], quantiles)
    return SimilarityByCluster(torch.tensor(sorted(scores)).long(), clusters, Band(*bands[0]), Band(*bands[1]))


def _spread(values: Tensor, quantiles: tuple[float, float]) -> Tensor:
    """Return mean and two quantiles [3], with linear interpolation; `torch.quantile` takes no more than 16 M values."""
    if not len(values):
        return torch.full((3,), torch.nan, dtype=torch.float64)
    ordered, places = values.sort().values, torch.tensor(quantiles, dtype=torch.float64) * (len(values) - 1)
    below = places.floor().long()
    above = (below + 1).clamp(max=len(values) - 1)
    return torch.cat([values.mean().view(1), torch.lerp(ordered[below], ordered[above], places - below)])
