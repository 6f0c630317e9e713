"""Recovery of the task structure by the learned graph: true clusters, and classes that nodes share.

Invalid edges raise a ``ValueError``: inconsistent shapes, an edge out of range, a NaN weight, and, if pairs are
examined one by one, a duplicate edge.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from graphcollab._base.checks import own_filter
from graphcollab._base.errors import RangeError
from graphcollab._base.settings import Count, Natural, Seed
from graphcollab.analysis.metrics.edges import check_edges, measure, pair_weights

RESTARTS = 10  # Louvain's result depends on the order in which nodes are visited; the best of several runs is kept


@measure
def recovery_auc(edge_index: Tensor, edge_weight: Tensor, cluster: Tensor) -> float:
    """Return the area under the ROC curve of edge weights as scores for "both nodes are in the same cluster".

    1 means that every weight inside a cluster is above every weight between clusters; 0.5 means that weights carry no
    information. NaN if undefined, when all pairs are in the same cluster, or none is. Self-loops are ignored; ordered
    pairs without an edge have weight 0.
    """
    weights = pair_weights(edge_index, edge_weight, cluster.numel()).cpu()
    judged = ~torch.eye(cluster.numel(), dtype=torch.bool)
    labels = (cluster[:, None] == cluster).cpu()[judged]
    if bool(labels.all()) or not bool(labels.any()):
        return float("nan")
    from sklearn.metrics import roc_auc_score  # imported here because it is slow

    return float(roc_auc_score(labels.numpy(), weights.nan_to_num(0.0)[judged].numpy()))


@measure
def in_cluster_share(edge_index: Tensor, edge_weight: Tensor, cluster: Tensor) -> float:
    """Return the share of a receiver's weight that goes to its own cluster, including self-loops.

    It is the mean over receivers with any weight, or NaN if there are none. Weights must be nonnegative.
    """
    check_edges(edge_index, edge_weight, cluster.numel())
    if bool((edge_weight < 0).any()):
        raise RangeError(
            "edge_weight", f"in_cluster_share needs weights that are not negative, got {float(edge_weight.min()):g}"
        )
    sender, receiver = edge_index.long()
    weight = edge_weight.detach().double()
    inside = weight.where(cluster[sender] == cluster[receiver], 0.0)
    total, inside = (scatter(values, receiver, dim_size=cluster.numel()) for values in (weight, inside))
    return float((inside[total > 0] / total[total > 0]).mean())


@measure
def adjusted_rand_index(
    edge_index: Tensor, edge_weight: Tensor, cluster: Tensor, num_clusters: Count | None = None, seed: Seed = 0
) -> float:
    """Return the adjusted Rand index between the clusters recovered from a graph and the true ones.

    1 means that they are the same, 0 that they agree no better than chance. Clusters are recovered by
    `recovered_clusters`, whose notes state which graphs are suitable: if nodes sample their peers, first sum over
    rounds with `contact_counts`.
    """
    from sklearn.metrics import adjusted_rand_score  # imported here because it is slow

    found = recovered_clusters(edge_index, edge_weight, cluster.numel(), num_clusters, seed)
    return float(adjusted_rand_score(cluster.cpu().numpy(), found.numpy()))


@measure
def recovered_clusters(
    edge_index: Tensor, edge_weight: Tensor, num_nodes: Natural, num_clusters: Count | None = None, seed: Seed = 0
) -> Tensor:
    """Return the cluster of every node, recovered from the graph.

    Clusters are detected in the undirected graph with weights w_ij + w_ji:

    - if their number is unknown, by Louvain's method, which maximizes modularity
      (`Fast unfolding of communities in large networks <https://doi.org/10.1088/1742-5468/2008/10/P10008>`_). It needs
      memory for edges only, and returns one cluster for a complete graph without structure. Clusters much smaller than
      the square root of the total weight may be merged (its resolution limit);
    - if it is given, by spectral clustering with pivoted QR
      (`Simple, direct and efficient multi-way spectral clustering <https://doi.org/10.1093/imaiai/iay008>`_), which is
      deterministic but needs memory for K x K numbers.

    If nodes draw new peers each round, the graph of one round has communities by chance: use counts over many rounds,
    `contact_counts`. A node without edges is its own cluster if the number is not given.

    Args:
        edge_index: Edges j -> i, [2, E]. Self-loops are ignored; duplicate edges are summed.
        edge_weight: Weight of j at i, or the number of rounds in which i received from j; nonnegative, [E].

    Shapes:
        Output: [K], int64; clusters are numbered in the order of their first nodes.

    Example:
        >>> edge_index = torch.tensor([[1, 0, 3, 2, 2], [0, 1, 2, 3, 0]])
        >>> recovered_clusters(edge_index, torch.tensor([0.9, 1.0, 1.0, 1.0, 0.1]), num_nodes=4)
        tensor([0, 0, 1, 1])
    """
    check_edges(edge_index, edge_weight, num_nodes)
    if bool((edge_weight < 0).any()):
        raise RangeError(
            "edge_weight", f"clusters need weights that are not negative, got {float(edge_weight.min()):g}"
        )
    if num_clusters is not None and num_clusters > num_nodes:
        raise RangeError(
            "num_clusters", f"num_clusters must be at most {num_nodes}, the number of nodes, got {num_clusters}"
        )
    edge_index, edge_weight = edge_index.cpu(), edge_weight.detach().cpu().double()
    used = (edge_index[0] != edge_index[1]) & (edge_weight > 0)
    # pairs of different nodes [2, M], sorted, and the sum of the weights between them [M]
    pairs, place = edge_index[:, used].long().sort(dim=0).values.unique(dim=1, return_inverse=True)
    weight = torch.zeros(pairs.shape[1], dtype=torch.float64).index_add(0, place, edge_weight[used])
    if num_clusters is None:
        labels = _louvain(pairs, weight, num_nodes, seed)
    else:
        labels = _spectral(pairs, weight, num_nodes, num_clusters, seed)
    names = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return torch.tensor([names[label] for label in labels], dtype=torch.int64)


def _louvain(pairs: Tensor, weight: Tensor, count: int, seed: int) -> list[int]:
    if not len(weight):
        return list(range(count))
    import networkx  # imported here because it is slow

    graph = networkx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_weighted_edges_from(zip(*pairs.tolist(), weight.tolist(), strict=True))
    communities = networkx.algorithms.community
    found = [communities.louvain_communities(graph, seed=seed * RESTARTS + restart) for restart in range(RESTARTS)]
    best = max(found, key=lambda one: round(communities.modularity(graph, one), 12))
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
    # a disconnected graph is the ideal case, and pivoted QR is invariant to rotations of its eigenvectors
    with own_filter("ignore", "Graph is not fully connected"):
        return list(map(int, search.fit_predict(affinity.numpy())))
