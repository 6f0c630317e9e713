"""Models that say the same whatever they see: what a model of amounts must beat to be one."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab.metrics import Metric
from graphcollab.tasks import Tasks

__all__ = ["constants"]


def constants(tasks: Tasks, metric: Metric) -> tuple[Tensor, Tensor] | None:
    """Return validation losses and test metrics of the mean of every site's training targets, [K] each, float64.

    Means are weighted where samples have weights.

    Where targets are noise, models of more sites overfit less and have smaller errors, which is no gain: the mean does
    better. None unless the loss is ``"mse"``: how well classes are told apart does not gain by that.
    """
    if tasks.loss != "mse":
        return None
    found = []
    for node in range(tasks.num_nodes):
        (train, by), (val, over), (test, weight) = (_targets(tasks, name, node) for name in ("train", "val", "test"))
        mean = _mean(train, by)
        outputs = mean.expand(len(test), *mean.shape).float()
        loss = _mean((mean - val.double()).square(), over).mean()
        score = metric(outputs[None], test[None], weight=None if weight is None else weight[None])[0]
        found.append(torch.stack([loss, score]))
    loss, score = torch.stack(found, 1)
    return loss, score


def _mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Return the mean over samples of values [n, ...], in double precision."""
    values = values.double()
    return values.mean(0) if weight is None else torch.einsum("n,n...->...", weight / weight.sum(), values)


def _targets(tasks: Tasks, split: str, node: int) -> tuple[Tensor, Tensor | None]:
    """Return a node's targets of a split, and their weights if there are such, on the CPU."""
    held = tasks.splits[split]
    pool, own = tasks.pools[held.pool], held.of(node)
    return pool.targets.cpu()[own], None if pool.weight is None else pool.weight.cpu()[own]
