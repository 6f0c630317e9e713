"""Comparison of nested values: what changed in a ``Data``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

__all__ = ["differences", "leaves"]


def leaves(value: Any, name: str = "data") -> Iterator[tuple[str, Any]]:
    """Yield the name and value of every tensor and plain value inside a value.

    Example:
        >>> [name for name, _ in leaves({"a": 1, "b": [2, 3]})]
        ['data.a', 'data.b.0', 'data.b.1']
    """
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
    """Return the names of tensors and plain values that are not the same, bit for bit; NaN equals NaN.

    Example:
        >>> differences({"a": torch.ones(2), "b": 1}, {"a": torch.ones(2), "b": 2})
        ['data.b']
    """
    left, right = dict(leaves(first)), dict(leaves(second))
    return sorted(
        name
        for name in left.keys() | right.keys()
        if name not in left or name not in right or not _same(left[name], right[name])
    )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and bool(torch.equal(a.nan_to_num(0.5), b.nan_to_num(0.5)))
    return type(a) is type(b) and bool(a == b)
