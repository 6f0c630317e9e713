"""Servers, and the links of nodes to them."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.piece import Field
from graphcollab.relation import Relation
from graphcollab.typing import Env

__all__ = ["SERVER", "connect_servers", "linked", "per_server", "places", "sends_to_server"]

SERVER = Field("server", "relation", "every node's link to its server; a node that is alone has none")


def connect_servers(data: Data, env: Env, place: Tensor, count: int | None = None) -> Data:
    """Return the graph with ``server``: the nodes' links to their servers.

    Args:
        data: The graph.
        env: What pieces may use.
        place: Every node's server, [K]; -1 if it has none.
        count: Number of servers. Default: one more than the largest, at least one.
    """
    node = (place >= 0).nonzero().flatten()
    samples = env.engine.tasks.sizes("train").to(data.x.dtype)[node]
    count = max(int(place.max()) + 1, 1) if count is None else count
    data = copy.copy(data)
    data.server = Relation(torch.stack([node, place[node]]), samples, (data.num_nodes, count))
    return data


def linked(data: Data) -> Tensor:
    """Return which nodes have a server, [K]."""
    nobody = torch.zeros_like(data.trains)
    return nobody.index_fill_(0, data.server.edge_index[0], True) if "server" in data else nobody


def sends_to_server(data: Data) -> Tensor:
    """Return the nodes at work (those that both train and serve) that have a server, [K]."""
    return data.trains & data.serves & linked(data)


def places(server: Relation) -> Tensor:
    """Return every node's server, [K]; -1 if it has none."""
    node, place = server.edge_index
    return torch.full((server.size[0],), -1, device=place.device).index_copy_(0, node, place)


def per_server(values: Tensor, server: Relation) -> Tensor:
    """Return the sums of the links' values [L] for every server."""
    total = torch.zeros(server.size[1], dtype=values.dtype, device=values.device)
    return total.index_add_(0, server.edge_index[1], values)
