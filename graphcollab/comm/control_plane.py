"""`ControlPlane`: ownership of nodes, and values that processes publish to each other."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor

from graphcollab.comm.transport import Transport, raise_on_all

__all__ = ["ControlPlane"]


class ControlPlane:
    """Public values of a process, over any `Transport`: small numbers, never rows of models.

    Values have an entry for every node, [K], or edge, [E], in every process; entries known only to a receiver are NaN
    elsewhere. ``kind`` is every node's architecture, [K], None if there is one; a single process need not know
    ``count``, K.
    """

    def __init__(self, count: int = 0, transport: Transport | None = None, kind: Tensor | None = None) -> None:
        self.count, self.kind = count, kind
        self.transport = transport or Transport()
        self.own = self.transport.own(count)
        self.local_values, self.all_gather_object = self.transport.local_values, self.transport.all_gather_object
        self.all_gather, self.all_reduce = self.transport.all_gather, self.transport.all_reduce
        self.broadcast, self.is_main = self.transport.broadcast, self.transport.is_main
        self.begin, self.play, self.commit = self.transport.begin, self.transport.play, self.transport.commit
        self.cross_silo, self.party, self.where = self.transport.cross_silo, self.transport.party, self.transport.where

    @property
    def alone(self) -> bool:
        """Whether all nodes are owned."""
        return self.transport.local_mask(self.own) is None

    @property
    def there(self) -> Tensor:
        """Nodes of processes that are present, a mask [K]: all, unless sites may be lost."""
        there = self.transport.there(self.count)
        return torch.ones(self.count, dtype=torch.bool) if there is None else there

    @property
    def complete(self) -> bool:
        """Whether all nodes are present."""
        return self.transport.there(self.count) is None

    def raise_on_all(self) -> AbstractContextManager[None]:
        """Make an error in one process fail all of them, with the same error."""
        return raise_on_all(self.transport)

    def local(self, nodes: Tensor) -> Tensor:
        """Return the owned ones among the nodes, in their order."""
        here = self.transport.local_mask(nodes)
        return nodes if here is None else nodes[here]

    def is_local(self, nodes: Tensor) -> Tensor:
        """Return which of the nodes are owned, a mask of their shape."""
        here = self.transport.local_mask(nodes)
        return torch.ones_like(nodes, dtype=torch.bool) if here is None else here

    def from_local(self, values: Tensor, unknown: float = torch.nan) -> Tensor:
        """Return values of owned nodes, [k, ...], as a control-plane value, [K, ...]: ``unknown`` for other nodes."""
        if self.alone:
            return values
        return values.new_full((self.count, *values.shape[1:]), unknown).index_copy(0, self.own, values)
