"""Models that say the same whatever they see: what a model of amounts must beat to be one."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from graphcollab.metrics import Metric
from graphcollab.tasks import Tasks

__all__ = ["constants"]


def constants(tasks: Tasks, metric: Metric) -> tuple[Tensor, Tensor] | None:
    """Return validation losses and test metrics of the mean of every site's training targets, [K] each, float64.

    Where targets are noise, models of more sites overfit less and have smaller errors, which is no gain: the mean does
    better. None unless the loss is ``"mse"``: how well classes are told apart does not gain by that.
    """
    if tasks.loss != "mse":
        return None
    found = []
    for node in range(tasks.num_nodes):
        train, val, test = (_targets(tasks, name, node) for name in ("train", "val", "test"))
        mean = train.double().mean(0)
        outputs = mean.expand(len(test), *mean.shape).float()
        mask = torch.ones(1, len(test), dtype=torch.bool)
        loss = F.mse_loss(mean.expand(val.shape), val.double())
        found.append(torch.stack([loss, metric(outputs[None], test[None], mask)[0]]))
    loss, score = torch.stack(found, 1)
    return loss, score


def _targets(tasks: Tasks, split: str, node: int) -> Tensor:
    """Return a node's targets of a split, on the CPU."""
    held = tasks.splits[split]
    return tasks.pools[held.pool].targets.cpu()[held.of(node)]
