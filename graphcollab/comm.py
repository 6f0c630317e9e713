"""What nodes exchange: `Comm` with its four verbs, and `Relation` for edges beside the graph's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor
from torch_geometric.data import Data

__all__ = ["Comm", "Relation"]

T = TypeVar("T")

BYTES_PER_FLOAT = 4


@dataclass(frozen=True)
class Relation:
    """Edges between nodes, or nodes and servers, that are not the collaboration graph: one opaque value in ``Data``.

    PyG guesses from sizes whether a tensor belongs to nodes or edges; a `Relation` keeps further edges out of its
    sight.

    Args:
        edge_index: Sender and receiver of every edge, [2, E'].
        values: One value per edge, [E'].
        size: Number of senders and receivers.

    Example:
        >>> up = Relation(torch.tensor([[0, 1], [0, 0]]), torch.tensor([0.5, 0.5]), (2, 1))
        >>> up.flip().size
        (1, 2)
    """

    edge_index: Tensor
    values: Tensor
    size: tuple[int, int]

    def __post_init__(self) -> None:
        if self.edge_index.dim() != 2 or self.edge_index.shape[0] != 2:
            raise ValueError(f"edge_index must have shape [2, E], got {tuple(self.edge_index.shape)}")
        if self.values.shape[:1] != self.edge_index.shape[1:]:
            raise ValueError(f"{self.edge_index.shape[1]} edges have {tuple(self.values.shape)} values")

    def flip(self) -> Relation:
        """Return the relation with senders and receivers exchanged."""
        return replace(self, edge_index=self.edge_index.flip(0), size=self.size[::-1])

    def to(self, *args: object, **kwargs: object) -> Relation:
        """Move to a device."""
        values = self.values.to(*args, **kwargs)  # type: ignore[call-overload]
        return replace(self, edge_index=self.edge_index.to(values.device), values=values)

    def cpu(self) -> Relation:
        """Move to the CPU, as ``Data.cpu`` asks."""
        return self.to("cpu")

    def cuda(self, device: int | str | None = None, non_blocking: bool = False) -> Relation:
        """Move to a GPU, as ``Data.cuda`` asks."""
        return self.to(torch.device("cuda") if device is None else device, non_blocking=non_blocking)

    def clone(self) -> Relation:
        """Copy the tensors, as ``Data.clone`` asks."""
        return replace(self, edge_index=self.edge_index.clone(), values=self.values.clone())


class Comm:
    """Communication between nodes when one process holds all of them: every verb is the identity, bytes still count.

    Stages talk to other nodes only through these verbs and never ask how many processes there are.
    """

    def halo(self, rows: Tensor, edge_index: Tensor) -> Tensor:
        """Return the rows that local receivers may read, indexed by ``edge_index[0]``: here all rows [K, P]."""
        return rows

    def reduce(self, value: Tensor) -> Tensor:
        """Return the sum of a declared global value over all processes."""
        return value

    def at_owner(self, rows: T, answer: Callable[[T], Tensor]) -> Tensor:
        """Send rows to the owners of the data they meet and bring the answers back."""
        return answer(rows)

    def count(self, data: Data, senders: Tensor, floats: float | Tensor) -> Data:
        """Add what nodes sent to ``data.bytes_sent`` [K], 4 bytes a float.

        Args:
            data: The graph; it is not changed.
            senders: Node of every message, [M].
            floats: Floats in one message, or in each, [M].
        """
        sent = data.bytes_sent.clone()
        ones = torch.full_like(senders, 1, dtype=sent.dtype)
        sent.index_add_(0, senders, ones * (BYTES_PER_FLOAT * floats))
        data = copy.copy(data)
        data.bytes_sent = sent
        return data
