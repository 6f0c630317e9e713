"""Participation in a round: the participating nodes, the edges in use, and the weights of those edges."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab._base.piece import updated
from graphcollab.components.env import Env


def membership(data: Data, env: Env) -> tuple[Tensor, Tensor]:
    """Return the nodes in the collaboration in the last round, over which means are taken, and those that ever were."""
    if env.participation is None:
        return torch.ones_like(data.isolated), torch.ones_like(data.isolated)
    last = max(data.round - 1, 0)
    member = env.participation.members(data, last)
    return member, member | env.participation.left(data, last)


def apply_participation(data: Data, env: Env) -> Data:
    """Return the graph with the masks of the current round: of the nodes at work, those that take part."""
    if env.participation is None:
        return data
    there, in_time = env.participation.at_work(data, env)
    return updated(data, trains=data.trains & there, serves=data.serves & in_time)


def restore_participation(data: Data, before: Data, began: Data, env: Env) -> Data:
    """Return the graph with the masks from before, and those that belong to the collaboration in the next round.

    Nodes that were at work when the round ``began`` and no longer are (they have stopped, or were isolated) stay at
    rest.
    """
    if env.participation is None:
        return data
    trains, serves = (before[name] & (data[name] | ~began[name]) & ~data.isolated for name in ("trains", "serves"))
    return updated(data, trains=trains, serves=serves, present=env.participation.members(data, data.round + 1))


def edges_in_use(data: Data) -> Tensor | None:
    """Return a mask of the edges in use, [E]: serving sender to training receiver, or a self-loop; None if all are."""
    serves = serving(data)
    if bool((data.trains & serves).all()):
        return None
    sender, receiver = data.edge_index
    return (sender == receiver) | (serves[sender] & data.trains[receiver])


def serving(data: Data) -> Tensor:
    """Return the nodes whose models are used here in this round, [K]: those that serve plausible models."""
    return data.serves & ~data.refused if "refused" in data else data.serves


def crossing_edges(data: Data) -> Tensor:
    """Return which edges are in use and connect two different nodes, [E]."""
    crossing = data.edge_index[0] != data.edge_index[1]
    in_use = edges_in_use(data)
    return crossing if in_use is None else crossing & in_use


def count_messages(data: Data, env: Env, at_server: Tensor | None = None) -> Data:
    """Add this round's messages to ``data.messages_sent`` [K], by sender; each process counts its receivers' messages.

    A message is an edge j -> i between different nodes, in use, with nonzero weight; measurements do not count. Nodes
    ``at_server`` [K] (None: models travel along edges) send one up and receive one, both counted as theirs.
    """
    if at_server is None:
        sender, receiver = data.edge_index
        used = crossing_edges(data) & (data.edge_weight != 0) & env.plane.is_local(receiver)
        sent = torch.zeros_like(data.messages_sent).index_add_(0, sender, used.long())
    else:
        sent = env.plane.from_local(env.plane.local_values(2 * at_server.long()), 0)
    return updated(data, messages_sent=data.messages_sent + sent)


def has_neighbors(data: Data) -> Tensor:
    """Return which nodes have an edge to or from another node, [K]."""
    sender, receiver = data.edge_index
    apart, neighbors = (sender != receiver).long(), torch.zeros(data.num_nodes, dtype=torch.int64)
    return neighbors.index_add_(0, sender, apart).index_add_(0, receiver, apart) > 0


def weights_in_use(data: Data, in_use: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return the edges' weights in this round, [E], and which nodes keep their model, [K], or None if no node does.

    Weights of senders that do not serve go to the receiver's self-loop, else to its other edges in proportion. A node
    keeps its model if it does not train, or if no sender serves and it has no self-loop. Differentiable in the weights.
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
