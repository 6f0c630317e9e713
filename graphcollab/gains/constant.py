"""Models that say the same whatever they see: what a model of amounts must beat to be one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphcollab.gains.arms import Measured
from graphcollab.tasks import Tasks

__all__ = ["constants"]


def constants(tasks: Tasks, measured: Measured, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return validation losses [K] and test metrics [M, H, K] of the mean of every site's training targets, float64.

    Means are weighted where samples have weights.

    Where targets are noise, models of more sites overfit less and have smaller errors, which is no gain: the mean does
    better. That is for amounts, ``loss="mse"``: how well classes are told apart does not gain by it. Metrics are given
    outputs of the ``shape`` that a model's have for one sample.
    """
    losses = []
    scores = torch.full((len(measured.metrics), len(measured.splits), tasks.num_nodes), torch.nan, dtype=torch.float64)
    for node in range(tasks.num_nodes):
        train, by = _targets(tasks, "train", node)
        val, over = _targets(tasks, "val", node)
        mean = _mean(train, by)
        losses.append(_mean((mean - val.double()).square(), over).mean())
        for h, split in enumerate(measured.splits):
            targets, weight = _targets(tasks, split, node)
            outputs = mean.reshape(shape).expand(len(targets), *shape).float()
            weight = None if weight is None else weight[None]
            for m, metric in enumerate(measured.metrics if len(targets) else ()):
                scores[m, h, node] = metric(outputs[None], targets[None], weight=weight)[0]
    return torch.stack(losses), scores


def _mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Return the mean over samples of values [n, ...], in double precision."""
    values = values.double()
    return values.mean(0) if weight is None else torch.einsum("n,n...->...", weight / weight.sum(), values)


def _targets(tasks: Tasks, split: str, node: int) -> tuple[Tensor, Tensor | None]:
    """Return a node's targets of a split, and their weights if there are such, on the CPU."""
    held = tasks.splits[split]
    pool, own = tasks.pools[held.pool], held.of(node)
    return pool.targets.cpu()[own], None if pool.weight is None else pool.weight.cpu()[own]
