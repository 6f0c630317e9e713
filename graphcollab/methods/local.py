"""Local training: nobody talks to anybody."""

from __future__ import annotations

from graphcollab.local import SGD, Fit
from graphcollab.method import Method

__all__ = ["local"]


def local(
    epochs: int = 5, lr: float = 0.01, weight_decay: float = 5e-4, batch_size: int = 10, momentum: float = 0.0
) -> Method:
    """Every node trains alone: what collaboration has to beat.

    Args:
        epochs: Passes over a node's samples per round.
        lr: Step size of SGD.
        weight_decay: Coefficient of the L2 penalty.
        batch_size: Samples per step.
        momentum: Momentum of SGD.

    Example:
        >>> local(lr=0.1).local.optimizer.lr
        0.1
    """
    optimizer = SGD(lr=lr, weight_decay=weight_decay, momentum=momentum)
    return Method("local", local=Fit(epochs=epochs, batch_size=batch_size, optimizer=optimizer))
