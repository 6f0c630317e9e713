"""From the control plane, on the CPU, to where rows are: nobody waits for the device."""

from __future__ import annotations

from torch import Tensor

__all__ = ["beside", "consecutive", "pick"]


def beside(values: Tensor, rows: Tensor) -> Tensor:
    """Return values of the control plane on the device of some rows."""
    return values.to(rows.device, non_blocking=True)


def consecutive(index: Tensor) -> slice | None:
    """Return an index [r] on the CPU as a slice where its numbers follow each other."""
    if not len(index):
        return slice(0, 0)
    first, last = int(index[0]), int(index[-1])
    if first < 0 or last - first != len(index) - 1 or not bool((index.diff() == 1).all()):
        return None
    return slice(first, last + 1)


def pick(rows: Tensor, index: Tensor | slice | int) -> Tensor:
    """Return some rows, [r, ...], by an index on the CPU; a view where they follow each other."""
    place = consecutive(index) if isinstance(index, Tensor) else index
    return rows[beside(index, rows)] if isinstance(index, Tensor) and place is None else rows[place]
