"""Models that say the same whatever they see: what a model must beat to be one."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from graphcollab.metrics import Metric
from graphcollab.tasks import Tasks

__all__ = ["constants"]


def constants(tasks: Tasks, metric: Metric) -> tuple[Tensor, Tensor] | None:
    """Return validation losses and test metrics of every site's best constant, [K] each, float64.

    That is the mean of its training targets (``"mse"``), or how often each class is among them, one more of each
    (``"cross_entropy"``, ``"bce"``). None where the loss is another, of which the best constant is not known.
    """
    if tasks.loss not in ("mse", "cross_entropy", "bce"):
        return None
    found = []
    for node in range(tasks.num_nodes):
        train, val, test = (_targets(tasks, name, node) for name in ("train", "val", "test"))
        if tasks.loss == "mse":
            constant = train.double().mean(0)
            loss = F.mse_loss(constant.expand(val.shape), val.double())
        elif tasks.loss == "bce":
            share = (train.double().sum(0) + 1) / (len(train) + 2)
            constant = share.logit()
            loss = F.binary_cross_entropy_with_logits(constant.expand(val.shape), val.double())
        else:
            classes = 1 + max(int(some.max()) for pool in tasks.pools.values() if len(some := pool.targets))
            constant = (torch.bincount(train, minlength=classes).double() + 1).log().log_softmax(0)
            loss = F.cross_entropy(constant.expand(len(val), -1), val)
        outputs = constant.expand(len(test), *constant.shape)
        mask = torch.ones(1, len(test), dtype=torch.bool)
        found.append(torch.stack([loss, metric(outputs[None].float(), test[None], mask)[0]]))
    loss, score = torch.stack(found, 1)
    return loss, score


def _targets(tasks: Tasks, split: str, node: int) -> Tensor:
    """Return a node's targets of a split, on the CPU."""
    held = tasks.splits[split]
    return tasks.pools[held.pool].targets.cpu()[held.of(node)]
