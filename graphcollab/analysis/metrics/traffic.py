"""Communication between nodes over the rounds of a run."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab._base.settings import Natural
from graphcollab.analysis.metrics.edges import Graphs, check_edges, measure
from graphcollab.analysis.metrics.recovery import in_cluster_share


@measure
def contact_counts(graphs: Graphs, num_nodes: Natural) -> tuple[Tensor, Tensor]:
    """Count the rounds in which each node received from each other node.

    The heat maps in Fig. 4.2 and 4.9 of *With a Little Help from My Friends: A Comparative Study of
    Decentralized Deep Learning Strategies* (Hagander & Ihre-Thomason, Lund University, 2024) show these counts.

    Shapes:
        Output: [2, E'] (every pair of different nodes that occurs, sorted by receiver, then sender) and [E'], int64.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2], [0, 0, 0]])
        >>> graphs = {1: (edge_index, torch.tensor([0.5, 0.5, 0.0])), 2: (edge_index, torch.tensor([0.2, 0.4, 0.4]))}
        >>> contact_counts(graphs, num_nodes=3)
        (tensor([[1, 2],
                [0, 0]]), tensor([2, 1]))
    """
    keys = [torch.empty(0).long()]
    for round_, graph in graphs.items():
        sender, receiver = _messages(*graph, num_nodes, round_)
        keys.append(receiver * num_nodes + sender)
    pairs, counts = torch.cat(keys).unique(return_counts=True)
    return torch.stack([pairs % max(num_nodes, 1), pairs // max(num_nodes, 1)]), counts


@measure
def never_sampled(graphs: Graphs, num_nodes: Natural) -> Tensor:
    """Return the nodes from which no other node ever received, ascending: nobody benefited from their models."""
    heard = contact_counts(graphs, num_nodes)[0][0]
    return (heard.bincount(minlength=num_nodes) == 0).nonzero().flatten()


@measure
def cluster_traffic(graphs: Graphs, cluster: Tensor) -> tuple[Tensor, Tensor]:
    """Return the share of received models that come from the receiver's own cluster, round by round.

    It is `in_cluster_share` with all messages weighted equally: it measures how well nodes select, whatever the weights
    they then assign. Self-loops are ignored. It is the mean over the receivers of each cluster, [T, C], and over all
    receivers, [T], float64; rounds and clusters ascend. NaN if none of them received anything.
    """
    cluster = cluster.cpu()
    clusters = cluster.unique()
    found = torch.empty(len(graphs), 1 + len(clusters), dtype=torch.float64)
    for t, round_ in enumerate(sorted(graphs)):
        edges = _messages(*graphs[round_], cluster.numel(), round_)
        parts = [edges, *(edges[:, cluster[edges[1]] == one] for one in clusters)]
        found[t] = torch.tensor([in_cluster_share(part, torch.ones(part.shape[1]), cluster) for part in parts])
    return found[:, 1:], found[:, 0]


def _messages(edge_index: Tensor, edge_weight: Tensor, count: int, round_: int) -> Tensor:
    """Return the edges that carried a model from one node to another, [2, M]."""
    check_edges(edge_index, edge_weight, count, f"round {round_}: ")
    used = (edge_index[0] != edge_index[1]) & (edge_weight > 0)
    return edge_index[:, used].cpu().long()
