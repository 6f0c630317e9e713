"""Edges of a communication graph, sorted by receiver."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary
from torch_geometric import EdgeIndex

from graphcollab._base.device import beside
from graphcollab._base.errors import InvalidValueError, MismatchError, RangeError, ShapeError
from graphcollab._base.memory import address


@dataclass(frozen=True, init=False)
class Structure:
    """Edges of a bipartite graph in compressed-row form: row i lists the senders of receiver i.

    `from_edges` creates it on the CPU, like weights and other edge attributes, unless these must be computed on a GPU.
    Its tensors are copies, since compiled kernels rely on them: later changes of the edges have no effect.

    Attributes:
        ptr: Receiver i's edges are ``ptr[i]:ptr[i + 1]``, [D + 1].
        sender: Sender of every edge in that order, [E].
        order: Position in the caller's edge list of every edge in that order, [E]; None where they agree.
        num_senders: Number of senders, S.
    """

    ptr: Tensor
    sender: Tensor
    order: Tensor | None
    num_senders: int
    _copies: dict[torch.device, Structure] = field(repr=False, compare=False)

    @classmethod
    def _of(cls, ptr: Tensor, sender: Tensor, order: Tensor | None, num_senders: int) -> Structure:
        """Return a structure that owns the given tensors, which are known to be valid."""
        made = object.__new__(cls)
        vars(made).update(ptr=ptr, sender=sender, order=order, num_senders=num_senders, _copies={})
        return made

    @classmethod
    def from_edges(cls, edge_index: Tensor, size: tuple[int, int]) -> Structure:
        """Sort edges [2, E], sender j in row 0 and receiver i in row 1, among S senders and D receivers (``size``).

        The result is cached as long as the edge tensor exists, and recreated if it has changed. Edges out of range, or
        an invalid edge tensor, raise a ValueError.
        """
        if type(edge_index) is not Tensor or edge_index.device.type != "cpu" or edge_index.dtype != torch.int64:
            return cls._sorted(_plain(edge_index), size)
        known = _made.get(edge_index)
        if known is None or not known._lists(edge_index, size):
            _made[edge_index] = known = cls._sorted(_plain(edge_index), size)
        return known

    def _lists(self, edge_index: Tensor, size: tuple[int, int]) -> bool:
        """Return whether these are its edges; this check takes a twentieth of the time of creating it."""
        if (self.num_senders, self.num_receivers) != size or edge_index.shape != (2, self.num_edges):
            return False
        own = self.sender, self.receiver
        return all(torch.equal(one, self.sort(given)) for one, given in zip(own, edge_index, strict=True))

    @classmethod
    def _sorted(cls, edge_index: Tensor, size: tuple[int, int]) -> Structure:
        senders, receivers = size
        if edge_index.dim() != 2 or len(edge_index) != 2:
            raise ShapeError("edge_index", f"edge_index must have shape [2, E], got {[*edge_index.shape]}")
        kind = edge_index.dtype
        if edge_index.numel() and (kind.is_floating_point or kind.is_complex or kind == torch.bool):
            raise ShapeError("edge_index", f"edge_index must hold whole numbers, got {kind}")
        edge_index = edge_index.long()
        if edge_index.numel():
            most = edge_index.amax(1).tolist()
            if int(edge_index.min()) < 0 or most[0] >= senders or most[1] >= receivers:
                text = f"edge_index must reach senders below {senders} and receivers below {receivers}"
                raise RangeError("edge_index", f"{text}, from 0 on; got {int(edge_index.min())} to {most}")
        key, order = edge_index[1] * senders + edge_index[0], None
        if bool((key[1:] < key[:-1]).any()):
            order = key.argsort(stable=True)
            edge_index = edge_index[:, order]
        counts = torch.bincount(edge_index[1], minlength=receivers)
        ptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        sender = edge_index[0].clone() if order is None else edge_index[0]  # else it is already a copy
        return cls._of(ptr, sender.contiguous(), order, senders)

    @classmethod
    def between(cls, a: Tensor, b: Tensor, edges: Tensor | Structure) -> Structure:
        """Return edges from senders with vectors b [S, P] to receivers with a [D, P] of one type; else a ValueError."""
        require_plain(a, b)
        if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[1]:
            raise ShapeError("vectors", f"vectors must be [D, P] and [S, P], got {[*a.shape]} and {[*b.shape]}")
        require_one_type(a, b)
        structure = edges if isinstance(edges, Structure) else cls.from_edges(edges, (len(b), len(a)))
        if (structure.num_receivers, structure.num_senders) != (len(a), len(b)):
            wanted = f"vectors of {structure.num_receivers} receivers and {structure.num_senders} senders"
            raise MismatchError("vectors", f"the edges need {wanted}, got {len(a)} and {len(b)}")
        return structure

    def beside(self, rows: Tensor) -> Structure:
        """Return the structure on the device of the given rows, to which it is copied once."""
        if rows.device == self.ptr.device:
            return self
        if rows.device not in self._copies:
            there = self._of(beside(self.ptr, rows), beside(self.sender, rows), None, self.num_senders)
            there.__dict__["receiver"] = beside(self.receiver, rows)  # computing it there would synchronize
            self._copies[rows.device] = there
        return self._copies[rows.device]

    @property
    def num_receivers(self) -> int:
        """The number of receivers, D."""
        return len(self.ptr) - 1

    @property
    def num_edges(self) -> int:
        """The number of edges, E."""
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
    def alone(self) -> Tensor | None:
        """Mask of the receivers without edges, [D]; None if all are known to have some."""
        alone = self.ptr.diff() == 0
        return alone if alone.device.type != "cpu" or bool(alone.any()) else None

    @cached_property
    def repeats(self) -> bool:
        """Whether any edge is duplicated."""
        return bool(((self.sender.diff() == 0) & (self.receiver.diff() == 0)).any())

    @cached_property
    def transposed(self) -> Structure:
        """The structure with senders and receivers exchanged; its ``order`` refers to this one's edges."""
        edge_index = torch.stack([self.receiver, self.sender])
        return self._sorted(edge_index, (self.num_receivers, self.num_senders))

    def adjacency(self, weight: Tensor) -> Tensor:
        """Return W [D, S] as a sparse CSR tensor; ``weight`` [E] is in this order."""
        size = (self.num_receivers, self.num_senders)
        return torch.sparse_csr_tensor(self.ptr, self.sender, weight, size, check_invariants=False)

    def sort(self, values: Tensor) -> Tensor:
        """Reorder values from the caller's edge order to this order, on any device."""
        return values if self.order is None else values[beside(self.order, values)]

    def unsort(self, values: Tensor) -> Tensor:
        """Reorder values from this order to the caller's edge order."""
        if self.order is None:
            return values
        out = torch.empty_like(values)
        out[self.order] = values
        return out


_made: WeakIdKeyDictionary = WeakIdKeyDictionary()


def _plain(edge_index: Tensor) -> Tensor:
    if isinstance(edge_index, EdgeIndex):
        return edge_index.as_tensor()
    try:
        require_plain(edge_index)
    except ValueError as error:
        raise ShapeError(
            "edge_index",
            f"edge_index must be a tensor [2, E], senders and receivers ({error}): of a sparse matrix adj_t "
            "give torch.stack([col, row]), and its values as weights",
        ) from None
    return edge_index.as_subclass(Tensor)


def require_plain(*values: Tensor) -> None:
    """Check that values are dense tensors and, on the CPU, in memory; otherwise raise a ValueError."""
    for one in values:
        if not isinstance(one, Tensor) or one.layout != torch.strided or one.is_nested:
            kind = type(one).__name__ + (f" of layout {one.layout}" if isinstance(one, Tensor) else "")
            raise InvalidValueError("rows", f"expected dense tensors, got a {kind}: convert it first")
        if one.device.type == "cpu":
            address(one.resolve_neg())


def require_one_type(*rows: Tensor) -> None:
    """Check that rows have one data type, since the kernels would reinterpret other types."""
    kinds = dict.fromkeys(one.dtype for one in rows)
    if len(kinds) > 1:
        text = f"rows must be of one number type, got {' and '.join(map(str, kinds))}: convert them first"
        raise MismatchError("rows", text)
