"""Similarity by the angle between two models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch_geometric.data import Data

from graphcollab.control.allowed import parts_apart
from graphcollab.typing import Env
from graphcollab.weigh.similarity import Similarity

__all__ = ["CosineWeights"]


@dataclass(frozen=True)
class CosineWeights(Similarity):
    r"""Cosine of the models.

    From `With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies` (Hagander &
    Ihre-Thomason 2024), eq. 2.18:

    .. math::
        s_i(j) = s_j(i) = \frac{\langle w_i, w_j \rangle}{\lVert w_i \rVert \lVert w_j \rVert}

    Models that start alike have cosines near 1; the digits that tell them apart are kept, see `ops.edge_cosines`.

    Args:
        part: Part of the model that is compared; nodes of different architectures must share it.

    Example:
        >>> CosineWeights(part="head")
        CosineWeights(part='head')
    """

    travels: ClassVar[str] = "the part that is compared, along every edge"

    part: str = "all"

    def scores(self, data: Data, env: Env, edge_index: Tensor) -> Tensor:
        """Return the cosines, [E'], float64; 0 for models that are zero or not finite."""
        rows = data.x.part(self.part)
        return env.plane.cosines(rows, rows, edge_index, parts_apart(data)).nan_to_num(0.0)
