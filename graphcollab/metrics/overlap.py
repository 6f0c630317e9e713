"""Do nodes listen to those with the same classes?"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from graphcollab.metrics.edges import pair_weights
from graphcollab.settings import checked

__all__ = ["class_overlap", "weight_by_overlap"]


@checked
def class_overlap(classes: Tensor) -> Tensor:
    """Return which share of a receiver's classes a sender has too, for every ordered pair of nodes.

    It is what Fig. 4 of `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_ shows beside
    the learned weights. The paper does not say what the share is of; where all nodes have equally many classes, as
    there, it is the same for both nodes of a pair.

    Args:
        classes: Which classes each node has, such as ``tasks.classes``, [K, C], bool.

    Shapes:
        Output: [K, K], float64: receivers in rows, senders in columns; NaN in the rows of nodes without classes.

    Raises:
        ValueError: If classes are not bool of shape [K, C].

    Example:
        >>> class_overlap(torch.tensor([[1, 1, 1, 1], [0, 0, 0, 1]]).bool()).tolist()
        [[1.0, 0.25], [1.0, 1.0]]
    """
    shared = _shared(classes)
    return shared / shared.diagonal()[:, None]


def _shared(classes: Tensor) -> Tensor:
    """Return how many classes nodes have in common, [K, K], float64."""
    if classes.dim() != 2 or classes.dtype != torch.bool:
        raise ValueError(f"classes must be bool of shape [K, C], got {classes.dtype} of {list(classes.shape)}")
    return (classes.double() @ classes.double().t()).round()


@checked
def weight_by_overlap(edge_index: Tensor, edge_weight: Tensor, classes: Tensor) -> tuple[Tensor, ...]:
    """Return mean weights against the number of classes that two nodes share.

    It is what Fig. 7 of `"Learning to Collaborate in Decentralized Learning of Personalized Models"
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_ shows.
    All ordered pairs of different nodes count; a pair without an edge has weight 0.

    Args:
        edge_index: Edges j -> i, [2, E]. Self-loops are left out.
        edge_weight: What i gives to j, [E].
        classes: Which classes each node has, [K, C], bool.

    Returns:
        The numbers of shared classes that occur, ascending; of the ordered pairs with each the mean weight and its
        standard deviation (of the population); and how many pairs they are. All four are [O].

    Raises:
        ValueError: If shapes do not belong together, or an edge is out of range or occurs twice.

    Example:
        >>> edge_index = torch.tensor([[1, 2, 0], [0, 0, 1]])
        >>> classes = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 1, 1]]).bool()
        >>> overlap, mean, std, pairs = weight_by_overlap(edge_index, torch.tensor([0.75, 0.25, 0.5]), classes)
        >>> overlap.tolist(), mean.tolist(), pairs.tolist()
        ([1, 2], [0.0625, 0.625], [4, 2])
    """
    shared = _shared(classes)
    weights = pair_weights(edge_index, edge_weight, len(classes))
    different = ~torch.eye(len(classes), dtype=torch.bool, device=classes.device)
    weights = weights.where(~weights.isnan(), 0.0)[different]  # [K (K - 1)]
    overlap, group, pairs = shared[different].long().unique(return_inverse=True, return_counts=True)
    mean = scatter(weights, group, dim_size=len(overlap), reduce="mean")
    std = scatter((weights - mean[group]).square(), group, dim_size=len(overlap), reduce="mean").sqrt()
    return overlap, mean, std, pairs
