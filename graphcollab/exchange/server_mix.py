"""The exchange slot of methods whose server makes every node a mixture of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import Tensor
from torch_geometric.data import Data

from graphcollab.control.allowed import components, without_the_alone
from graphcollab.control.at_work import has_neighbors
from graphcollab.exchange.exchange import Exchange
from graphcollab.exchange.server_average import connect_servers

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["ServerMix"]


@dataclass(frozen=True)
class ServerMix(Exchange):
    r"""Mix along the edges, as `Exchange` does, but at a server that all models go up to.

    .. math::
        x_i \leftarrow \sum_{j \to i} w_{ij} x_j

    The server knows the weights, so a node sends its model once, whoever is to hear it, and gets one mixture back. As
    under `ServerAverage`, nodes at work (those that both train and serve) are charged d floats up and d down, if they
    have a neighbour; edges cost nothing. What a node would have given nodes at rest goes to its own model, see
    `Exchange`.

    Args:
        part: Part of the model that is mixed.
        buffers: ``"keep"``: every node keeps its buffers (running statistics); ``"average"``: they are mixed with the
            same weights, and counted.

    Raises:
        ValueError: If ``buffers`` is neither.

    Example:
        >>> ServerMix("backbone").along_edges
        True
    """

    base: str = field(default="zero", init=False, repr=False)
    message: str = field(default="x", init=False, repr=False)
    neighbors_only: bool = field(default=False, init=False, repr=False)
    against: str | None = field(default=None, init=False, repr=False)
    scale: float = field(default=1.0, init=False, repr=False)

    def init(self, data: Data, env: Env) -> Data:
        """Check that the part can be shared, and connect every node with neighbours to the server."""
        return connect_servers(super().init(data, env), env, without_the_alone(components(data, mutual=False)))

    def at_server(self, data: Data) -> Tensor:
        """Nodes at work that have neighbours."""
        return data.trains & data.serves & has_neighbors(data)

    def _count(self, data: Data, env: Env, weight: Tensor, width: int) -> Data:
        """Count the model of every node at work up, and its mixture down."""
        return env.comm.count(data, self.at_server(data).nonzero().flatten(), 2 * width)
