"""What some of the rows have, and what chunks of rows have found, put back in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from graphcollab.tasks import Schedule

__all__ = ["entries", "first_bad", "in_order", "view"]


def view(values: Tensor, rows: Tensor) -> Tensor | None:
    """Return some rows as a view where they follow each other, else None."""
    first = int(rows[0])
    if bool((rows == torch.arange(first, first + len(rows), device=rows.device)).all()):
        return values[first : first + len(rows)]
    return None


def entries(values: Mapping[str, Tensor] | None, rows: Tensor) -> dict[str, Tensor] | None:
    """Return what some rows have of values [R, ...] by name."""
    return None if values is None else {name: value[rows] for name, value in values.items()}


def in_order(pieces: Sequence[Tensor], order: Sequence[Tensor]) -> Tensor:
    """Put pieces [r, ...] together as [R, ...], at the places in ``order``; not copied where they lie so."""
    where, values = torch.cat(list(order)), pieces[0] if len(pieces) == 1 else torch.cat(list(pieces))
    if bool((where == torch.arange(len(where), device=where.device)).all()):
        return values
    return torch.empty_like(values).index_copy_(0, where, values)


def first_bad(losses: Tensor, schedule: Schedule, models: Tensor) -> Tensor:
    """Return the first step whose loss is not finite, [r], -1 where all are and the model is finite."""
    took = torch.arange(len(losses), device=losses.device)[:, None] < schedule.steps
    bad = took & ~torch.isfinite(losses)
    after = torch.where(torch.isfinite(models.sum(1)), -1, schedule.steps)
    return torch.where(bad.any(0), bad.int().argmax(0), after)
