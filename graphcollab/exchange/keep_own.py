"""The exchange slot of methods whose models travel to be looked at, not to be mixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch_geometric.data import Data

from graphcollab.exchange.exchange import NoExchange

__all__ = ["KeepOwn"]


@dataclass(frozen=True)
class KeepOwn(NoExchange):
    """Nodes keep their own models, although models travel along the edges: the weigher looks at them and counts them.

    Unlike under `NoExchange`, a run without a graph of its own gets all pairs.

    Args:
        part: Part of the model that travels.

    Example:
        >>> KeepOwn().along_edges, NoExchange().along_edges
        (True, False)
    """

    part: str = "all"
    along_edges: ClassVar[bool] = True

    def at_server(self, data: Data) -> Tensor | None:
        """Models travel along the edges."""
        return None
