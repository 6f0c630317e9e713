"""Models that say the same whatever they see: what a model of amounts must beat to be one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from graphcollab.gains.arms import Measured
from graphcollab.tasks import Tasks

__all__ = ["constants"]


def constants(tasks: Tasks, measured: Measured, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return validation losses [K] and test metrics [M, H, K] of the mean of every site's training targets, float64.

    Where targets are noise, models of more sites overfit less and have smaller errors, which is no gain: the mean does
    better. That is for amounts, ``loss="mse"``: how well classes are told apart does not gain by it. Metrics are given
    outputs of the ``shape`` that a model's have for one sample.
    """
    losses = []
    scores = torch.full((len(measured.metrics), len(measured.splits), tasks.num_nodes), torch.nan, dtype=torch.float64)
    for node in range(tasks.num_nodes):
        mean = _targets(tasks, "train", node).double().mean(0)
        val = _targets(tasks, "val", node)
        losses.append(F.mse_loss(mean.expand(val.shape), val.double()))
        for h, split in enumerate(measured.splits):
            targets = _targets(tasks, split, node)
            outputs = mean.reshape(shape).expand(len(targets), *shape).float()
            mask = torch.ones(1, len(targets), dtype=torch.bool)
            for m, metric in enumerate(measured.metrics if len(targets) else ()):
                scores[m, h, node] = metric(outputs[None], targets[None], mask)[0]
    return torch.stack(losses), scores


def _targets(tasks: Tasks, split: str, node: int) -> Tensor:
    """Return a node's targets of a split, on the CPU."""
    held = tasks.splits[split]
    return tasks.pools[held.pool].targets.cpu()[held.of(node)]
