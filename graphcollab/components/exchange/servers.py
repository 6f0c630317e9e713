"""Routes through servers, and the links of nodes to them."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab._base.device import beside
from graphcollab._base.errors import MissingError
from graphcollab._base.keyed import keyed_bits
from graphcollab._base.piece import Field, Readers, updated
from graphcollab._base.settings import Incomplete
from graphcollab.comm.relation import Relation
from graphcollab.components.allowed import components, server_groups, without_the_alone
from graphcollab.components.at_work import has_neighbors
from graphcollab.components.env import Env
from graphcollab.components.exchange.route import AlongEdges, Route, Ways

SERVER = Field("server", "relation", "every node's link to its server; a node that is alone has none")


def connect_servers(data: Data, env: Env, place: Tensor, count: int | None = None) -> Data:
    """Return the graph with ``server``: the nodes' links to their servers, given each node's place [K]; -1: none.

    By default there are as many servers as places, at least one.
    """
    node = (place >= 0).nonzero().flatten()
    samples = env.engine.tasks.sizes("train").to(data.x.dtype)[node]
    count = max(int(place.max()) + 1, 1) if count is None else count
    return updated(data, server=Relation(torch.stack([node, place[node]]), samples, (data.num_nodes, count)))


def places(server: Relation) -> Tensor:
    """Return every node's server, [K]; -1 if it has none."""
    node, place = server.edge_index
    return torch.full((server.size[0],), -1).index_copy_(0, node, place)


@dataclass(frozen=True)
class AtServer(AlongEdges):
    """Models are mixed along the graph's edges, but at a server to which all nodes send their models.

    The server knows the weights, so a node sends its model once, for all of its receivers, and gets one mixture back.
    Participating nodes (those that both train and serve) are charged for both, if they have a neighbor; edges are free.
    """

    keeps: ClassVar[tuple[Field, ...]] = (SERVER,)
    travels: ClassVar[str] = "nodes at work: 4 · 2 · P bytes, the model up to the server and a mixture down"

    def init(self, data: Data, env: Env) -> Data:
        return connect_servers(data, env, without_the_alone(components(data, mutual=False)))

    def at_server(self, data: Data) -> Tensor:
        return data.trains & data.serves & has_neighbors(data)


@dataclass(frozen=True)
class NeighborhoodMeans(AtServer):
    r"""A server that knows the graph gives every node, also at rest, the mean of its participating neighbors S.

    .. math::
        x_i \leftarrow \frac{\sum_{j \in S} w_{ij} x_j}{\sum_{j \in S} w_{ij}}

    The node itself is included if it has a self-loop, and a node without participating neighbors keeps its model. Nodes
    with the same neighbors and weights share a mean: it is computed once, so their models are equal bit for bit, and
    the computation scales with the number of distinct neighborhoods, not with that of edges.
    """

    serves_rest: ClassVar[bool] = True
    carries: ClassVar[Readers] = {"coordinator": "the part of its model that is mixed, times its weight in every mean"}

    def ways(self, data: Data, pulls: bool = False) -> Ways:
        """The edges of one node per neighborhood."""
        sender, receiver = data.edge_index
        share, keeps = self.shares(data, pulls)
        group = _alike(data, share)
        first = scatter(torch.arange(len(group)), group, reduce="min")  # [G]
        speaks = first[group[receiver]] == receiver
        edges = torch.stack([sender[speaks], group[receiver[speaks]]])
        return Ways(edges, share[speaks], len(first), group, keeps)

    def _weights(self, data: Data, pulls: bool) -> tuple[Tensor, Tensor | None]:
        sender, receiver = data.edge_index
        weight = data.edge_weight.masked_fill(~(data.trains & data.serves)[sender], 0)
        total = scatter(weight, receiver, dim_size=data.num_nodes)
        keeps = (total <= 0) | data.isolated
        return (weight / total.masked_fill(keeps, 1)[receiver]).masked_fill(keeps[receiver], 0), keeps


@dataclass(frozen=True)
class Served(Route, ABC):
    """Base of routes that give nodes a server's result, not messages along edges; a subclass defines it."""

    along_edges: ClassVar[bool] = False
    carries: ClassVar[Readers] = {"coordinator": "the part of its model that is averaged, times its share of the mean"}
    serves_rest: ClassVar[bool] = True
    beyond_edges: ClassVar[bool] = True

    def at_server(self, data: Data) -> Tensor:
        linked = places(data.server) >= 0 if "server" in data else torch.zeros_like(data.trains)
        return data.trains & data.serves & linked


@dataclass(frozen=True)
class ThroughServer(Served):
    """Models go up to a server, and their average comes down to every node.

    The cost is K d instead of the K² d of a complete graph. Weights are normalized over the participating nodes (those
    that both train and serve). A server that gets no model changes nothing. A node that sends is charged d floats up
    and d down; the other nodes get the average only for evaluation.

    If edges were given, every connected component has its own server, and all its nodes must be allowed to hear each
    other. A node without neighbors, or the only one of its cluster, has no server: it sends nothing and keeps its
    locally trained model.

    Args:
        weights: ``"counts"``: nodes are weighted by training samples; ``"uniform"``: all nodes have equal weights.
        within: ``"cluster"``: every true cluster has its own server (an oracle); None: one server for all.
        incomplete: ``"refuse"``, or ``"average"``: average over the nodes of a connected component even if not all of
            them are allowed to hear each other. One-way edges from one component to another are not used.

    Raises:
        ValueError: If true clusters are needed and not known, or connected nodes may not hear each other.
    """

    weights: Literal["counts", "uniform"] = "counts"
    within: Literal["cluster"] | None = None
    incomplete: Incomplete = "refuse"

    keeps: ClassVar[tuple[Field, ...]] = (SERVER,)
    travels: ClassVar[str] = "nodes at work: 4 · 2 · P bytes, the model up to the server and the average down"

    def parts(self, part: str) -> list[str]:
        """A server may average parts that are not contiguous."""
        return part.split("+")

    def init(self, data: Data, env: Env) -> Data:
        within = env.engine.tasks.require_cluster() if self.within else None
        return connect_servers(data, env, server_groups(data, env, within, self.incomplete))

    def ways(self, data: Data, pulls: bool = False) -> Ways:
        weight, total = _link_weights(data, self.weights)
        home = places(data.server)
        keeps = (home < 0) | (total[home] == 0) | data.isolated
        return Ways(data.server.edge_index, weight, data.server.size[1], home, keeps)


@dataclass(frozen=True)
class ThroughCenters(Served):
    r"""Models go up to the center chosen by their node (`ChooseCenter`), and move it.

    Both forms of averaging are a step from the center :math:`\theta_j` towards the mean of the received models: a full
    step, or :math:`|S_j| / m` of one, if :math:`|S_j|` participating nodes chose it, out of m in total. A center chosen
    by no participating node stays. Every node then holds the center it had chosen, until it chooses again. If edges
    were given, this applies to every connected component separately. See `ifca`.

    Args:
        weights: ``"uniform"``: all nodes have equal weights; ``"counts"``: they are weighted by training samples.
        divide: ``"cluster"``: model averaging; ``"all"``: gradient averaging, which divides by all nodes. Buffers are
            averaged under either form.
    """

    weights: Literal["counts", "uniform"] = "uniform"
    divide: Literal["all", "cluster"] = "cluster"

    keeps: ClassVar[tuple[Field, ...]] = (
        SERVER,
        Field("centers", "replicated", "the servers' models by part, [C, P_part] each, component by component", "run"),
        Field("center_count", "scalar", "C"),
    )
    travels: ClassVar[str] = "nodes at work: 4 · (C + 1) · P bytes, all C centers down and one model up"

    def ways(self, data: Data, pulls: bool = False) -> Ways:
        if "centers" not in data:
            raise MissingError("rewire", "ThroughCenters needs centers: use rewire=ChooseCenter(...) of the same part")
        home = places(data.server)
        weight, _ = _link_weights(data, self.weights)
        return Ways(data.server.edge_index, weight, data.server.size[1], home, data.isolated | (home < 0))

    def land(self, data: Data, sums: Mapping[str, Tensor]) -> tuple[Data, Mapping[str, Tensor]]:
        """Move the centers towards the received means, and keep them."""
        _, total = _link_weights(data, self.weights)
        heard = (total > 0).to(total.dtype)
        groups = total.view(-1, data.center_count)  # of connected components
        share = (groups / groups.sum(1, keepdim=True).clamp(min=torch.finfo(total.dtype).tiny)).flatten()
        centers = {}
        for part, mean in sums.items():
            step = share if self.divide == "all" and part != "buffers" else heard
            centers[part] = torch.lerp(data.centers[part], mean, beside(step[:, None], mean))
        return updated(data, centers=centers), centers

    def comes_down(self, data: Data) -> int:
        """A node tries every center before it chooses."""
        return int(data.center_count)


def _link_weights(data: Data, weights: str) -> tuple[Tensor, Tensor]:
    """Return the links' weights in their server's average, [L], 0 for nodes at rest, and their sums, [S]."""
    count = torch.ones_like(data.server.values) if weights == "uniform" else data.server.values
    node, place = data.server.edge_index
    sent = count * (data.trains & data.serves)[node]
    total = sent.new_zeros(data.server.size[1]).index_add_(0, place, sent)
    return sent / total[place].clamp(min=torch.finfo(sent.dtype).tiny), total


def _alike(data: Data, weight: Tensor) -> Tensor:
    """Number the nodes such that nodes with the same neighbors and weights have the same number, [K].

    Neighborhoods are identified by a sum of 64 random bits per neighbor and weight, modulo 2⁶⁴: among a million
    different neighborhoods, two have the same sum with a probability of 3 · 10⁻⁸.
    """
    sender, receiver = data.edge_index
    bits = keyed_bits(sender, weight.double().view(torch.int64))
    total = torch.zeros(data.num_nodes, dtype=torch.int64).index_add_(0, receiver, bits)
    return total.unique(return_inverse=True)[1]
