"""Transfers between the control plane on the CPU and the device of the rows: asynchronous there, one sync back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor


class Movable:
    """Base of values that ``Data`` can move between devices; subclasses implement ``to``."""

    def to(self, *args: object, **kwargs: object) -> Self:
        """Move to a device or dtype, as ``Tensor.to`` does."""
        raise NotImplementedError

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self.to("cpu")

    def cuda(self, device: int | str | None = None, non_blocking: bool = False) -> Self:
        """Move to a GPU."""
        return self.to(torch.device("cuda") if device is None else device, non_blocking=non_blocking)


def beside(values: Tensor, rows: Tensor) -> Tensor:
    """Return control-plane values on the device of ``rows``, without waiting."""
    return values.to(rows.device, non_blocking=True)


def read(*values: Tensor) -> list[Tensor]:
    """Return device results on the CPU, for decisions there, with a single synchronization."""
    if all(value.device.type == "cpu" for value in values):
        return list(values)
    numbers = torch.cat([value.double().flatten() for value in values]).cpu()
    parts = numbers.split([value.numel() for value in values])
    return [part.view(value.shape).to(value.dtype) for part, value in zip(parts, values, strict=True)]


def consecutive(index: Tensor) -> slice | None:
    """Return a CPU index, [r], as a slice if its numbers are consecutive, and None otherwise."""
    if not len(index):
        return slice(0, 0)
    first, last = int(index[0]), int(index[-1])
    if first < 0 or last - first != len(index) - 1 or not bool((index.diff() == 1).all()):
        return None
    return slice(first, last + 1)


def pick(rows: Tensor, index: Tensor | slice | int) -> Tensor:
    """Return rows, [r, ...], selected by a CPU index; a view if they are consecutive."""
    place = consecutive(index) if isinstance(index, Tensor) else index
    return rows[beside(index, rows)] if isinstance(index, Tensor) and place is None else rows[place]


def copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return copies of tensors, made in one fused device operation."""
    new = [torch.empty_like(one) for one in tensors]
    with torch.no_grad():
        torch._foreach_copy_(new, list(tensors))
    return new
