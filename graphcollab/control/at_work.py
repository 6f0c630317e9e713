"""Which edges are in use in a round, and what the others' weights become, where some nodes are at rest."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab.typing import Env

__all__ = ["count_messages", "crossing_edges", "edges_in_use", "has_neighbors", "weights_in_use"]


def edges_in_use(data: Data) -> Tensor | None:
    """Return a mask of the edges that carry something this round, [E]; None if all do.

    An edge is in use if its sender serves and its receiver trains; self-loops always are.
    """
    if bool((data.trains & data.serves).all()):
        return None
    sender, receiver = data.edge_index
    return (sender == receiver) | (data.serves[sender] & data.trains[receiver])


def crossing_edges(data: Data) -> Tensor:
    """Return which edges are in use and join two nodes, [E]."""
    crossing = data.edge_index[0] != data.edge_index[1]
    in_use = edges_in_use(data)
    return crossing if in_use is None else crossing & in_use


def count_messages(data: Data, env: Env, at_server: Tensor | None = None) -> Data:
    """Add the messages that this round's exchange sends to ``data.messages_sent`` [K], by sender.

    A message is an edge j -> i between different nodes that is in use and whose weight is not 0, however much travels
    along it. Through a server, every node that sends one up is sent one down, and both are counted as its own. What is
    only measured, and not merged, is no message; bytes count it.

    Args:
        data: The graph with the weights of the round.
        env: What pieces may use.
        at_server: Who sends to a server, [K]. Default: models travel along the edges.
    """
    if at_server is None:
        sender, receiver = data.edge_index
        used = crossing_edges(data) & (data.edge_weight != 0) & env.plane.known(receiver)
        sent = torch.bincount(sender[used], minlength=data.num_nodes)
        sent = env.plane.reduce(sent)
    else:
        sent = 2 * at_server.long()
    data = copy.copy(data)
    data.messages_sent = data.messages_sent + sent
    return data


def has_neighbors(data: Data) -> Tensor:
    """Return which nodes have an edge to or from another one, [K]."""
    ends = data.edge_index[:, data.edge_index[0] != data.edge_index[1]]
    return torch.zeros_like(data.trains).index_fill_(0, ends.flatten(), True)


def weights_in_use(data: Data, in_use: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return the edges' weights in this round, and which nodes keep their model.

    What a receiver would have given senders that do not serve goes to its own model, if it has a self-loop; else its
    other weights grow in proportion. A node keeps its model if it does not train, or hears from nobody for want of
    senders that serve.

    Args:
        data: The graph.
        in_use: What `edges_in_use` said.

    Returns:
        Weights [E], differentiable with respect to ``edge_weight``, and a mask [K], or None if no node keeps its model.
    """
    weight = data.edge_weight
    if in_use is None:
        return weight, None
    sender, receiver = data.edge_index

    def per_node(values: Tensor) -> Tensor:
        return scatter(values, receiver, dim_size=data.num_nodes)

    loop = sender == receiver
    has_loop, heard = per_node(loop.long()) > 0, per_node(in_use.long()) > 0
    keeps = ~data.trains | (~heard & (per_node((~in_use).long()) > 0))
    kept = weight.masked_fill(~in_use, 0)
    total, left = per_node(weight), per_node(kept)
    growth = torch.where(has_loop | (left == 0), 1.0, total / torch.where(left == 0, 1.0, left))
    weight = kept * growth[receiver] + torch.where(loop, (total - left)[receiver], 0.0)
    return weight.masked_fill(keeps[receiver], 0), keeps
