"""`ParamSpec`: the mapping from columns of a row to parameters of a module, and the tensors outside any row."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from graphcollab._base.errors import (
    ConflictError,
    DuplicateError,
    EmptyError,
    MismatchError,
    UnknownError,
    UnsupportedError,
)

__all__ = ["ParamSpec", "shared_tensors"]

Tie: TypeAlias = tuple[str | None, str, str]
"""The other part to which a parameter belongs (None: no part), and its two names."""


@dataclass(frozen=True)
class ParamSpec:
    """Columns of one architecture: the P trainable parameters of a module, grouped by part, then its buffers.

    Frozen parameters are in no row (`shared_tensors`). Buffers are the persistent floating-point ones without infinite
    entries, and batch normalization's count of batches; others are constants of the architecture. ``parts`` are column
    ranges, (start, stop): ``"all"`` is every trainable parameter, ``"buffers"`` the rest. A part that is ``tied`` to
    another by a shared parameter cannot be used alone. ``over`` gives, by part, what its numbers are relative to, such
    as a checksum of a frozen base: architectures that differ in it do not share the part. ``intercept`` is the number
    of output biases, if these are the last columns of a model; the others are the slopes (`columns`).
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    num_parameters: int
    parts: Mapping[str, tuple[int, int]]
    tied: Mapping[str, Tie] = field(default_factory=dict)
    over: Mapping[str, str] = field(default_factory=dict)
    intercept: int = 0

    @classmethod
    def from_module(cls, module: nn.Module, parts: Mapping[str, Sequence[str]] | None = None) -> ParamSpec:
        """Derive the columns from a module with at least one trainable parameter.

        ``parts`` are name prefixes, such as ``{"head": ["classifier.6"]}``; by default the module's own ``parts``, else
        its direct children. Modules that cannot be stored in a row raise a ValueError: lazy or torch.jit modules,
        several data types among trainable parameters, complex numbers, gradient hooks that would never be called, a
        parameter in two parts.
        """
        every = dict(module.named_parameters())
        _check_types(module, every)
        parameters = {name: tuple(p.shape) for name, p in every.items() if p.requires_grad}
        if not parameters:
            state = "only frozen parameters (requires_grad=False)" if every else "no parameters"
            raise EmptyError("model", f"{type(module).__name__} has {state}: there is nothing to learn or to share")
        if parts is None:
            parts = getattr(module, "parts", None) or {name: [name] for name, _ in module.named_children()}
        owner = {name: _part_of(name, parts) for name in parameters}
        tied = _ties(module, parts, owner)
        order = [*parts, None]
        names = sorted(parameters, key=lambda name: order.index(owner[name]))
        buffers = {name: tuple(b.shape) for name, b in _state_of(module).items()}
        shapes = (*(parameters[name] for name in names), *buffers.values())
        ends = [*itertools.accumulate(map(math.prod, shapes), initial=0)]
        ranges: dict[str, tuple[int, int]] = {}
        for name, start, stop in zip(names, ends, ends[1:], strict=False):
            if (part := owner[name]) is not None:
                ranges[part] = (ranges.get(part, (start, 0))[0], stop)
        last = ends[len(names)]
        ranges["all"] = (0, last)
        if buffers:
            ranges["buffers"] = (last, ends[-1])
        return cls((*names, *buffers), shapes, last, ranges, tied, intercept=_intercept(module, names))

    @cached_property
    def ranges(self) -> Mapping[str, tuple[int, int]]:
        """Column ranges by name: the parts, and slopes and intercept unless parts have these names."""
        end = self.num_parameters - self.intercept
        derived = {"slopes": (0, end), "intercept": (end, self.num_parameters)} if self.intercept else {}
        return {**derived, **self.parts}

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of columns of every tensor name."""
        return tuple(map(math.prod, self.shapes))

    @property
    def num_columns(self) -> int:
        """Width of a row: trainable parameters and buffers."""
        return sum(self.sizes)

    @cached_property
    def num_named_parameters(self) -> int:
        """Number of names that are trainable parameters (the others are buffers)."""
        return bisect.bisect_left([*itertools.accumulate(self.sizes)], self.num_parameters) + 1

    def width(self, part: str) -> int:
        """Return the number of columns of a part."""
        columns = self.columns(part)
        return int(columns.stop - columns.start)

    def columns(self, part: str) -> slice:
        """Return the column range of a part, or of several adjacent ones, such as ``"backbone+prototypes"``.

        ``"slopes"`` are all trainable parameters except the output layer's bias, which is the ``"intercept"``.

        Parts that are not adjacent, or share a parameter with a part not included, raise a ValueError.
        """
        ranges, wanted = [], part.split("+")
        for name in wanted:
            if name not in self.ranges:
                known = sorted(self.ranges)
                raise UnknownError(
                    f"part {name!r}", f"expected one of {known}, got {name!r}: name one, or give a model that has it"
                )
            if name in self.tied and self.tied[name][0] not in wanted and "all" not in wanted:
                other, one, same = self.tied[name]
                whole = "all" if other is None else f"{name}+{other}"
                raise ConflictError(
                    f"part {name!r}",
                    f"{one!r} in {name!r} is tied to {same!r} outside of it: name {whole!r}, or untie them",
                )
            ranges.append(self.ranges[name])
        ranges.sort()
        for (_, stop), (start, _) in itertools.pairwise(ranges):
            if stop != start:
                order = sorted(self.parts.keys() - {"all"}, key=self.parts.__getitem__)
                raise ConflictError(
                    f"part {part!r}",
                    f"parts {part!r} are not adjacent in {', '.join(order)}: order them by the attribute `parts`",
                )
        return slice(ranges[0][0], ranges[-1][1])

    def names_in(self, part: str) -> tuple[str, ...]:
        """Return the names of the tensors in a part, in column order."""
        columns = self.columns(part)
        starts = zip(self.names, itertools.accumulate(self.sizes, initial=0), strict=False)
        return tuple(name for name, start in starts if columns.start <= start < columns.stop)

    def views(self, rows: Tensor) -> list[Tensor]:
        """Split rows [..., num_columns] into zero-copy views ``[..., *shape]``, one per name."""
        pairs = zip(rows.split(self.sizes, dim=-1), self.shapes, strict=True)
        return [flat.unflatten(-1, shape) if shape else flat[..., 0] for flat, shape in pairs]

    def flatten(self, module: nn.Module) -> Tensor:
        """Return a module's trainable parameters and buffers as one row [num_columns], detached."""
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        dtype = state[self.names[0]].dtype
        return torch.cat([state[name].detach().to(dtype).flatten() for name in self.names])

    def load_into(self, module: nn.Module, row: Tensor) -> nn.Module:
        """Copy one row [num_columns] into a module of this architecture, which has the frozen tensors; return it."""
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        with torch.no_grad():
            for name, view in zip(self.names, self.views(row), strict=True):
                state[name].copy_(view)
        return module

    def part_layout(self, part: str) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the tensors in a part, for checking whether two architectures share it."""
        shapes = dict(zip(self.names, self.shapes, strict=True))
        return tuple(shapes[name] for name in self.names_in(part))

    def part_over(self, part: str) -> tuple[str, ...]:
        """Return what the numbers in a part are relative to, if known (``over``)."""
        columns = self.columns(part)
        ends = {name: self.parts[name] for name in self.over}
        return tuple(self.over[name] for name, (a, b) in ends.items() if a < columns.stop and columns.start < b)


def _part_of(name: str, parts: Mapping[str, Sequence[str]]) -> str | None:
    owners = [part for part, prefixes in parts.items() for p in prefixes if name == p or name.startswith(p + ".")]
    if len(owners) > 1:
        raise DuplicateError(
            f"parameter {name!r}",
            f"parameter {name!r} belongs to the parts {owners}: each parameter can be in one part only",
        )
    return owners[0] if owners else None


def _intercept(module: nn.Module, names: Sequence[str]) -> int:
    """Return the size of the last trainable parameter, if it is the bias of the last layer and this is linear; else 0.

    It must also be the last in the module's own order, which parts may change, and belong to no other layer.
    """
    path, _, kind = names[-1].rpartition(".")
    *others, (name, bias) = module.named_parameters(remove_duplicate=False)
    alone = name == names[-1] and all(bias is not other for _, other in others)
    is_bias = kind == "bias" and isinstance(module.get_submodule(path), nn.Linear)
    return bias.numel() if alone and is_bias and len(names) > 1 else 0


def _ties(module: nn.Module, parts: Mapping[str, Sequence[str]], owner: Mapping[str, str | None]) -> dict[str, Tie]:
    """Return the parts that share a trainable parameter with another part, with that part and the two names."""
    tied: dict[str, Tie] = {}
    first = {id(p): name for name, p in module.named_parameters() if p.requires_grad}
    for alias, parameter in module.named_parameters(remove_duplicate=False):
        name = first.get(id(parameter), alias)
        if name == alias or name not in owner:
            continue
        here, there = _part_of(alias, parts), owner[name]
        if here != there:
            for part, other in ((here, there), (there, here)):
                if part is not None:
                    tied[part] = other, alias, name
    return tied


def _check_types(module: nn.Module, parameters: Mapping[str, Tensor]) -> None:
    kind = type(module).__name__
    for name in (name for name, layer in module.named_modules() if isinstance(layer, torch.jit.ScriptModule)):
        what = f"the part {name!r} of {kind}" if name else kind
        raise UnsupportedError(
            "model", f"{what} is compiled by torch.jit: give the Python module that it was made from"
        )
    lazy = [name for name, p in [*parameters.items(), *module.named_buffers()] if is_lazy(p)]
    if lazy:
        raise UnsupportedError(
            f"parameter {lazy[0]!r}", f"{lazy[0]!r} of {kind} is lazy: call the module once on a few samples first"
        )
    types: dict[torch.dtype, str] = {}
    learns = {name: p for name, p in parameters.items() if p.requires_grad}
    state = {name: b for name, b in _state_of(module).items() if b.is_floating_point()}
    for name, values in [*learns.items(), *state.items()]:
        if values.is_complex():
            raise UnsupportedError(
                f"parameter {name!r}", f"{name!r} of {kind} is complex: make real and imaginary part two parameters"
            )
        if values.is_floating_point():
            types.setdefault(values.dtype, name)
    if len(types) > 1:
        found = " and ".join(f"{dtype} ({name!r})" for dtype, name in list(types.items())[:2])
        raise MismatchError("model", f"{kind} has several number types, {found}: convert it, such as by module.float()")
    for name, parameter in learns.items():
        if getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise UnsupportedError(
                f"parameter {name!r}", f"{name!r} of {kind} has a hook after accumulation: use register_hook"
            )


def shared_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of an architecture that are in no row, by name: frozen parameters, non-persistent buffers."""
    passing = _passing(module)
    frozen = {name: p for name, p in module.named_parameters() if not p.requires_grad}
    return frozen | {name: buffer for name, buffer in module.named_buffers() if name in passing}


def _passing(module: nn.Module) -> set[str]:
    """Return the names of the buffers that are not saved with a module (``persistent=False``)."""
    layers = module.named_modules()
    return {f"{path}.{name}".lstrip(".") for path, layer in layers for name in layer._non_persistent_buffers_set}


def _state_of(module: nn.Module) -> dict[str, Tensor]:
    passing = _passing(module)
    return {name: b for name, b in module.named_buffers() if name not in passing and _is_state(name, b)}


def _is_state(name: str, buffer: Tensor) -> bool:
    """Return whether a buffer may change with training: no masks with infinite entries, nor integer tables."""
    if buffer.is_floating_point():
        return bool(torch.isfinite(buffer).all())
    return name.rpartition(".")[2] == "num_batches_tracked"
