"""`Halo`: the rows that the receivers of a process may read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Halo"]


@dataclass(frozen=True)
class Halo:
    """The rows that may be read here, and the edges along which they are.

    Args:
        rows: Rows of owned nodes, then those of others that owned receivers hear, [k + r, P].
        edge_index: The edges to owned receivers, [2, e]: places of senders in ``rows``, of receivers among owned nodes.
        edges: Which of all edges these are, [e]; None where they are all of them, in their order.
        nodes: The node of every row, [k + r].
    """

    rows: Tensor
    edge_index: Tensor
    edges: Tensor | None
    nodes: Tensor

    def place(self, nodes: Tensor) -> Tensor:
        """Return the rows of some of these nodes."""
        if self.edges is None:
            return nodes
        order = self.nodes.argsort()
        return order[torch.searchsorted(self.nodes[order], nodes)]

    def take(self, values: Tensor) -> Tensor:
        """Return the values of these edges, [e], given those of all, [E]."""
        return values if self.edges is None else values[self.edges]

    def put(self, values: Tensor, count: int) -> Tensor:
        """Return values of all edges, [E], given those of these, [e]; the others are not known here: NaN."""
        if self.edges is None:
            return values
        unknown = values.new_full((count, *values.shape[1:]), torch.nan)
        return unknown.index_put((self.edges,), values)
