"""Helpers shared by the contract checks: comparisons, snapshots, and the exceptions raised."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_dense_adj

from graphcollab.engine.stack import Stacks
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases

AnyMethod = Method | Phases

SOON = 3  # rounds; test a phase that begins later with settings that make it begin earlier
TOLERANCE = 1e-9  # relative to one: scenes are in double precision


class NotApplicable(Exception):
    """A check does not apply to a method; the message gives the reason."""


def rounds_of(method: AnyMethod) -> int:
    """Return the number of rounds to play: two, or enough to begin the last phase if at most ``SOON`` precede it."""
    last = 0
    while isinstance(method, Phases):
        last, method = method.until, method.next
    return last + 1 if 1 < last <= SOON else 2


def rows(models: Stacks) -> Tensor:
    """Return the parameters and buffers of all nodes, [K, columns]."""
    return models.tensors[0]


def dense(data: Data) -> Tensor:
    """Return the edge weights as a matrix [K, K] with one row per receiver."""
    return to_dense_adj(data.edge_index, edge_attr=data.edge_weight, max_num_nodes=data.num_nodes)[0].T


def close(one: Tensor, two: Tensor, what: str, tolerance: float = TOLERANCE) -> None:
    """Require that two tensors are equal up to rounding."""
    apart, size = (float(values.abs().max()) if values.numel() else 0.0 for values in (one - two, one))
    require(apart <= tolerance * max(1.0, size), f"{what} differ by up to {apart:.3g}")


def require(holds: bool, message: str) -> None:
    """Raise ``AssertionError`` with the message unless the condition holds."""
    if not holds:
        raise AssertionError(message)


def leaves(value: Any, name: str = "data") -> Iterator[tuple[str, Any]]:
    """Yield the name and value of every tensor and plain value nested in a value, such as ``("data.x", …)``."""
    if isinstance(value, Data):
        value = {key: value[key] for key in sorted(value.keys())}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from leaves(item, f"{name}.{i}")
    else:
        yield name, value


def differences(first: Any, second: Any) -> list[str]:
    """Return the names of tensors and plain values that are not bitwise identical; NaN equals NaN."""
    return _apart(dict(leaves(first)), dict(leaves(second)))


def snapshot(value: Any) -> dict[str, Any]:
    """Return copies of the tensors and plain values nested in a value, by name."""
    return {name: leaf.clone() if isinstance(leaf, Tensor) else leaf for name, leaf in leaves(value)}


def changes(before: Mapping[str, Any], value: Any) -> list[str]:
    """Return the names of nested tensors and plain values that have changed since a `snapshot`."""
    return _apart(before, dict(leaves(value)))


def _apart(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[str]:
    return sorted(
        name
        for name in left.keys() | right.keys()
        if name not in left or name not in right or not _same(left[name], right[name])
    )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and bool(torch.equal(a.nan_to_num(0.5), b.nan_to_num(0.5)))
    return type(a) is type(b) and bool(a == b)
