"""What own models get apart from attention: by comparison with local training, and in sparse graphs."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.control.allowed import components
from graphcollab.nn import Mixer
from graphcollab.nn.mixer import ODDS

LARGEST = 3.0  # logarithm of a ratio of losses that counts
FAST = 0.5  # by which log-odds move in a round at most, so that no single round opens or closes a gate


def losses_of_groups(data: Data, group: Tensor, members: Tensor) -> Tensor:
    """Return the sums of both kinds of validation losses of some nodes, by whose encoders they use, [2, G], float64."""
    mine = members[torch.isfinite(data.alone_loss[members])]
    nothing = torch.zeros(data.mixer.num_groups, dtype=torch.float64)
    return torch.stack(
        [nothing.index_add(0, group[mine], data[name][mine].double()) for name in ("val_loss", "alone_loss")]
    )


def moved_gates(data: Data, group: Tensor, losses: Tensor, lr: float) -> tuple[Mixer, Tensor | None]:
    """Move gates by how mixed models compare with models that hear nobody.

    Given every node's group, [K], -1 of none, and what `losses_of_groups` found, [2, G], return the mixer, and who goes
    on comparing, [K]; None without a gate.
    """
    if data.mixer.gate is None:
        return data.mixer, None
    shift = lr * (data.mixer_step + 1) * against_alone(*losses)
    gates = (data.mixer.gate + shift.clamp(-FAST, FAST)).clamp(*ODDS)
    return replace(data.mixer, gate=gates), data.alone & (group >= 0) & (gates > ODDS[0])[group]


def against_alone(mixed: Tensor, alone: Tensor) -> Tensor:
    """Return log(L / L'), no larger than 3 in size; 2 (L - L') / (|L| + |L'|) of losses that are not both above 0."""
    apart = torch.where(mixed == alone, 0, 2 * (mixed - alone) / (mixed.abs() + alone.abs()))
    ratio = (mixed / alone).log().clamp(-LARGEST, LARGEST)
    return torch.where((mixed > 0) & (alone > 0), ratio, apart)


def in_sparse(data: Data) -> Tensor | None:
    """Return which nodes are in a component in which not all hear each other, [K]; None if there are none."""
    (sender, receiver), part, there = data.edge_index, components(data), ~data.isolated
    size = torch.bincount(part[there], minlength=data.num_nodes)[part]
    heard = torch.zeros_like(data.node_id).index_add_(0, receiver, (sender != receiver).long())
    few = there & (heard < size - 1)
    return torch.isin(part, part[few]) if bool(few.any()) else None
