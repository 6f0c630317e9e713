"""Who listened to whom over the rounds of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from graphcollab.metrics._edges import check_edges
from graphcollab.metrics.recovery import in_cluster_share
from graphcollab.settings import Natural, checked

__all__ = ["ClusterTraffic", "cluster_traffic", "contact_counts", "never_sampled"]


@checked
def contact_counts(
    graphs: Mapping[int, tuple[Tensor, Tensor]], num_nodes: Natural, downloaded: bool = False
) -> tuple[Tensor, Tensor]:
    """Count in how many rounds each node listened to each other.

    It is what the heat maps show in Fig. 4.2 and 4.9 of *With a Little Help from My Friends: A Comparative Study of
    Decentralized Deep Learning Strategies* (Hagander & Ihre-Thomason, Lund University, 2024).

    Args:
        graphs: Edges j -> i and what i gave to j, by round, such as ``history.graphs``.
        num_nodes: K.
        downloaded: Count every edge, also those of weight 0, whose models were only scored. Default: models that were
            merged, with a weight above 0.

    Shapes:
        graphs: [2, E] and [E] for each round.
        Output: [2, E'] (every pair of different nodes that occurs, sorted by receiver, then sender) and [E'], int64.

    Raises:
        ValueError: If shapes do not belong together, an edge is out of range, or a weight is NaN.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2], [0, 0, 0]])
        >>> graphs = {1: (edge_index, torch.tensor([0.5, 0.5, 0.0])), 2: (edge_index, torch.tensor([0.2, 0.4, 0.4]))}
        >>> contact_counts(graphs, num_nodes=3)
        (tensor([[1, 2],
                [0, 0]]), tensor([2, 1]))
    """
    keys = []
    for round_, (edge_index, edge_weight) in graphs.items():
        check_edges(edge_index, edge_weight, num_nodes, f"round {round_}: ")
        sender, receiver = edge_index[:, _messages(edge_index, edge_weight, downloaded)].cpu().long()
        keys.append(receiver * num_nodes + sender)
    pairs, counts = torch.cat([torch.empty(0).long(), *keys]).unique(return_counts=True)
    return torch.stack([pairs % max(num_nodes, 1), pairs // max(num_nodes, 1)]), counts


@checked
def never_sampled(graphs: Mapping[int, tuple[Tensor, Tensor]], num_nodes: Natural, downloaded: bool = False) -> Tensor:
    """Return the nodes nobody else ever listened to: what they have learned helped nobody.

    Args:
        graphs: Edges j -> i and what i gave to j, by round, such as ``history.graphs``.
        num_nodes: K.
        downloaded: Whether being scored counts too. Default: only being merged, with a weight above 0.

    Shapes:
        graphs: [2, E] and [E] for each round.
        Output: [N], ascending.

    Raises:
        ValueError: If shapes do not belong together, an edge is out of range, or a weight is NaN.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2], [0, 0, 0]])
        >>> never_sampled({1: (edge_index, torch.tensor([0.5, 0.5, 0.0]))}, num_nodes=3)
        tensor([0, 2])
    """
    heard = torch.zeros(num_nodes, dtype=torch.bool)
    heard[contact_counts(graphs, num_nodes, downloaded)[0][0]] = True
    return (~heard).nonzero().flatten()


class ClusterTraffic(NamedTuple):
    """Shares of what is listened to that come from a receiver's own cluster.

    Args:
        rounds: Rounds, ascending.
        clusters: The clusters, ascending.
        share: Mean over the receivers of each cluster; NaN where none of them listened to anybody.
        mean: Mean over all receivers.

    Shapes:
        rounds: [T], int64; clusters: [C]; share: [T, C]; mean: [T].
    """

    rounds: Tensor
    clusters: Tensor
    share: Tensor
    mean: Tensor


@checked
def cluster_traffic(
    graphs: Mapping[int, tuple[Tensor, Tensor]], cluster: Tensor, downloaded: bool = False
) -> ClusterTraffic:
    """Return which share of the models a node listens to is from its own cluster, round by round.

    It is `in_cluster_share` with every message counted alike: it says how well nodes choose, whatever the weight they
    then give. Self-loops are left out.

    Args:
        graphs: Edges j -> i and what i gave to j, by round, such as ``history.graphs``.
        cluster: The true cluster of each node.
        downloaded: Count every edge, also those of weight 0. Default: those with a weight above 0.

    Shapes:
        graphs: [2, E] and [E] for each round.
        cluster: [K].

    Raises:
        ValueError: If shapes do not belong together, an edge is out of range, or a weight is NaN.

    Example:
        >>> edge_index, cluster = torch.tensor([[1, 2, 0, 0], [0, 0, 1, 2]]), torch.tensor([0, 0, 1])
        >>> traffic = cluster_traffic({1: (edge_index, torch.ones(4))}, cluster)
        >>> traffic.share.tolist(), traffic.mean.tolist()
        ([[0.75, 0.0]], [0.5])
    """
    cluster = cluster.cpu()
    clusters, share, mean = cluster.unique(), [], []
    for round_ in sorted(graphs):
        edge_index, edge_weight = (values.detach().cpu() for values in graphs[round_])
        check_edges(edge_index, edge_weight, cluster.numel(), f"round {round_}: ")
        edge_index = edge_index[:, _messages(edge_index, edge_weight, downloaded)].long()
        parts = [edge_index, *(edge_index[:, cluster[edge_index[1]] == one] for one in clusters)]
        overall, *each = (in_cluster_share(part, torch.ones(part.shape[1]), cluster) for part in parts)
        share.append(each)
        mean.append(overall)
    rounds = torch.tensor(sorted(graphs), dtype=torch.int64)
    table = torch.tensor(share, dtype=torch.float64).view(len(rounds), len(clusters))
    return ClusterTraffic(rounds, clusters, table, torch.tensor(mean, dtype=torch.float64))


def _messages(edge_index: Tensor, edge_weight: Tensor, downloaded: bool) -> Tensor:
    """Return which edges carried a model from one node to another, [E]."""
    different = edge_index[0] != edge_index[1]
    return different if downloaded else different & (edge_weight > 0)
