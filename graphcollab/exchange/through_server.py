"""The route of federated averaging: up to a server and down again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.control.allowed import server_groups
from graphcollab.exchange.route import Route, Ways
from graphcollab.exchange.servers import SERVER, connect_servers, per_server, places, sends_to_server
from graphcollab.piece import Field
from graphcollab.settings import Incomplete
from graphcollab.typing import Env

__all__ = ["ThroughServer", "link_weights"]


@dataclass(frozen=True)
class ThroughServer(Route):
    """Models go up to a server, and their average comes down to every node.

    A bipartite graph in place of a complete one, so the cost is K d and not K² d. Weights are normalised over the nodes
    at work (those that both train and serve). A server that hears from nobody changes nothing. A node that sends is
    charged d floats up and d down; the others get the average only to be judged by it.

    Where edges were given, every connected component has a server of its own, and all its nodes must be allowed to hear
    each other. A node without neighbours, or the only one of its cluster, has no server: it sends nothing and keeps
    what it has learned.

    Args:
        weights: ``"counts"``: a node counts by its training samples; ``"uniform"``: all nodes count alike.
        within: ``"cluster"``: every true cluster has a server of its own (an oracle); None: there is one for all.
        incomplete: ``"refuse"``, or ``"average"``: nodes of a connected component are averaged although not all of them
            are allowed to hear each other. Edges that go one way only, from one component to another, are not used.

    Raises:
        ValueError: If true clusters are needed and not known, or nodes that are connected may not hear each other.
    """

    weights: Literal["counts", "uniform"] = "counts"
    within: Literal["cluster"] | None = None
    incomplete: Incomplete = "refuse"

    along_edges: ClassVar[bool] = False
    shares_base: ClassVar[bool] = True
    serves_rest: ClassVar[bool] = True
    beyond_edges: ClassVar[bool] = True
    keeps: ClassVar[tuple[Field, ...]] = (SERVER,)
    travels: ClassVar[str] = "nodes at work: 4 · 2 · P bytes, the model up to the server and the average down"

    def parts(self, part: str) -> list[str]:
        """A server may average parts that do not lie side by side."""
        return part.split("+")

    def init(self, data: Data, env: Env) -> Data:
        """Connect every node to its server."""
        within = env.engine.tasks.require_cluster() if self.within else None
        return connect_servers(data, env, server_groups(data, env, within, self.incomplete))

    def ways(self, data: Data, pulls: bool = False) -> Ways:
        """Return the links to servers."""
        weight, total = link_weights(data, self.weights)
        home = places(data.server)
        keeps = (home < 0) | (total[home] == 0) | data.isolated
        return Ways(data.server.edge_index, weight, data.server.size[1], home, keeps)

    def at_server(self, data: Data) -> Tensor:
        """Nodes at work that have a server."""
        return sends_to_server(data)


def link_weights(data: Data, weights: str) -> tuple[Tensor, Tensor]:
    """Return what every link counts for in its server's average, [L], and what servers have heard in all, [S].

    Links of nodes at rest count for nothing; those of a server that hears from others sum to 1.
    """
    count = torch.ones_like(data.server.values) if weights == "uniform" else data.server.values
    node, place = data.server.edge_index
    sent = count * (data.trains & data.serves)[node]
    total = per_server(sent, data.server)
    return sent / total[place].clamp(min=torch.finfo(sent.dtype).tiny), total
