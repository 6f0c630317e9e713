"""What some of the rows have, and what chunks of rows have found, put back in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from graphcollab.device import beside, consecutive
from graphcollab.tasks import Schedule

__all__ = ["entries", "in_order", "outcome"]


def entries(values: Mapping[str, Tensor] | None, rows: Tensor, like: Tensor) -> dict[str, Tensor] | None:
    """Return what some rows have of values [R, ...] by name, on the device of ``like``."""
    if values is None:
        return None
    index = beside(rows, like)
    return {name: beside(value, like)[index] for name, value in values.items()}


def in_order(pieces: Sequence[Tensor], order: Sequence[Tensor]) -> Tensor:
    """Put pieces [r, ...] together as [R, ...], at the places in ``order``; not copied where they lie so."""
    where, values = torch.cat(list(order)), pieces[0] if len(pieces) == 1 else torch.cat(list(pieces))
    if consecutive(where) is not None:
        return values
    return torch.empty_like(values).index_copy_(0, beside(where, values), values)


def outcome(seen: Sequence[tuple[Tensor, Schedule, Tensor]], loss: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean loss of every row and the first step whose loss was not finite, [R] each, read all at once.

    The step is -1 where all losses are finite, and the model too.

    Args:
        seen: For every chunk its rows [r], their batches, and the losses of their steps above the models' sums,
            [S + 1, r].
        loss: Where to put the losses, [R].
    """
    bad = torch.full(loss.shape, -1)
    if not seen:
        return loss, bad
    numbers = torch.cat([values.flatten() for _, _, values in seen]).cpu()
    for (rows, schedule, _), own in zip(seen, numbers.split([values.numel() for _, _, values in seen]), strict=True):
        losses, models = own.view(-1, len(rows)).tensor_split([-1])
        loss[rows] = losses.nansum(0) / schedule.steps
        wrong = (torch.arange(len(losses))[:, None] < schedule.steps) & ~torch.isfinite(losses)
        after = torch.where(torch.isfinite(models[0]), -1, schedule.steps)
        bad[rows] = torch.where(wrong.any(0), wrong.int().argmax(0), after)
    return loss, bad
