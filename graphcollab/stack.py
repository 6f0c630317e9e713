"""Models as rows of one tensor: `ParamSpec` maps a module to columns, `Stacks` holds the rows of all nodes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor, nn

__all__ = ["ParamSpec", "Stacks"]


def _part_of(name: str, parts: Mapping[str, Sequence[str]]) -> str | None:
    """Return the part whose prefix owns the parameter ``name``."""
    owners = [part for part, prefixes in parts.items() for p in prefixes if name == p or name.startswith(p + ".")]
    if len(owners) > 1:
        raise ValueError(f"parameter {name!r} belongs to the parts {owners}: each parameter can be in one part only")
    return owners[0] if owners else None


@dataclass(frozen=True)
class ParamSpec:
    """Columns of one architecture: which columns of a row are which parameter.

    A row holds the P trainable parameters of a module, grouped by part, then its frozen ones, then its buffers, so that
    everything a model is travels in one row. Frozen parameters (``requires_grad=False``) belong to no part of their
    own name: they are carried, but neither trained nor mixed. Buffers are all floating-point ones without infinite
    entries, and batch normalisation's count of batches; others are constants of the architecture.

    Args:
        names: Names of the trainable parameters, the frozen ones and the buffers, in column order.
        shapes: Their shapes.
        num_parameters: P, the number of leading columns that are trainable parameters.
        parts: Column range ``(start, stop)`` of every part; ``"all"`` is every trainable parameter, ``"frozen"`` and
            ``"buffers"`` are the rest.

    Example:
        >>> spec = ParamSpec.from_module(nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)))
        >>> spec.num_parameters, spec.parts["0"], spec.parts["all"]
        (11, (0, 8), (0, 11))
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    num_parameters: int
    parts: Mapping[str, tuple[int, int]]

    @classmethod
    def from_module(cls, module: nn.Module, parts: Mapping[str, Sequence[str]] | None = None) -> ParamSpec:
        """Read the columns off a module.

        Args:
            module: Any module with at least one parameter.
            parts: Name prefixes of every part, for example ``{"head": ["classifier.6"]}``. Default: the module's own
                ``parts`` attribute, else its direct children, each a part under its own name.

        Raises:
            ValueError: If the module has no parameters, all are frozen, or a parameter is in two parts.
        """
        every = dict(module.named_parameters())
        parameters = {name: tuple(p.shape) for name, p in every.items() if p.requires_grad}
        frozen = {name: tuple(p.shape) for name, p in every.items() if not p.requires_grad and p.is_floating_point()}
        if not parameters:
            state = "only frozen parameters (requires_grad=False)" if every else "no parameters"
            raise ValueError(f"{type(module).__name__} has {state}: there is nothing to learn or to share")
        if parts is None:
            parts = getattr(module, "parts", None) or {name: [name] for name, _ in module.named_children()}
        owner = {name: _part_of(name, parts) for name in parameters}
        order = [*parts, None]
        names = sorted(parameters, key=lambda name: order.index(owner[name]))
        ranges: dict[str, tuple[int, int]] = {}
        column = 0
        for name in names:
            stop = column + _numel(parameters[name])
            if (part := owner[name]) is not None:
                ranges[part] = (ranges.get(part, (column, 0))[0], stop)
            column = stop
        ranges["all"] = (0, column)
        if frozen:
            ranges["frozen"] = (column, column + sum(map(_numel, frozen.values())))
        buffers = {name: tuple(b.shape) for name, b in module.named_buffers() if _is_state(name, b)}
        if buffers:
            start = ranges.get("frozen", ranges["all"])[1]
            ranges["buffers"] = (start, start + sum(map(_numel, buffers.values())))
        shapes = (*(parameters[n] for n in names), *frozen.values(), *buffers.values())
        return cls((*names, *frozen, *buffers), shapes, column, ranges)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of columns of every name."""
        return tuple(map(_numel, self.shapes))

    @property
    def num_columns(self) -> int:
        """Width of a row: trainable and frozen parameters and buffers."""
        return sum(self.sizes)

    @cached_property
    def num_named_parameters(self) -> int:
        """How many of the names are trainable parameters (the others are frozen parameters and buffers)."""
        column = count = 0
        while count < len(self.sizes) and column < self.num_parameters:
            column, count = column + self.sizes[count], count + 1
        return count

    def columns(self, part: str) -> slice:
        """Return the column range of a part, or of several that lie side by side, such as ``"backbone+prototypes"``.

        Raises:
            KeyError: If there is no such part; the message lists those there are.
            ValueError: If parts named together do not lie side by side.
        """
        ranges = []
        for name in part.split("+"):
            if name not in self.parts:
                raise KeyError(f"no part {name!r} in this architecture; its parts are {sorted(self.parts)}")
            ranges.append(self.parts[name])
        ranges.sort()
        for (_, stop), (start, _) in itertools.pairwise(ranges):
            if stop != start:
                order = sorted(self.parts.keys() - {"all"}, key=self.parts.__getitem__)
                raise ValueError(
                    f"the parts {part!r} do not lie side by side: the order of columns is {', '.join(order)}, which a "
                    "module can change by its attribute `parts`"
                )
        return slice(ranges[0][0], ranges[-1][1])

    def names_in(self, part: str) -> tuple[str, ...]:
        """Return the names of the tensors in a part, in column order."""
        columns, start, names = self.columns(part), 0, []
        for name, size in zip(self.names, self.sizes, strict=True):
            if columns.start <= start < columns.stop:
                names.append(name)
            start += size
        return tuple(names)

    def views(self, rows: Tensor) -> list[Tensor]:
        """Split rows into zero-copy views, one per name.

        Shapes:
            rows: [..., num_columns]; output: a list of [..., *shape].
        """
        pieces = rows.split(self.sizes, dim=-1)
        return [
            piece.unflatten(-1, shape) if shape else piece[..., 0]
            for piece, shape in zip(pieces, self.shapes, strict=True)
        ]

    def flatten(self, module: nn.Module) -> Tensor:
        """Return a module's parameters and buffers as one row [num_columns], detached."""
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        dtype = state[self.names[0]].dtype
        return torch.cat([state[name].detach().to(dtype).flatten() for name in self.names])

    def load_into(self, module: nn.Module, row: Tensor) -> nn.Module:
        """Copy one row [num_columns] into a module of this architecture and return the module."""
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        with torch.no_grad():
            for name, view in zip(self.names, self.views(row), strict=True):
                state[name].copy_(view)
        return module

    def part_layout(self, part: str) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the tensors in a part, to tell whether two architectures share it."""
        shapes = dict(zip(self.names, self.shapes, strict=True))
        return tuple(shapes[name] for name in self.names_in(part))


def _numel(shape: Iterable[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _is_state(name: str, buffer: Tensor) -> bool:
    """Tell whether a buffer may change with training and so belongs to a node.

    Floating-point buffers may, a user's running average as well as batch normalisation's; not those with infinite
    entries (masks), nor whole numbers (tables), except batch normalisation's count of batches.
    """
    if buffer.is_floating_point():
        return bool(torch.isfinite(buffer).all())
    return name.rpartition(".")[2] == "num_batches_tracked"


@dataclass(frozen=True)
class Stacks:
    """The models of all K nodes: one [K_s, columns] tensor per architecture, on one homogeneous graph.

    Args:
        specs: The architectures.
        tensors: Rows of each architecture's nodes.
        members: Node positions of those rows; together they are a partition of 0..K-1.

    Example:
        >>> spec = ParamSpec.from_module(nn.Linear(2, 1))
        >>> stacks = Stacks.single(spec, torch.arange(6.0).view(2, 3))
        >>> stacks.part("all").shape, stacks.num_nodes
        (torch.Size([2, 3]), 2)
    """

    specs: tuple[ParamSpec, ...]
    tensors: tuple[Tensor, ...]
    members: tuple[Tensor, ...] = field(repr=False)

    def __post_init__(self) -> None:
        if not len(self.specs) == len(self.tensors) == len(self.members):
            raise ValueError(
                f"got {len(self.specs)} architectures, {len(self.tensors)} stacks, {len(self.members)} member lists"
            )
        for spec, tensor, members in zip(self.specs, self.tensors, self.members, strict=True):
            if tensor.shape != (len(members), spec.num_columns):
                raise ValueError(
                    f"a stack of {len(members)} nodes with {spec.num_columns} columns has shape {tuple(tensor.shape)}"
                )

    @classmethod
    def single(cls, spec: ParamSpec, rows: Tensor) -> Stacks:
        """Wrap the rows [K, columns] of one architecture."""
        return cls((spec,), (rows,), (torch.arange(rows.shape[0], device=rows.device),))

    @property
    def num_nodes(self) -> int:
        """K."""
        return sum(tensor.shape[0] for tensor in self.tensors)

    @property
    def device(self) -> torch.device:
        """Device of the rows."""
        return self.tensors[0].device

    @property
    def dtype(self) -> torch.dtype:
        """Number type of the rows."""
        return self.tensors[0].dtype

    def part(self, name: str) -> Tensor:
        """Return a part of all nodes' models as [K, P_part]; with one architecture it is a view.

        Raises:
            KeyError: If an architecture has no such part.
            ValueError: If the part's tensors differ in shape between architectures.
        """
        if len(self.specs) == 1:
            return self.tensors[0][:, self.specs[0].columns(name)]
        layouts = {spec.part_layout(name) for spec in self.specs}
        if len(layouts) > 1:
            shared = sorted(
                p
                for p in set.intersection(*(set(spec.parts) for spec in self.specs))
                if len({spec.part_layout(p) for spec in self.specs}) == 1
            )
            raise ValueError(
                f"part {name!r} has different shapes in the {len(self.specs)} architectures and cannot be shared; "
                f"parts they have in common: {shared or 'none'}"
            )
        columns = self.specs[0].columns(name)
        out = self.tensors[0].new_empty(self.num_nodes, columns.stop - columns.start)
        for spec, tensor, members in zip(self.specs, self.tensors, self.members, strict=True):
            out[members] = tensor[:, spec.columns(name)]
        return out

    def with_part(self, name: str, values: Tensor) -> Stacks:
        """Return stacks in which a part has new values [K, P_part]; everything else is copied, nothing is shared."""
        tensors = []
        for spec, tensor, members in zip(self.specs, self.tensors, self.members, strict=True):
            columns = spec.columns(name)
            new = values if len(self.specs) == 1 else values[members]
            if columns.stop - columns.start != spec.num_columns:
                whole = tensor.clone(memory_format=torch.contiguous_format)
                whole[:, columns] = new
                new = whole
            tensors.append(new)
        return replace(self, tensors=tuple(tensors))

    def map(self, function: Callable[[Tensor], Tensor]) -> Stacks:
        """Apply a function to every stack's tensor."""
        return replace(self, tensors=tuple(function(tensor) for tensor in self.tensors))

    def like(self, tensors: Iterable[Tensor]) -> Stacks:
        """Return stacks with the same architectures and members and other values."""
        return replace(self, tensors=tuple(tensors))

    def where(self, nodes: Tensor, new: Stacks) -> Stacks:
        """Return stacks in which some nodes, a mask [K], have their rows from others of the same layout."""
        pairs = zip(self.tensors, new.tensors, self.members, strict=True)
        return self.like(torch.where(nodes[members][:, None], b, a) for a, b, members in pairs)

    def to(self, *args: object, **kwargs: object) -> Stacks:
        """Move to a device or dtype, as ``Tensor.to`` does (members keep their dtype)."""
        tensors = tuple(tensor.to(*args, **kwargs) for tensor in self.tensors)  # type: ignore[call-overload]
        return replace(self, tensors=tensors, members=tuple(m.to(tensors[0].device) for m in self.members))

    def cpu(self) -> Stacks:
        """Move to the CPU, as ``Data.cpu`` asks."""
        return self.to("cpu")

    def cuda(self, device: int | str | None = None, non_blocking: bool = False) -> Stacks:
        """Move to a GPU, as ``Data.cuda`` asks."""
        return self.to(torch.device("cuda") if device is None else device, non_blocking=non_blocking)

    def clone(self) -> Stacks:
        """Copy the tensors, as ``Data.clone`` asks."""
        return self.map(Tensor.clone)

    def select(self, nodes: Tensor) -> Stacks:
        """Return the stacks of some nodes, in the order given: position k is node ``nodes[k]``."""
        position = torch.full((self.num_nodes,), -1, device=self.device)
        position[nodes] = torch.arange(len(nodes), device=self.device)
        kept = []
        for spec, tensor, members in zip(self.specs, self.tensors, self.members, strict=True):
            new = position[members]
            rows = (new >= 0).nonzero().flatten()
            rows = rows[new[rows].argsort()]
            if len(rows):
                kept.append((spec, tensor[rows], new[rows]))
        specs, tensors, places = zip(*kept, strict=True)
        return Stacks(specs, tensors, places)

    def locate(self, nodes: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield for every stack ``(stack, where, row)``: positions in ``nodes`` it holds, and their rows in it."""
        if len(self.specs) == 1:
            yield 0, torch.arange(len(nodes), device=nodes.device), nodes
            return
        row_of = torch.empty(self.num_nodes, dtype=torch.int64, device=nodes.device)
        stack_of = torch.empty_like(row_of)
        for s, members in enumerate(self.members):
            row_of[members] = torch.arange(len(members), device=nodes.device)
            stack_of[members] = s
        for s in range(len(self.specs)):
            where = (stack_of[nodes] == s).nonzero().flatten()
            if len(where):
                yield s, where, row_of[nodes[where]]

    def row(self, node: int) -> tuple[ParamSpec, Tensor]:
        """Return a node's architecture and its row [columns]."""
        for s, _, row in self.locate(torch.tensor([node], device=self.device)):
            return self.specs[s], self.tensors[s][row[0]]
        raise IndexError(f"node {node} is not among the {self.num_nodes} nodes")
