"""The base of similarity metrics: one number per edge that says how alike sender and receiver are."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch_geometric.data import Data

from graphcollab.piece import Piece
from graphcollab.settings import Buffers
from graphcollab.typing import Env

__all__ = ["Similarity", "width"]


@dataclass(frozen=True)
class Similarity(Piece):
    """Base of similarity metrics: a subclass scores edges, and says what must travel for it.

    How scores become weights is not its business: `PeerWeights` measures, charges, and lets another piece weigh.

    Shapes:
        Reads the models ``x`` (after the local update), ``x_start`` (before it) and ``x_init``.

    Example:
        >>> import torch
        >>> class SameSign(Similarity):
        ...     def scores(self, data: Data, env: object, edge_index: Tensor) -> Tensor:
        ...         positive = data.x > 0
        ...         return (positive[edge_index[0], 0] == positive[edge_index[1], 0]).double()
        >>> data = Data(x=torch.tensor([[1.0], [2.0], [-3.0]]))
        >>> SameSign().scores(data, None, torch.tensor([[1, 2], [0, 0]])).tolist()
        [1.0, 0.0]
    """

    unbounded: ClassVar[bool] = False
    """Whether similarities may be above 1, which else is that of equal models."""

    @property
    def part(self) -> str:
        """Part of the models that is compared."""
        return "all"

    def init(self, data: Data, env: Env) -> Data:
        """Check that the part can be compared."""
        data.x.part(self.part)
        return data

    @abstractmethod
    def scores(self, data: Data, env: Env, edge_index: Tensor) -> Tensor:
        """Return the similarity of sender j to receiver i for every edge j → i given; more is more alike.

        Args:
            data: The graph with the models. Its own edges do not matter.
            env: What pieces may use.
            edge_index: Edges to score, [2, E'], no self-loops.

        Returns:
            Finite numbers [E'], float64. A model that is not finite has the similarity 0.
        """

    def payload(self, data: Data) -> int:
        """Return how many floats must travel along an edge to score it, besides the sender's model."""
        return 0

    def statistics(self, data: Data, stack: int) -> int:
        """Return how many numbers of running statistics travel with a model of an architecture to score it."""
        return 0

    def judging(self, buffers: Buffers) -> Similarity:
        """Return the metric for models that are mixed with these ``buffers``, where that makes a difference to it."""
        return self


def width(data: Data, part: str, stack: int = 0) -> int:
    """Return P_part, the number of columns of a part of the models of an architecture."""
    columns = data.x.specs[stack].columns(part)
    return int(columns.stop - columns.start)
