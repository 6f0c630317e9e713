"""What all transforms of this package share: a ``__repr__`` with their settings, and checks of whole numbers."""

from __future__ import annotations

from numbers import Integral

from torch import Tensor
from torch_geometric.transforms import BaseTransform

__all__ = ["Transform", "whole_number"]


def whole_number(owner: object, name: str, value: object, minimum: int) -> int:
    """Return ``value`` if it is an integer of at least ``minimum``.

    Raises:
        TypeError: If it is no integer.
        ValueError: If it is smaller.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{type(owner).__name__}: {name} must be an int, got {value!r}")
    if int(value) < minimum:
        raise ValueError(f"{type(owner).__name__}: {name} must be at least {minimum}, got {value}")
    return int(value)


class Transform(BaseTransform):
    """Base class: attributes are settings, and ``__repr__`` prints those that are set."""

    def __repr__(self) -> str:
        settings = [
            f"{name}={list(value.shape) if isinstance(value, Tensor) else value}"
            for name, value in vars(self).items()
            if value is not None
        ]
        return f"{type(self).__name__}({', '.join(settings)})"
