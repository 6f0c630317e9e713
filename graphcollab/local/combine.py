"""`Combine`: how gradients of several nodes' data become a direction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from graphcollab.piece import Piece

__all__ = ["Combine"]


@dataclass(frozen=True)
class Combine(Piece, ABC):
    """Turns a node's own gradient and those of its neighbours' data into a direction."""

    @abstractmethod
    def __call__(self, own: Tensor, others: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return directions [R, P] and the gradients' coefficients in them, the own one's first, [R, m + 1].

        Args:
            own: Gradients of the own data, one per receiver, [R, P].
            others: Gradients of the data of its m neighbours, at the same model, [R, m, P].
            sizes: Number of columns of every parameter tensor among the P.
        """
