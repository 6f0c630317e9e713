"""Local training: nobody talks to anybody."""

from __future__ import annotations

from graphcollab.judge import Judge
from graphcollab.method import Method
from graphcollab.methods._method import Optimizer, fit, method
from graphcollab.settings import Count, Momentum, NonNegative
from graphcollab.stop import EarlyStopping

__all__ = ["local"]


@method
def local(
    *,
    lr: NonNegative = 0.01,
    epochs: Count = 5,
    steps: Count | None = None,
    batch_size: Count = 10,
    optimizer: Optimizer = "sgd",
    momentum: Momentum = 0.0,
    weight_decay: NonNegative = 5e-4,
    patience: Count | None = None,
) -> Method:
    """Every node trains alone: what collaboration has to beat.

    Example:
        >>> local(lr=0.1).local.optimizer.lr
        0.1
    """
    alone = Method("local", local=fit(lr, epochs, steps, batch_size, optimizer, momentum, weight_decay))
    return alone if patience is None else alone.replace(stop=EarlyStopping(patience), judge=Judge(field="best_x"))
