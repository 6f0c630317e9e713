"""`Relation`: edges besides those of the collaboration graph."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphcollab._base.device import Movable
from graphcollab._base.errors import ShapeError

__all__ = ["Relation"]


@dataclass(frozen=True)
class Relation(Movable):
    """Edges between nodes, or nodes and servers, besides the collaboration graph, [2, E'], with values [E'].

    It is one opaque value in ``Data``, since PyG guesses from sizes whether a tensor belongs to nodes or edges.
    ``size`` is the number of senders and of receivers.
    """

    edge_index: Tensor
    values: Tensor
    size: tuple[int, int]

    def __post_init__(self) -> None:
        if self.edge_index.dim() != 2 or self.edge_index.shape[0] != 2:
            raise ShapeError("edge_index", f"edge_index must have shape [2, E], got {tuple(self.edge_index.shape)}")
        if self.values.shape[:1] != self.edge_index.shape[1:]:
            raise ShapeError("values", f"{self.edge_index.shape[1]} edges have {tuple(self.values.shape)} values")

    @classmethod
    def square(cls, edge_index: Tensor, values: Tensor, count: int) -> Relation:
        """Make a relation between ``count`` nodes."""
        return cls(edge_index, values, (count, count))

    def added(self, edge_index: Tensor, values: Tensor) -> Relation:
        """Return the relation with values added to those of its edges; a new edge starts from 0."""
        many = self.size[0]
        index = torch.cat([self.edge_index, edge_index], 1)
        key, place = (index[1] * many + index[0]).unique(return_inverse=True)
        total = torch.zeros(len(key), dtype=values.dtype)
        total.index_add_(0, place, torch.cat([self.values.to(values.dtype), values]))
        return replace(self, edge_index=torch.stack([key % many, key // many]), values=total)

    def select(self, which: Tensor | slice) -> Relation:
        """Return the relation restricted to some edges, by a mask [E'], positions, or a slice."""
        if isinstance(which, slice):
            return replace(self, edge_index=self.edge_index[:, which], values=self.values[which])
        place = which.nonzero().flatten() if which.dtype == torch.bool else which
        edges = torch.stack([end.index_select(0, place) for end in self.edge_index])
        return replace(self, edge_index=edges, values=self.values.index_select(0, place))

    def in_order(self) -> Relation:
        """Return the relation with its edges sorted by receiver, then by sender."""
        return self.select((self.edge_index[1] * self.size[0] + self.edge_index[0]).argsort())

    def to(self, *args: object, **kwargs: object) -> Relation:
        values = self.values.to(*args, **kwargs)  # type: ignore[call-overload]
        return replace(self, edge_index=self.edge_index.to(values.device), values=values)

    def clone(self) -> Relation:
        """Copy the tensors, as ``Data.clone`` requires."""
        return replace(self, edge_index=self.edge_index.clone(), values=self.values.clone())
