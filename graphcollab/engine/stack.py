"""Models as rows of one tensor: `Stacks` holds the rows of all nodes, `ParamSpec` names their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from graphcollab._base.device import Movable, beside, pick
from graphcollab._base.errors import MismatchError, RangeError, ShapeError
from graphcollab._base.memory import new_rows
from graphcollab.engine.param_spec import ParamSpec

__all__ = ["ParamSpec", "Stacks"]


@dataclass(frozen=True)
class Stacks(Movable):
    """Models of nodes: one tensor [K_s, columns] per architecture, on one homogeneous graph.

    Each process holds those of its own nodes, and temporarily those of their in-neighbors. ``members`` are the nodes of
    the rows, by their number among all K, ascending, on the CPU; an architecture may have no local nodes.
    """

    specs: tuple[ParamSpec, ...]
    tensors: tuple[Tensor, ...]
    members: tuple[Tensor, ...] = field(repr=False)

    def __post_init__(self) -> None:
        counts = len(self.specs), len(self.tensors), len(self.members)
        if len({*counts}) > 1:
            raise MismatchError("stacks", "got {} architectures, {} stacks, {} member lists".format(*counts))
        for spec, tensor, members in zip(self.specs, self.tensors, self.members, strict=True):
            if tensor.shape != (len(members), spec.num_columns):
                raise ShapeError(
                    "stacks",
                    f"a stack of {len(members)} nodes with {spec.num_columns} columns has shape {tuple(tensor.shape)}",
                )

    @classmethod
    def single(cls, spec: ParamSpec, rows: Tensor) -> Stacks:
        """Wrap the rows [K, columns] of one architecture."""
        return cls((spec,), (rows,), (torch.arange(rows.shape[0]),))

    @property
    def num_nodes(self) -> int:
        """k, the number of nodes with local models."""
        return sum(map(len, self.tensors))

    @cached_property
    def nodes(self) -> Tensor:
        """The nodes with local models, ascending, [k]."""
        return self.members[0] if len(self.members) == 1 else torch.cat(self.members).sort().values

    @cached_property
    def places(self) -> tuple[Tensor, ...]:
        """Positions of every architecture's nodes among the local ones, [K_s] each."""
        return tuple(torch.searchsorted(self.nodes, members) for members in self.members)

    @cached_property
    def kinds(self) -> Tensor:
        """The architecture of every local node, in the order of nodes, [k]."""
        kinds = torch.empty(self.num_nodes, dtype=torch.int64)
        for number, places in enumerate(self.places):
            kinds[places] = number
        return kinds

    @cached_property
    def _whole(self) -> bool:
        """Whether nodes are numbered like their rows: 0 to k - 1."""
        return len(self.nodes) == 0 or int(self.nodes[-1]) == len(self.nodes) - 1

    @property
    def device(self) -> torch.device:
        """Device of the rows."""
        return self.tensors[0].device

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the rows."""
        return self.tensors[0].dtype

    def place(self, nodes: Tensor) -> Tensor:
        """Return the positions of nodes among the local ones, in the shape of ``nodes``."""
        return nodes if self._whole else torch.searchsorted(self.nodes, nodes.contiguous())

    def part(self, name: str) -> Tensor:
        """Return a part of the models as [k, P_part]; a view if there is one architecture.

        Parts whose shapes or base differ between architectures raise a ValueError.
        """
        if len(self.specs) == 1:
            return self.tensors[0][:, self.specs[0].columns(name)]
        layouts = {spec.part_layout(name) for spec in self.specs}
        if len(layouts) > 1:
            untied = set.intersection(*({*spec.ranges} - {*spec.tied} for spec in self.specs))
            shared = sorted(p for p in untied if len({spec.part_layout(p) for spec in self.specs}) == 1)
            raise MismatchError(
                f"part {name!r}", f"architectures have {name!r} in different shapes: share one of {shared or 'none'}"
            )
        if len({spec.part_over(name) for spec in self.specs}) > 1:
            raise MismatchError(
                f"part {name!r}",
                f"architectures have {name!r} over other frozen weights or scaled otherwise: build all over one base",
            )
        out = self.tensors[0].new_empty(self.num_nodes, self.specs[0].width(name))
        for spec, tensor, places in zip(self.specs, self.tensors, self.places, strict=True):
            out[beside(places, out)] = tensor[:, spec.columns(name)]
        return out

    def with_part(self, name: str, values: Tensor) -> Stacks:
        """Return stacks with new values [k, P_part] of a part; the rest is copied, so nothing is shared."""
        tensors = []
        for spec, tensor, places in zip(self.specs, self.tensors, self.places, strict=True):
            columns = spec.columns(name)
            new = values if len(self.specs) == 1 else pick(values, places)
            if columns.stop - columns.start != spec.num_columns:
                whole = tensor.clone(memory_format=torch.contiguous_format)
                whole[:, columns] = new
                new = whole
            tensors.append(new)
        return self.like(tensors)

    def only(self, stack: int, rows: Tensor) -> Stacks:
        """Return rows [R, columns] of one architecture as the models of R nodes, and no others."""
        nothing, nodes = torch.arange(0), torch.arange(len(rows))
        many = range(len(self.specs))
        tensors = tuple(rows if s == stack else self.tensors[s][:0] for s in many)
        return Stacks(self.specs, tensors, tuple(nodes if s == stack else nothing for s in many))

    def map(self, function: Callable[[Tensor], Tensor]) -> Stacks:
        """Apply a function to every stack's tensor."""
        return self.like(map(function, self.tensors))

    def like(self, tensors: Iterable[Tensor]) -> Stacks:
        """Return stacks with the same architectures and members, but other values."""
        return replace(self, tensors=tuple(tensors))

    def where(self, nodes: Tensor, new: Stacks) -> Stacks:
        """Return stacks in which the rows of nodes in a mask [K] come from others of the same layout."""
        pairs = zip(self.tensors, new.tensors, self.members, strict=True)
        return self.like(
            torch.where(beside(nodes[members], a)[:, None], b, a, out=new_rows(a, *a.shape)) for a, b, members in pairs
        )

    def to(self, *args: object, **kwargs: object) -> Stacks:
        return self.map(lambda tensor: tensor.to(*args, **kwargs))  # type: ignore[call-overload]

    def clone(self) -> Stacks:
        """Copy the tensors, as required by ``Data.clone``."""
        return self.map(Tensor.clone)

    def held(self, nodes: Tensor) -> Stacks:
        """Return the models of the given nodes, ascending, under their existing numbers."""
        kept = [torch.isin(members, nodes).nonzero().flatten() for members in self.members]
        tensors = tuple(tensor[beside(rows, tensor)] for tensor, rows in zip(self.tensors, kept, strict=True))
        return Stacks(self.specs, tensors, tuple(m[rows] for m, rows in zip(self.members, kept, strict=True)))

    def select(self, nodes: Tensor) -> Stacks:
        """Return the stacks of the given nodes, in the given order: position k is node ``nodes[k]``."""
        kept = [(self.specs[s], pick(self.tensors[s], row), where) for s, where, row in self.locate(nodes)]
        specs, tensors, places = zip(*kept, strict=True)
        return Stacks(specs, tensors, places)

    def locate(self, nodes: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield ``(stack, where, row)`` for every stack: positions in ``nodes`` that it holds, and their rows in it."""
        if len(self.specs) == 1:
            yield 0, torch.arange(len(nodes)), self.place(nodes)
            return
        for s, members in enumerate(self.members):
            row = torch.searchsorted(members, nodes.contiguous())
            there = row < len(members)
            there[there.clone()] = members[row[there]] == nodes[there]
            where = there.nonzero().flatten()
            if len(where):
                yield s, where, row[where]

    def row(self, node: int) -> tuple[ParamSpec, Tensor]:
        """Return a node's architecture and its row [columns]."""
        for s, _, row in self.locate(torch.tensor([node])):
            return self.specs[s], self.tensors[s][int(row)]
        raise RangeError("node", f"node {node} is not among the {self.num_nodes} nodes")
