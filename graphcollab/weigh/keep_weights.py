"""Weights that an earlier phase has learned."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch_geometric.data import Data

from graphcollab.piece import Weigher
from graphcollab.typing import Env

__all__ = ["KeepWeights"]


@dataclass(frozen=True)
class KeepWeights(Weigher):
    """Edges weigh what they weighed before: the weights an earlier phase has learned, or the graph came with."""

    def weights(self, data: Data, env: Env) -> Tensor:
        """Return the weights there are."""
        weight: Tensor = data.edge_weight
        return weight
