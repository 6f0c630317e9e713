"""`Presence`: who takes part in a round between sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from torch import Tensor
from torch_geometric.data import Data

from graphcollab.control import Attendance
from graphcollab.typing import Env

if TYPE_CHECKING:
    from graphcollab.sites.transport import Sites

__all__ = ["Presence"]


@dataclass(frozen=True)
class Presence(Attendance):
    """Who takes part in a round between sites: whoever is there."""

    def at_work(self, data: Data, env: Env) -> tuple[Tensor, Tensor]:
        """Return which nodes are there to train, and whose models arrive, in the round at hand, [K] each."""
        there = cast("Sites", env.plane.transport).working
        return there, there
