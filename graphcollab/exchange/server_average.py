"""The exchange slot of federated averaging: up to a server and down again."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.comm import Relation
from graphcollab.control.allowed import check_incomplete, server_groups
from graphcollab.exchange.buffers import buffers_travel, check_buffers
from graphcollab.ops import mix
from graphcollab.piece import Exchanger

if TYPE_CHECKING:
    from graphcollab.stack import Stacks
    from graphcollab.typing import Env

__all__ = ["ServerAverage", "connect_servers", "linked", "parts_that_travel", "per_server", "places"]


@dataclass(frozen=True)
class ServerAverage(Exchanger):
    """Averages through server nodes: nodes at work send up, every node takes its server's average down.

    A bipartite mix up and one row down in place of a complete graph, so the cost is K d and not K² d. Weights are
    normalised over the nodes at work (those that both train and serve). A server that hears from nobody changes
    nothing. A node that sends is charged d floats up and d down; the others get the average only to be judged by it.

    Where edges were given, every connected component has a server of its own, and all its nodes must be allowed to hear
    each other. A node without neighbours, or the only one of its cluster, has no server: it sends nothing and keeps
    what it has learned.

    Args:
        part: Part of the model that is averaged; or several, such as ``"backbone+head"``, which here need not lie side
            by side.
        buffers: ``"average"``: buffers (running statistics) are averaged too; ``"keep"``: they stay with the node.
        weights: ``"counts"``: a node counts by its training samples; ``"uniform"``: all nodes count alike.
        within: ``"cluster"``: every true cluster has a server of its own (an oracle); None: there is one for all.
        lr: The server's step size. It moves from where the round began by so many times the mean of the nodes' updates
            (buffers are averaged all the same); 1 is plain averaging.
        incomplete: ``"refuse"``, or ``"average"``: nodes of a connected component are averaged although not all of them
            are allowed to hear each other. Edges that go one way only, from one component to another, are not used.

    Raises:
        ValueError: If a setting is none of those named, a part is named twice, true clusters are needed and not known,
            or nodes that are connected may not hear each other.
    """

    part: str = "all"
    buffers: str = "average"
    weights: str = "counts"
    within: str | None = None
    lr: float = 1.0
    incomplete: str = "refuse"
    along_edges: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_buffers(self.buffers)
        check_incomplete(self.incomplete)
        named = self.part.split("+")
        if len({*named}) < len(named) or ("all" in named and len(named) > 1):
            raise ValueError(f"every part is averaged once: name each once, and 'all' alone, got {self.part!r}")
        if not 0 < self.lr < math.inf:
            raise ValueError(f"lr of the server must be a positive finite number, got {self.lr}")
        if self.weights not in ("counts", "uniform"):
            raise ValueError(f"weights must be 'counts' or 'uniform', got {self.weights!r}")
        if self.within not in (None, "cluster"):
            raise ValueError(f"within must be 'cluster' or None, got {self.within!r}")

    def init(self, data: Data, env: Env) -> Data:
        """Connect every node to its server."""
        for part in self.part.split("+"):
            data.x.part(part)
        within = env.engine.tasks.require_cluster() if self.within else None
        return connect_servers(data, env, server_groups(data, env, within, self.incomplete))

    def __call__(self, data: Data, env: Env) -> Data:
        """Average up, send down."""
        server, sent = data.server, self._sent(data)
        node, place = server.edge_index
        total = per_server(sent, server)
        weight = sent / total[place].clamp(min=torch.finfo(sent.dtype).tiny)
        reached = torch.zeros_like(data.isolated).index_fill_(0, node[(total > 0)[place]], True) & ~data.isolated
        new = data.x
        width = 0
        for part in (p for many in parts_that_travel(new, self.part, self.buffers) for p in many.split("+")):
            old = new.part(part)
            moved = self.lr != 1 and part != "buffers"
            up = torch.lerp(data.x_start.part(part), old, self.lr) if moved else old
            average = mix(env.comm.halo(up, server.edge_index), weight, server.edge_index, server.size[1])
            new = new.with_part(part, _send_down(average, server, reached, old))
            width += old.shape[1]
        data = env.comm.count(data, node[sent > 0], 2 * width)
        data.x, data.x_local = new, data.x
        return data

    def at_server(self, data: Data) -> Tensor:
        """Nodes at work that have a server."""
        return data.trains & data.serves & linked(data)

    def _sent(self, data: Data) -> Tensor:
        """Return how much every link's node counts with its server before normalisation, 0 if it is at rest, [L]."""
        count = data.server.values
        count = torch.ones_like(count) if self.weights == "uniform" else count
        return count * (data.trains & data.serves)[data.server.edge_index[0]]


def parts_that_travel(models: Stacks, part: str, buffers: str) -> list[str]:
    """List the parts that travel to a server: buffers too, if they are mixed and every architecture has some."""
    return [part, "buffers"] if buffers_travel(models, buffers) else [part]


def connect_servers(data: Data, env: Env, place: Tensor, count: int | None = None) -> Data:
    """Return the graph with ``server``: the nodes' links to their servers.

    Args:
        data: The graph.
        env: What stages may use.
        place: Every node's server, [K]; -1 if it has none.
        count: Number of servers. Default: one more than the largest, at least one.
    """
    node = (place >= 0).nonzero().flatten()
    samples = env.engine.tasks.sizes("train").to(data.x.dtype)[node]
    count = max(int(place.max()) + 1, 1) if count is None else count
    data = copy.copy(data)
    data.server = Relation(torch.stack([node, place[node]]), samples, (data.num_nodes, count))
    return data


def linked(data: Data) -> Tensor:
    """Return which nodes have a server, [K]."""
    nobody = torch.zeros_like(data.trains)
    return nobody.index_fill_(0, data.server.edge_index[0], True) if "server" in data else nobody


def places(server: Relation) -> Tensor:
    """Return every node's server, [K]; -1 if it has none."""
    node, place = server.edge_index
    return torch.full((server.size[0],), -1, device=place.device).index_copy_(0, node, place)


def per_server(values: Tensor, server: Relation) -> Tensor:
    """Return the sums of the links' values [L] for every server."""
    total = torch.zeros(server.size[1], dtype=values.dtype, device=values.device)
    return total.index_add_(0, server.edge_index[1], values)


def _send_down(average: Tensor, server: Relation, reached: Tensor, old: Tensor) -> Tensor:
    """Return every node's row [K, P]: its server's average, or its own if not reached.

    Where one server reaches all, the average is stored once for all of them.
    """
    if server.size[1] == 1 and bool(reached.all()):
        return average.expand(len(old), -1)
    return torch.where(reached[:, None], average[places(server)], old)
