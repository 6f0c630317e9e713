"""Who sends to whom, sorted by receiver: the structure that sparse kernels work on."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from graphcollab.checks import own_filter
from graphcollab.device import beside

__all__ = ["Structure"]

with own_filter("ignore", "Sparse CSR tensor support is in beta"):  # said once per process, so have it said now
    torch.sparse_csr_tensor([0, 0], [], torch.empty(0), (1, 1), check_invariants=False)


@dataclass(frozen=True)
class Structure:
    """Edges of a bipartite graph in compressed-row form: row i lists what receiver i hears.

    It is on the CPU, and so are weights and other numbers of edges.

    Args:
        ptr: Receiver i's edges are ``ptr[i]:ptr[i + 1]``, [D + 1].
        sender: Sender of every edge in that order, [E].
        order: Position in the caller's edge list of every edge in that order, [E]; None where they agree.
        num_senders: S.
    """

    ptr: Tensor
    sender: Tensor
    order: Tensor | None
    num_senders: int
    _copies: dict[torch.device, Structure] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_edges(cls, edge_index: Tensor, size: tuple[int, int]) -> Structure:
        """Sort edges by receiver and sender.

        Args:
            edge_index: [2, E]; sender j in row 0, receiver i in row 1.
            size: Number of senders and of receivers (S, D).

        Raises:
            ValueError: If an edge names a node outside the sizes.

        Example:
            >>> Structure.from_edges(torch.tensor([[1, 0], [1, 0]]), (2, 2)).ptr.tolist()
            [0, 1, 2]
        """
        senders, receivers = size
        edge_index = edge_index.as_subclass(Tensor)
        if edge_index.numel():
            most = edge_index.amax(1).tolist()
            if int(edge_index.min()) < 0 or most[0] >= senders or most[1] >= receivers:
                raise ValueError(
                    f"edge_index reaches sender {most[0]} and receiver {most[1]} (lowest {int(edge_index.min())}), "
                    f"there are {senders} senders and {receivers} receivers"
                )
        key = edge_index[1] * senders + edge_index[0]
        order = None
        if bool((key[1:] < key[:-1]).any()):
            order = key.argsort(stable=True)
            edge_index = edge_index[:, order]
        counts = torch.bincount(edge_index[1], minlength=receivers)
        ptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return cls(ptr, edge_index[0].contiguous(), order, senders)

    def beside(self, rows: Tensor) -> Structure:
        """Return the structure on the device of some rows: it is copied there once."""
        if rows.device == self.ptr.device:
            return self
        if rows.device not in self._copies:
            there = Structure(beside(self.ptr, rows), beside(self.sender, rows), None, self.num_senders)
            there.__dict__["receiver"] = beside(self.receiver, rows)  # where it cannot be known without waiting
            self._copies[rows.device] = there
        return self._copies[rows.device]

    @property
    def num_receivers(self) -> int:
        """D."""
        return len(self.ptr) - 1

    @property
    def num_edges(self) -> int:
        """E."""
        return len(self.sender)

    @property
    def density(self) -> float:
        """Share of all sender-receiver pairs that are edges."""
        return self.num_edges / max(self.num_senders * self.num_receivers, 1)

    @cached_property
    def receiver(self) -> Tensor:
        """Receiver of every edge, [E], ascending."""
        return torch.repeat_interleave(torch.arange(self.num_receivers, device=self.ptr.device), self.ptr.diff())

    @cached_property
    def transposed(self) -> Structure:
        """The structure with senders and receivers exchanged; its ``order`` refers to this one's edges."""
        edge_index = torch.stack([self.receiver, self.sender])
        return Structure.from_edges(edge_index, (self.num_receivers, self.num_senders))

    def adjacency(self, weight: Tensor) -> Tensor:
        """Return W [D, S] as a sparse CSR tensor; ``weight`` [E] is in this order."""
        size = (self.num_receivers, self.num_senders)
        return torch.sparse_csr_tensor(self.ptr, self.sender, weight, size, check_invariants=False)

    def sort(self, values: Tensor) -> Tensor:
        """Bring values of the caller's edges into this order."""
        return values if self.order is None else values[self.order]

    def unsort(self, values: Tensor) -> Tensor:
        """Bring values in this order back into the caller's."""
        if self.order is None:
            return values
        out = torch.empty_like(values)
        out[self.order] = values
        return out
