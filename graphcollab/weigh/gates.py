"""What own models get apart from attention: by comparison with local training, and in sparse graphs."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.control.allowed import components
from graphcollab.nn import Mixer

__all__ = ["against_alone", "in_sparse", "moved_gates"]

LARGEST = 3.0  # logarithm of a ratio of losses that counts, so that an outlier does not open or close a gate by itself


def moved_gates(data: Data, group: Tensor, members: Tensor, lr: float) -> tuple[Mixer, Tensor | None]:
    """Move gates by how mixed models compare with models that hear nobody.

    Args:
        data: The graph, with its ``mixer`` and both kinds of validation losses.
        group: Whose encoders every node uses, [K].
        members: Nodes at work.
        lr: The step of the optimiser.

    Returns:
        The mixer, and who is to go on comparing, [K]; None without a gate.
    """
    if data.mixer.gate is None:
        return data.mixer, None
    mine = members[torch.isfinite(data.alone_loss[members])]
    nothing = torch.zeros(data.mixer.num_groups, dtype=torch.float64)
    mixed, alone = (nothing.index_add(0, group[mine], data[name][mine].double()) for name in ("val_loss", "alone_loss"))
    gated = data.mixer.with_gates(lr * (data.mixer_step + 1) * against_alone(mixed, alone))
    return gated, data.alone & (group >= 0) & ~gated.closed[group]


def against_alone(mixed: Tensor, alone: Tensor) -> Tensor:
    """Return log(1 + (L - L') / |L'|), which of positive losses is the ratio's logarithm, no larger than 3 in size."""
    beyond = torch.where(mixed == alone, 0, (mixed - alone) / alone.abs())
    return beyond.clamp(min=math.expm1(-LARGEST)).log1p().clamp(max=LARGEST)


def in_sparse(data: Data) -> Tensor:
    """Return which nodes are in a component in which not all hear each other, [K]."""
    (sender, receiver), part, there = data.edge_index, components(data), ~data.isolated
    size = torch.bincount(part[there], minlength=data.num_nodes)[part]
    heard = torch.bincount(receiver[sender != receiver], minlength=data.num_nodes)
    return torch.isin(part, part[there & (heard < size - 1)])
