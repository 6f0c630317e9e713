"""Does the learned graph show the structure that is in the tasks?"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from graphcollab.metrics._edges import check_edges
from graphcollab.settings import checked

__all__ = ["WeightByOverlap", "in_cluster_share", "recovery_auc", "weight_by_overlap"]


@checked
def recovery_auc(edge_index: Tensor, edge_weight: Tensor, cluster: Tensor, missing: float | None = 0.0) -> float:
    """Return the area under the ROC curve of edge weights as scores for "both nodes are of the same cluster".

    1 means that every weight inside a cluster is above every weight between clusters, 0.5 that weights know nothing.

    Args:
        edge_index: Edges j -> i. Self-loops are left out.
        edge_weight: What i gives to j.
        cluster: The true cluster of each node.
        missing: The score of ordered pairs that have no edge; None judges existing edges only. Default: 0.

    Shapes:
        edge_index: [2, E].
        edge_weight: [E].
        cluster: [K].

    Returns:
        The area, or NaN where it is not defined: all pairs are of the same cluster, or none is.

    Raises:
        ValueError: If shapes do not belong together, or an edge is out of range or occurs twice.

    Example:
        >>> edge_index = torch.tensor([[1, 2, 0], [0, 0, 1]])
        >>> recovery_auc(edge_index, torch.tensor([0.8, 0.2, 0.1]), torch.tensor([0, 0, 1]))
        0.875
    """
    same = cluster.view(-1, 1) == cluster.view(1, -1)
    weights, present = _pair_weights(edge_index, edge_weight, cluster.numel(), 0.0 if missing is None else missing)
    judged = ~torch.eye(cluster.numel(), dtype=torch.bool, device=cluster.device)
    if missing is None:
        judged &= present
    labels, scores = same[judged], weights[judged]
    if labels.numel() == 0 or bool(labels.all()) or not bool(labels.any()):
        return float("nan")
    from sklearn.metrics import roc_auc_score  # here, since importing it takes long

    return float(roc_auc_score(labels.cpu().numpy(), scores.cpu().numpy()))


@checked
def in_cluster_share(edge_index: Tensor, edge_weight: Tensor, cluster: Tensor, include_self: bool = True) -> float:
    """Return which share of a receiver's weight goes to its own cluster, averaged over receivers.

    Args:
        edge_index: Edges j -> i.
        edge_weight: What i gives to j, not negative.
        cluster: The true cluster of each node.
        include_self: Whether self-loops count, which are always inside. Default: True.

    Shapes:
        edge_index: [2, E].
        edge_weight: [E].
        cluster: [K].

    Returns:
        The mean share over the receivers that give any weight, or NaN if none does.

    Raises:
        ValueError: If shapes do not belong together, an edge is out of range, or a weight is negative or NaN.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2], [0, 0, 0]])
        >>> in_cluster_share(edge_index, torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0, 0, 1]))
        0.75
    """
    check_edges(edge_index, edge_weight, cluster.numel())
    if bool((edge_weight < 0).any()):
        raise ValueError(f"in_cluster_share needs weights that are not negative, got {float(edge_weight.min()):g}")
    sender, receiver = edge_index.long()
    weight = edge_weight.detach().double()
    if not include_self:
        weight = weight.where(sender != receiver, 0.0)
    inside = weight.where(cluster[sender] == cluster[receiver], 0.0)
    total = scatter(weight, receiver, dim=0, dim_size=cluster.numel(), reduce="sum")
    inside = scatter(inside, receiver, dim=0, dim_size=cluster.numel(), reduce="sum")
    return float((inside[total > 0] / total[total > 0]).mean())


class WeightByOverlap(NamedTuple):
    """Edge weights grouped by how many classes the two nodes share; one entry for each overlap that occurs.

    Args:
        overlap: Numbers of shared classes, ascending.
        mean: Mean weight over all ordered pairs with that overlap.
        std: Their standard deviation (of the population).
        pairs: How many ordered pairs have that overlap.

    Shapes:
        All: [O].
    """

    overlap: Tensor
    mean: Tensor
    std: Tensor
    pairs: Tensor


@checked
def weight_by_overlap(edge_index: Tensor, edge_weight: Tensor, classes: Tensor) -> WeightByOverlap:
    """Return mean weights against the number of classes that two nodes share.

    It is what Fig. 7 of `"Learning to Collaborate in Decentralized Learning of Personalized Models"
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_ shows.
    All ordered pairs of different nodes count; a pair without an edge has weight 0.

    Args:
        edge_index: Edges j -> i. Self-loops are left out.
        edge_weight: What i gives to j.
        classes: Which classes each node has.

    Shapes:
        edge_index: [2, E].
        edge_weight: [E].
        classes: [K, C], bool.

    Raises:
        ValueError: If shapes do not belong together, or an edge is out of range or occurs twice.

    Example:
        >>> edge_index = torch.tensor([[1, 2, 0], [0, 0, 1]])
        >>> classes = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 1, 1]]).bool()
        >>> result = weight_by_overlap(edge_index, torch.tensor([0.8, 0.2, 0.6]), classes)
        >>> result.overlap.tolist(), result.pairs.tolist(), [round(mean, 3) for mean in result.mean.tolist()]
        ([1, 2], [4, 2], [0.05, 0.7])
    """
    if classes.dim() != 2 or classes.dtype != torch.bool:
        raise ValueError(f"classes must be bool of shape [K, C], got {classes.dtype} of {list(classes.shape)}")
    count = classes.size(0)
    weights, _ = _pair_weights(edge_index, edge_weight, count, missing=0.0)
    different = ~torch.eye(count, dtype=torch.bool, device=classes.device)
    # [K (K - 1)]
    shared = (classes.double() @ classes.double().t()).round().long()[different]
    overlap, group, counts = shared.unique(return_inverse=True, return_counts=True)
    mean = scatter(weights[different], group, dim=0, dim_size=overlap.numel(), reduce="sum") / counts
    square = (weights[different] - mean[group]).square()
    std = (scatter(square, group, dim=0, dim_size=overlap.numel(), reduce="sum") / counts).sqrt()
    return WeightByOverlap(overlap, mean, std, counts)


def _pair_weights(edge_index: Tensor, edge_weight: Tensor, count: int, missing: float) -> tuple[Tensor, Tensor]:
    """Return the weights and the presence of all ordered pairs, both [K, K]: receivers in rows, senders in columns."""
    check_edges(edge_index, edge_weight, count)
    sender, receiver = edge_index.long()
    weights = edge_weight.new_full((count, count), missing, dtype=torch.float64)
    weights[receiver, sender] = edge_weight.detach().double()
    present = torch.zeros_like(weights, dtype=torch.bool)
    present[receiver, sender] = True
    if int(present.sum()) < sender.numel():
        raise ValueError(f"{sender.numel() - int(present.sum())} of {sender.numel()} edges occur more than once")
    return weights, present
