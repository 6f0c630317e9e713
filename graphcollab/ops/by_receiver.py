"""What is the same for all edges of a receiver: their order, their sum, whether there are any."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter

__all__ = ["by_receiver", "receives", "shares", "turns"]


def by_receiver(receiver: Tensor, *keys: Tensor) -> Tensor:
    """Return the order of edges by receiver, of one receiver by ascending keys, the first one first, [E]."""
    order = torch.arange(len(receiver), device=receiver.device)
    for key in (*reversed(keys), receiver):
        order = order[key[order].argsort(stable=True)]
    return order


def turns(receiver: Tensor, count: int) -> Tensor:
    """Return the place of every edge among its receiver's, [E], given edges in order of their K receivers."""
    degree = torch.bincount(receiver, minlength=count)
    return torch.arange(len(receiver), device=receiver.device) - (degree.cumsum(0) - degree)[receiver]


def receives(edges: Tensor, receiver: Tensor, count: int) -> Tensor:
    """Return which of K nodes receive along some edges, a mask [E]: [K]."""
    return torch.bincount(receiver[edges], minlength=count) > 0


def shares(values: Tensor, receiver: Tensor, count: int) -> Tensor:
    """Return the share of every edge's value in the sum over its receiver's edges, [E]."""
    return values / scatter(values, receiver, dim_size=count)[receiver]
