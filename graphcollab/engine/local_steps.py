"""`LocalSteps`: how many steps a node takes on its own data, on how many samples each, and by which update."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphcollab.engine.optimizer import SGD, RowOptimizer, as_row_optimizer
from graphcollab.piece import Piece
from graphcollab.settings import Count

__all__ = ["LocalSteps"]


@dataclass(frozen=True)
class LocalSteps(Piece):
    """How nodes train on their own data, which pieces that let them do so have as settings of their own.

    Args:
        epochs: Passes over a node's training samples.
        steps: Number of local steps, instead of ``epochs``.
        batch_size: B; the last batch of a pass may be shorter.
        optimizer: The update, also by name or ``torch.optim`` class; see `as_row_optimizer`. Default: SGD with step
            size 0.01 and weight decay 5e-4, as in the L2C paper.

    Raises:
        ValueError: If the optimiser has no form per row.

    Example:
        >>> LocalSteps(optimizer="adam").optimizer.lr
        0.001
    """

    epochs: Count = 1
    steps: Count | None = None
    batch_size: Count = 10
    optimizer: RowOptimizer = field(default_factory=lambda: SGD(lr=0.01, weight_decay=5e-4))

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimizer", as_row_optimizer(self.optimizer))
        super().__post_init__()
