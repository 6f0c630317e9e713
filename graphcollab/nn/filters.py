"""The filters of a part: the assignment of columns to layers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from graphcollab._base.errors import MismatchError, ShapeError, UnknownError
from graphcollab._base.memory import new_rows
from graphcollab.engine.stack import ParamSpec

Columns = tuple[int, int]
Layers = dict[str, tuple[int, list[Columns]]]


def layers_of(spec: ParamSpec, part: str) -> Layers:
    """List a part's layers: number of filters C, and (first column in the part, width) of every parameter of a filter.

    Parameters of one module with the same first dimension are the columns of its filters; any other parameter forms its
    own layer. A low-rank adapter (`graphcollab.llm`) thus has two layers: the filters of A [r, in] are its r rows, the
    directions that it reads, and those of B [out, r] are the contributions of these directions to every output.
    """
    columns, start = spec.columns(part), 0
    groups: dict[str, list[tuple[str, int, Columns]]] = {}
    for name, size, shape in zip(spec.names, spec.sizes, spec.shapes, strict=True):
        if columns.start <= start < columns.stop:
            channels, width = (shape[0], math.prod(shape[1:])) if shape else (1, 1)
            member = name, channels, (start - columns.start, width)
            groups.setdefault(name.rpartition(".")[0], []).append(member)
        start += size
    layers: Layers = {}
    for module, members in groups.items():
        if len({channels for _, channels, _ in members}) == 1:
            layers[module or "model"] = members[0][1], [piece for _, _, piece in members]
        else:
            layers |= {name: (channels, [piece]) for name, channels, piece in members}
    return layers


def filter_widths(spec: ParamSpec, part: str) -> dict[str, int]:
    """Return the length of a filter of every layer."""
    return {layer: sum(width for _, width in pieces) for layer, (_, pieces) in layers_of(spec, part).items()}


def root_mean_square(change: Tensor, channels: int, pieces: list[Columns]) -> Tensor:
    """Return the root mean square of a layer's columns of changes [k, P_part], [k]; for zeros, a number above 0."""
    columns = [change[:, start : start + channels * width] for start, width in pieces]
    squares = torch.stack([torch.square(some, out=new_rows(some, *some.shape)).sum(1) for some in columns])
    mean = squares.sum(0) / (channels * sum(width for _, width in pieces))
    return mean.sqrt().clamp(min=torch.finfo(change.dtype).tiny)


def require_widths(known: Mapping[str, int], spec: ParamSpec, part: str) -> None:
    """Check that the layers with known filter lengths are those of a part, with the same lengths."""
    wanted = filter_widths(spec, part)
    for layer, width in wanted.items():
        if layer not in known:
            raise UnknownError(
                f"layer {layer!r}", f"the mixer has no encoder for layer {layer!r}; it knows {sorted(known)}"
            )
        if known[layer] != width:
            raise ShapeError(
                f"layer {layer!r}", f"the mixer is for filters of {known[layer]} numbers in {layer!r}, got {width}"
            )
    if unused := sorted(set(known) - set(wanted)):
        raise MismatchError(
            "mixer", f"the mixer has encoders for layers {unused}, which this architecture does not have"
        )
