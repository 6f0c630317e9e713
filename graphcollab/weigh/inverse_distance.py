"""Similarity by the distance between two models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch_geometric.data import Data

from graphcollab.control.allowed import parts_apart
from graphcollab.settings import Positive
from graphcollab.typing import Env
from graphcollab.weigh.similarity import Similarity

__all__ = ["InverseDistance"]


@dataclass(frozen=True)
class InverseDistance(Similarity):
    r"""Inverse of the Euclidean distance between the models.

    From `With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies` (Hagander &
    Ihre-Thomason 2024), eq. 2.19:

    .. math::
        s_i(j) = s_j(i) = \lVert w_i - w_j \rVert_2^{-1}

    Args:
        part: Part of the model that is compared; nodes of different architectures must share it.
        eps: Distances below it count as this much, so equal models have a finite similarity.

    Example:
        >>> InverseDistance(eps=1e-9)
        InverseDistance(part='all', eps=1e-09)
    """

    travels: ClassVar[str] = "the part that is compared, along every edge"
    unbounded: ClassVar[bool] = True

    part: str = "all"
    eps: Positive = 1e-12

    def scores(self, data: Data, env: Env, edge_index: Tensor) -> Tensor:
        """Return the inverse distances, [E'], float64; 0 for models that are not finite."""
        rows = data.x.part(self.part)
        distance = env.plane.distances(rows, rows, edge_index, parts_apart(data))
        return (1 / distance.clamp(min=self.eps)).nan_to_num(0.0)
