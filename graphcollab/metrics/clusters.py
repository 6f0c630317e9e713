"""Which groups of nodes does a learned graph consist of, and are they the true ones?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphcollab.checks import own_filter
from graphcollab.metrics._edges import check_edges
from graphcollab.settings import Count, Natural, Seed, checked

__all__ = ["adjusted_rand_index", "recovered_clusters"]

RESTARTS = 10  # Louvain's result depends on the order in which it visits nodes; the best of several is kept


@checked
def adjusted_rand_index(
    edge_index: Tensor,
    edge_weight: Tensor,
    cluster: Tensor,
    num_clusters: Count | None = None,
    seed: Seed = 0,
    node_id: Tensor | None = None,
) -> float:
    """Return the adjusted Rand index between the clusters that a graph falls into and the true ones.

    1 means that they are the same, 0 that they agree no better than by chance. Clusters are recovered by
    `recovered_clusters`, whose notes say which graphs are suited: where nodes sample their peers, sum up rounds first,
    by `contact_counts`.

    Args:
        edge_index: Edges j -> i. Self-loops are left out; edges that occur several times are summed.
        edge_weight: What i gives to j, or how often it listened to it; not negative.
        cluster: The true cluster of each node.
        num_clusters: How many clusters to look for. Default: the graph says it.
        seed: Seed of the search for clusters.
        node_id: Identities of the nodes. Default: their position.

    Shapes:
        edge_index: [2, E].
        edge_weight: [E].
        cluster: [K].
        node_id: [K].

    Raises:
        ValueError: If shapes do not belong together, an edge is out of range, or a weight is negative or NaN.

    Example:
        >>> edge_index = torch.tensor([[1, 0, 3, 2, 2], [0, 1, 2, 3, 0]])
        >>> weight = torch.tensor([0.9, 1.0, 1.0, 1.0, 0.1])
        >>> adjusted_rand_index(edge_index, weight, torch.tensor([7, 7, 4, 4]))
        1.0
    """
    from sklearn.metrics import adjusted_rand_score  # here, since importing it takes long

    found = recovered_clusters(edge_index, edge_weight, cluster.numel(), num_clusters, seed, node_id)
    return float(adjusted_rand_score(cluster.cpu().numpy(), found.numpy()))


@checked
def recovered_clusters(
    edge_index: Tensor,
    edge_weight: Tensor,
    num_nodes: Natural,
    num_clusters: Count | None = None,
    seed: Seed = 0,
    node_id: Tensor | None = None,
) -> Tensor:
    """Return the cluster of every node, as the graph has it.

    Clusters are looked for in the undirected graph with weights w_ij + w_ji:

    - where their number is not known, by Louvain's method, which looks for the partition of the largest modularity
      (`Fast unfolding of communities in large networks <https://doi.org/10.1088/1742-5468/2008/10/P10008>`_). It needs
      memory for edges only, and takes a graph without structure for one cluster if it is complete. Clusters much
      smaller than the square root of all weight can be taken for one (its resolution limit);
    - where it is given, by spectral clustering with pivoted QR
      (`Simple, direct and efficient multi-way spectral clustering <https://doi.org/10.1093/imaiai/iay008>`_), which
      draws nothing at random but takes memory for K x K numbers.

    The graph of a single round is a sample where nodes draw their peers anew each time: with few edges per node every
    such graph falls into communities by chance. Counts over many rounds, `contact_counts`, show whom nodes prefer. A
    node without edges is a cluster of its own where the number is not given.

    Args:
        edge_index: Edges j -> i. Self-loops are left out; edges that occur several times are summed.
        edge_weight: What i gives to j, or how often it listened to it; not negative.
        num_nodes: K.
        num_clusters: How many clusters to look for, 1 to K. Default: the graph says it.
        seed: Seed of the search.
        node_id: Identities of the nodes, which the search goes by: with them the result does not depend on the order of
            nodes even where several partitions are equally good. Default: their position.

    Shapes:
        edge_index: [2, E].
        edge_weight: [E].
        node_id: [K].
        Output: [K], int64; clusters are numbered in the order of their first nodes by ``node_id``.

    Raises:
        ValueError: If shapes do not belong together, an edge is out of range, a weight is negative or NaN, or the
            number of clusters is not from 1 to K.

    Example:
        >>> edge_index = torch.tensor([[1, 0, 3, 2, 2], [0, 1, 2, 3, 0]])
        >>> recovered_clusters(edge_index, torch.tensor([0.9, 1.0, 1.0, 1.0, 0.1]), num_nodes=4)
        tensor([0, 0, 1, 1])
    """
    check_edges(edge_index, edge_weight, num_nodes)
    if bool((edge_weight < 0).any()):
        raise ValueError(f"clusters need weights that are not negative, got {float(edge_weight.min()):g}")
    if num_clusters is not None and num_clusters > num_nodes:
        raise ValueError(f"num_clusters must be at most {num_nodes}, the number of nodes, got {num_clusters}")
    if node_id is not None and node_id.shape != (num_nodes,):
        raise ValueError(f"node_id must be [K] = [{num_nodes}], got {list(node_id.shape)}")
    order = torch.arange(num_nodes) if node_id is None else node_id.cpu().argsort()
    pairs, weight = _undirected(edge_index.cpu(), edge_weight.detach().cpu().double(), order.argsort())
    if num_clusters is None:
        ranked = _louvain(pairs, weight, num_nodes, seed)
    else:
        ranked = _spectral(pairs, weight, num_nodes, num_clusters, seed)
    found = torch.empty(num_nodes, dtype=torch.int64)
    found[order] = _by_first_node(ranked)
    return found


def _undirected(edge_index: Tensor, edge_weight: Tensor, rank: Tensor) -> tuple[Tensor, Tensor]:
    """Return pairs of different nodes [2, M], by rank and sorted, and the sum of the weights between them [M]."""
    used = (edge_index[0] != edge_index[1]) & (edge_weight > 0)
    pairs = rank[edge_index[:, used]].sort(dim=0).values
    pairs, place = pairs.unique(dim=1, return_inverse=True)
    weight = torch.zeros(pairs.shape[1], dtype=torch.float64).index_add(0, place, edge_weight[used])
    return pairs, weight


def _louvain(pairs: Tensor, weight: Tensor, count: int, seed: int) -> list[int]:
    import networkx  # here, since importing it takes long

    if not len(weight):
        return list(range(count))
    graph = networkx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_weighted_edges_from(zip(*pairs.tolist(), weight.tolist(), strict=True))
    communities = networkx.algorithms.community

    def partition(restart: int) -> Any:
        return communities.louvain_communities(graph, seed=seed * RESTARTS + restart)

    best = max(map(partition, range(RESTARTS)), key=lambda found: round(communities.modularity(graph, found), 12))
    labels = {node: label for label, nodes in enumerate(best) for node in nodes}
    return [labels[node] for node in range(count)]


def _spectral(pairs: Tensor, weight: Tensor, count: int, clusters: int, seed: int) -> list[int]:
    if clusters in (1, count):
        return [0] * count if clusters == 1 else list(range(count))
    from sklearn.cluster import SpectralClustering

    affinity = torch.zeros(count, count, dtype=torch.float64)
    affinity[pairs[0], pairs[1]] = weight / weight.max() if len(weight) else weight
    affinity = affinity + affinity.t()
    search = SpectralClustering(clusters, affinity="precomputed", assign_labels="cluster_qr", random_state=seed)
    # a graph that falls apart is what one hopes for, and pivoted QR does not care how its eigenvectors are rotated
    with own_filter("ignore", "Graph is not fully connected"):
        return list(map(int, search.fit_predict(affinity.numpy())))


def _by_first_node(labels: list[int]) -> Tensor:
    """Number clusters in the order in which they come."""
    names = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return torch.tensor([names[label] for label in labels], dtype=torch.int64)
