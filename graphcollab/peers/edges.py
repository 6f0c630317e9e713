"""Replacing a round's edges by the next round's."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.transforms import sort_edges

__all__ = ["chosen_edges", "connect"]


def connect(data: Data, edge_index: Tensor, **fields: Tensor) -> Data:
    """Return the graph with these edges and a self-loop at every node, in place of those it has.

    Args:
        data: The graph; it is not changed.
        edge_index: Sender and receiver of every edge, [2, E], no self-loops.
        fields: Further edge fields, [E] each; self-loops get 0 (False).
    """
    many, device = data.num_nodes, edge_index.device
    node = torch.arange(many, device=device)
    data = copy.copy(data)
    for name in [key for key in data.keys() if "edge" in key]:  # noqa: SIM118
        del data[name]
    data.edge_index = torch.cat([edge_index, torch.stack([node, node])], 1)
    data.edge_weight = torch.zeros(data.edge_index.shape[1], dtype=data.x.dtype, device=device)
    for name, values in fields.items():
        data[f"edge_{name}"] = torch.cat([values, values.new_zeros(many)])
    return sort_edges(data)


def chosen_edges(data: Data) -> Tensor:
    """Return which edges a model was merged along in this round, self-loops left out, [E]."""
    sender, receiver = data.edge_index
    return (data.edge_weight > 0) & (sender != receiver)
