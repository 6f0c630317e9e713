"""The rewire slot: a transform of the graph, once or every round."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphcollab.piece import Rewiring
from graphcollab.settings import Natural
from graphcollab.typing import Env

__all__ = ["AtRound", "EveryRound", "Keep"]


@dataclass(frozen=True)
class Keep(Rewiring):
    """The graph stays as it is."""


@dataclass(frozen=True)
class AtRound(Rewiring):
    """Apply a transform once, after the exchange of one round.

    Args:
        round: Index of the round, from 0 at the method's start; ``AtRound(10, …)`` acts after eleven rounds, as
            ``t == T_0`` in the L2C paper.
        transform: Any PyG transform.
    """

    round: Natural
    transform: BaseTransform

    def __call__(self, data: Data, env: Env) -> Data:
        """Transform the graph if it is time."""
        return _transformed(self.transform, data, env) if data.round - data.phase_start == self.round else data


@dataclass(frozen=True)
class EveryRound(Rewiring):
    """Apply a transform after the exchange of every round.

    Args:
        transform: Any PyG transform.
    """

    transform: BaseTransform

    def __call__(self, data: Data, env: Env) -> Data:
        """Transform the graph."""
        return _transformed(self.transform, data, env)


def _transformed(transform: BaseTransform, data: Data, env: Env) -> Data:
    """Return the transformed graph; a transform may read all weights."""
    data = copy.copy(data)
    data.edge_weight = env.plane.tell(data.edge_weight, data.edge_index[1])
    transformed: Data = transform(data)
    return transformed
