"""Plain attributes of layers, which all nodes share, and how they change in forward passes."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

Attributes: TypeAlias = dict[str, Any]
"""Plain attributes of layers, by name."""

PLAIN = type(None), bool, int, float, str


def attributes_of(module: nn.Module) -> Attributes:
    """Return the attributes of layers, except those that every module has."""
    every = vars(nn.Module())
    return {
        f"{prefix}.{name}".removeprefix("."): value
        for prefix, layer in module.named_modules()
        for name, value in vars(layer).items()
        if name not in every
    }


def changed(before: Attributes, now: Attributes) -> list[str]:
    """Return the names of numbers, texts, tensors and containers of these that have changed."""
    return [name for name in before | now if not _same(before.get(name), now.get(name))]


def are_plain(name: str, *many: Attributes) -> bool:
    """Return whether an attribute is a number or a text in all of these."""
    return all(type(one.get(name)) in PLAIN for one in many)


def _same(one: Any, other: Any) -> bool:
    (values, form), (others, other_form) = tree_flatten(one), tree_flatten(other)
    return form == other_form and all(map(_same_value, values, others))


def _same_value(one: Any, other: Any) -> bool:
    """Compare values; parameters, and values of types that are not inspected, count as equal."""
    if isinstance(one, nn.Parameter) or isinstance(other, nn.Parameter):
        return True
    if isinstance(one, Tensor | np.ndarray) and isinstance(other, Tensor | np.ndarray):
        return type(one) is type(other) and equal(torch.as_tensor(one), torch.as_tensor(other))
    if isinstance(one, set) and isinstance(other, set):
        return len(one) == len(other)
    if type(one) in PLAIN or type(other) in PLAIN:
        return type(one) is type(other) and bool(one == other or one != one)
    return True


def equal(one: Tensor, other: Tensor) -> bool:
    """Return whether tensors are equal up to a GPU's order of summation."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    with torch.no_grad():
        largest = float(torch.nan_to_num(one.abs(), nan=0.0, posinf=0.0).max()) if one.numel() else 0.0
        return torch.allclose(one, other, rtol=0.0, atol=1e-5 * largest, equal_nan=True)
