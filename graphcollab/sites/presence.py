"""`Presence`: who takes part in a round between sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor
from torch_geometric.data import Data

from graphcollab.env import Attendance, Env

__all__ = ["Presence"]


@dataclass(frozen=True)
class Presence(Attendance):
    """Who takes part in a round between sites: whoever is there."""

    def at_work(self, data: Data, env: Env) -> tuple[Tensor, Tensor]:
        """Return which nodes are there to train, and whose models arrive, in the round at hand, [K] each."""
        there = cast(Any, env.plane.transport).working  # of `Sites`
        return there, there
