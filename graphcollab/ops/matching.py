"""Distances between sets of points."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["matching_distances"]


@torch.no_grad()
def matching_distances(points: Tensor, sizes: Tensor) -> Tensor:
    r"""Return the minimum matching distance of every two sets of points, [K, K].

    .. math::
        d(A, B) = \min_\pi \sqrt{\frac{1}{|A|} \sum_{a \in A} \lVert a - b_{\pi(a)} \rVert^2}, \qquad |A| \le |B|

    where π gives every point of the smaller set a point of the larger one, no two the same. So a set is at distance 0
    from every set that contains it. The best π is found by solving an assignment problem, not by trying permutations.

    Args:
        points: The points, those of a set one behind the other.
        sizes: How many points every set has.

    Shapes:
        points: [M, D]; sizes: [K], with sum M.
        Output: [K, K], float64 on the CPU, symmetric.

    Raises:
        ValueError: If the sizes do not sum to M, or a set is empty.

    Example:
        >>> points = torch.tensor([[0.0], [1.0], [1.0], [0.0], [3.0]])
        >>> matching_distances(points, torch.tensor([2, 2, 1])).tolist()
        [[0.0, 0.0, 2.0], [0.0, 0.0, 2.0], [2.0, 2.0, 0.0]]
    """
    from scipy.optimize import linear_sum_assignment  # here, since importing them takes long
    from scipy.spatial.distance import cdist

    if int(sizes.sum()) != len(points) or bool((sizes < 1).any()):
        raise ValueError(
            f"sizes must be at least 1 and sum to the number of points, {len(points)}, got {sizes.tolist()[:10]}"
        )
    values = points.double().cpu().numpy()
    bounds = [0, *sizes.cumsum(0).tolist()]
    distance = torch.zeros(len(sizes), len(sizes), dtype=torch.float64)
    for i in range(1, len(sizes)):
        # [n_i, points before i's]
        cost = cdist(values[bounds[i] : bounds[i + 1]], values[: bounds[i]], "sqeuclidean")
        for j in range(i):
            pairs = cost[:, bounds[j] : bounds[j + 1]]
            distance[i, j] = pairs[linear_sum_assignment(pairs)].mean() ** 0.5
    return distance + distance.T
