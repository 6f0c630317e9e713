"""Local training: nobody talks to anybody."""

from __future__ import annotations

from graphcollab.engine import RowOptimizer, as_row_optimizer
from graphcollab.judge import JudgedBy
from graphcollab.local import Fit
from graphcollab.method import Method
from graphcollab.stop import EarlyStopping

__all__ = ["local"]


def local(
    epochs: int = 5,
    lr: float = 0.01,
    weight_decay: float = 5e-4,
    batch_size: int = 10,
    momentum: float = 0.0,
    optimizer: str | RowOptimizer = "sgd",
    patience: int | None = None,
    steps: int | None = None,
) -> Method:
    """Every node trains alone: what collaboration has to beat.

    Args:
        epochs: Passes over a node's samples per round.
        lr: Step size.
        weight_decay: Coefficient of the L2 penalty.
        batch_size: Samples per step.
        momentum: Momentum of SGD.
        optimizer: ``"sgd"`` or ``"adam"``, with these settings, or an optimiser of `graphcollab.local`, as it is.
        patience: Rounds without a better validation loss after which a node stops; nodes are then judged by their best
            models. None: nobody stops, and nodes are judged by their last models.
        steps: Local steps per round, instead of ``epochs``.

    Example:
        >>> local(lr=0.1).local.optimizer.lr
        0.1
    """
    if isinstance(optimizer, str):
        own = {"momentum": momentum} if optimizer == "sgd" or momentum else {}
        optimizer = as_row_optimizer(optimizer, lr=lr, weight_decay=weight_decay, **own)
    method = Method("local", local=Fit(epochs=epochs, steps=steps, batch_size=batch_size, optimizer=optimizer))
    return method if patience is None else method.replace(stop=EarlyStopping(patience), judge=JudgedBy("best_x"))
