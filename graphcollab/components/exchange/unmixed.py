"""Exchanges that do not mix models: what arrives, if anything, is kept beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.device import beside, pick
from graphcollab._base.piece import Field, Readers, updated
from graphcollab.components.env import Env
from graphcollab.components.exchange.route import AlongEdges, Sent, Ways
from graphcollab.components.exchange.servers import ThroughServer, places
from graphcollab.components.local.prototypes import PROTOTYPES, with_prototypes
from graphcollab.components.slots import Exchanger
from graphcollab.engine import Rows


@dataclass(frozen=True)
class NoExchange(Exchanger):
    """No mixing: nodes keep their locally trained models.

    Args:
        shown: Part of the model that still travels along the edges for comparison: the weigher compares it, and counts
            its traffic. A run without a graph then has all pairs. None: nothing travels.
    """

    shown: str | None = None

    @property
    def part(self) -> str:
        return self.shown or "all"

    @property
    def along_edges(self) -> bool:
        return self.shown is not None

    @property
    def agrees(self) -> Mapping[str, object]:
        return {} if self.shown is None else {"part": self.shown}

    def __call__(self, data: Data, env: Env) -> Data:
        return data

    def at_server(self, data: Data) -> Tensor | None:
        return None if self.along_edges else torch.zeros_like(data.trains)


_NEIGHBORS = AlongEdges(neighbors_only=True)


@dataclass(frozen=True)
class Receive(Exchanger):
    r"""Keep the weighted sum of the neighbors' models beside the own model, for the next round to train through.

    .. math::
        r_i = \sum_{j \to i,\, j \ne i} \alpha_{ij} x_j, \qquad \alpha_{ii} = 1 - \sum_{j \ne i} \alpha_{ij}

    ``Fit(through=...)`` starts the next round from :math:`\alpha_{ii} x_i + r_i`. (Mixing at the end of the round would
    differ for nodes at rest and isolated nodes, which keep their own model here.) A node at rest keeps what it received
    last; a node's weights for senders that do not serve go to its own model. The first round uses the models at the
    start of the phase. These are not charged: after a phase that tried models on the same edges, the receivers already
    have them, and at the start of a run all models are the initial one.

    Args:
        part: Part of the model that is sent.
    """

    part: str = "all"

    along_edges: ClassVar[bool] = True
    keeps: ClassVar[tuple[Field, ...]] = (
        Field("received", "rows", "what neighbors sent last, weighted, [K, P_part]", known_to="owner"),
        Field("own_share", "per_node", "α_ii, the weight left for the node's own model", known_to="receiver"),
    )
    travels: ClassVar[str] = _NEIGHBORS.travels
    told: ClassVar[Readers] = {"listeners": "the part of its model that is mixed"}
    shared: ClassVar[tuple[str, ...]] = ("part",)

    def init(self, data: Data, env: Env) -> Data:
        """Receive the models at the start of the phase."""
        own = data.x.part(self.part)
        nothing = torch.zeros_like(own, memory_format=torch.contiguous_format)
        data = updated(data, received=nothing, own_share=torch.ones(data.num_nodes, dtype=own.dtype))
        return self._receive(data, env)[0]

    def hears(self, data: Data, env: Env) -> list[Tensor]:
        return [data.x.part(self.part)]

    def __call__(self, data: Data, env: Env) -> Data:
        data, ways = self._receive(data, env)
        return _NEIGHBORS.charge(data, env, ways, data.received.shape[1])

    def shares(self, data: Data) -> Tensor:
        """The weight of self-loops is 0."""
        return _NEIGHBORS.shares(data)[0]

    def _receive(self, data: Data, env: Env) -> tuple[Data, Ways]:
        sent = data.x.part(self.part)
        ways = _NEIGHBORS.ways(data)
        ways = ways._replace(weight=ways.weight.to(sent.dtype))
        given = torch.zeros_like(data.own_share).index_add_(0, ways.edge_index[1], ways.weight)
        data = updated(
            data,
            received=ways.unless_kept(env, ways.sums(env, [Sent(sent)])[0], data.received),
            own_share=1 - given if ways.keeps is None else torch.where(ways.keeps, data.own_share, 1 - given),
        )
        return data, ways


@dataclass(frozen=True)
class PrototypeAverage(Exchanger):
    """Average class prototypes through a server: participating nodes send theirs, and every node gets the averages.

    A node's prototype of class k is the mean latent of its :math:`n_{ik}` training samples of that class, computed by
    the model after the local update in evaluation mode. The server's prototype is the mean over the participating nodes
    (those that both train and serve) that have the class. A class that none of them has keeps its previous prototype,
    if any. The averages reach all nodes but isolated ones and those without a server (`ThroughServer`), which have no
    prototypes. If samples have weights, latents are averaged by them, and :math:`n_{ik}` is the sum of the class's
    weights, which are 1 on average at a node. See `fedproto`.

    Args:
        route: The route to a server and back. Its weights ``"counts"`` are the paper's, as above; ``"uniform"`` are
            those of the authors' code: all nodes that have the class have equal weights.

    Raises:
        ValueError: If models have no latents, latents or outputs differ in size between architectures, or targets are
            not class labels.
    """

    route: ThroughServer = field(default_factory=ThroughServer)

    along_edges: ClassVar[bool] = False
    embeds: ClassVar[bool] = True
    keeps: ClassVar[tuple[Field, ...]] = PROTOTYPES
    travels: ClassVar[str] = (
        "nodes at work: 4 · d_z bytes for every class that the node has, up, and for every class that has a prototype, "
        "down; numbers of samples are not counted"
    )
    told: ClassVar[Readers] = {"coordinator": "how many training samples of a class it has, and their mean latents"}

    def init(self, data: Data, env: Env) -> Data:
        return self.route.init(with_prototypes(data, env), env)

    def __call__(self, data: Data, env: Env) -> Data:
        nodes = self.at_server(data).nonzero().flatten()
        if len(nodes) == 0:
            return data
        _, classes, width = data.prototypes.shape
        nodes = env.plane.local(nodes)
        means, counts = class_means(data, env, nodes, classes, width)
        weight = counts if self.route.weights == "counts" else (counts > 0).to(counts.dtype)
        place, servers = beside(places(data.server)[nodes], weight), data.server.size[1]
        (total,) = env.plane.all_reduce(weight.new_zeros(servers, classes).index_add_(0, place, weight))  # [G, C]
        total_or_one = total.where(total > 0, 1)  # weights may sum to less than 1
        share = weight / total_or_one[place]  # [n, C]
        if servers == 1:
            average = torch.einsum("nc,ncd->cd", share, means)[None]
        else:
            average = means.new_zeros(servers, classes, width).index_add_(0, place, share[..., None] * means)
        (average,) = env.plane.all_reduce(average)
        return self._send_down(data, env, nodes, (counts > 0).sum(1), average, total > 0)

    def at_server(self, data: Data) -> Tensor:
        return self.route.at_server(data)

    def _send_down(self, data: Data, env: Env, nodes: Tensor, sent: Tensor, average: Tensor, heard: Tensor) -> Data:
        """Give all but isolated nodes the new averages [G, C, d_z] of the received classes, [G, C]."""
        place = places(data.server)
        reached = (place >= 0) & ~data.isolated
        if len(average) == 1 and bool(reached.all()):  # all nodes have the same, which is stored once
            prototypes = torch.where(heard[0, :, None], average[0], data.prototypes[0]).expand_as(data.prototypes)
            known = (data.prototype_known[0] | heard[0]).expand_as(data.prototype_known)
        else:
            reached, place = (beside(env.plane.local_values(values), heard) for values in (reached, place))
            news = reached[:, None] & heard[place]  # [k, C]
            prototypes = torch.where(news[..., None], average[place], data.prototypes)
            known = data.prototype_known | news
        floats = (average.shape[2] * (sent + pick(known, data.x.place(nodes)).sum(1))).cpu()
        data = env.plane.charge(data, nodes, floats, at=nodes)
        return updated(data, prototypes=prototypes, prototype_known=known)


def class_means(data: Data, env: Env, nodes: Tensor, classes: int, width: int) -> tuple[Tensor, Tensor]:
    """Return mean latents of nodes' training samples [n] by class, in evaluation mode, and sums of weights.

    The means are [n, C, d_z], 0 for a class that a node does not have, and the sums [n, C]. Weights are 1 on average
    over a node's samples.
    """
    sums = torch.zeros(len(nodes), classes, width, dtype=data.x.dtype, device=data.x.device)
    counts = sums.new_zeros(len(nodes), classes)
    for chunk in env.engine.predict(Rows.own(data.x, nodes), "train", embed=True):
        number = torch.arange(classes, device=sums.device)
        member = ((chunk.targets[..., None] == number) & chunk.mask[..., None]).to(sums)  # [r, n, C]
        if chunk.weight is not None:
            member = member * (chunk.weight * beside(chunk.sizes, sums)[:, None]).to(sums)[..., None]
        place = beside(chunk.rows, sums)
        sums[place], counts[place] = member.mT @ cast(Tensor, chunk.latent).to(sums), member.sum(1)
    return sums / counts.where(counts > 0, 1)[..., None], counts
