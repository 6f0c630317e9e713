"""FedProto's exchange: class prototypes up to a server, their averages down; models stay where they are."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import ClassVar, cast

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphcollab.engine import Rows
from graphcollab.engine.prototypes import PROTOTYPES, with_prototypes
from graphcollab.exchange.servers import places
from graphcollab.exchange.through_server import ThroughServer
from graphcollab.piece import Exchanger, Field
from graphcollab.typing import Env

__all__ = ["PrototypeAverage", "class_means"]


@dataclass(frozen=True)
class PrototypeAverage(Exchanger):
    r"""Average class prototypes through a server: nodes at work send theirs, every node takes the averages.

    `FedProto: Federated Prototype Learning across Heterogeneous Clients (Tan et al., AAAI 2022)
    <https://arxiv.org/abs/2105.00243>`_. A node's prototype of class k is the mean latent of its :math:`n_{ik}`
    training samples of that class, and the server's is

    .. math::
        c_{ik} = \frac{1}{n_{ik}} \sum_{q \in D_{ik}} z_q, \qquad
        \bar c_k = \sum_{i \in S_k} \frac{n_{ik}}{\sum_{j \in S_k} n_{jk}} c_{ik}

    over the nodes :math:`S_k` at work (those that both train and serve) that have the class. A class that none of them
    has keeps the prototype it had, and one that nobody ever had has none. What the server sends reaches all nodes but
    isolated ones, so that a node at rest begins its next round with what there is. Models are not changed.

    Where edges were given, every connected component has a server of its own, and all its nodes must be allowed to hear
    each other. A node without neighbours has no server: it sends nothing, and there are no prototypes for it.

    Two deviations:

    - Latents are of the model after the local update, in evaluation mode, of all training samples. The authors' code
      collects them while the last local epoch goes on, from a model that moves. This is what the paper's equation says,
      and does not depend on the order of batches.
    - The paper's aggregation also divides by the number of nodes that have the class, which would shrink the averages
      of equal prototypes; here weights sum to 1.

    Args:
        route: The way to a server and back. Its weights ``"counts"`` are the paper's, as above; ``"uniform"``, of the
            authors' code: nodes that have the class count alike.

    Shapes:
        Writes ``prototypes`` [K, C, d_z], what every node has received, and ``prototype_known`` [K, C], for which
        classes. A node at work is charged d_z floats for every class it has, up, and for every class with a prototype,
        down.

    Raises:
        ValueError: If models have no latents, latents or outputs differ in size between architectures, targets are not
            class labels, or nodes that are connected may not hear each other.
    """

    route: ThroughServer = field(default_factory=ThroughServer)

    embeds: ClassVar[bool] = True
    keeps: ClassVar[tuple[Field, ...]] = PROTOTYPES
    travels: ClassVar[str] = (
        "nodes at work: 4 · d_z bytes for every class that the node has, up, and for every class that has a prototype, "
        "down; numbers of samples are not counted"
    )

    def init(self, data: Data, env: Env) -> Data:
        """Connect every node to its server, and begin without prototypes."""
        return self.route.init(with_prototypes(data, env), env)

    def __call__(self, data: Data, env: Env) -> Data:
        """Average up, send down."""
        nodes = self.at_server(data).nonzero().flatten()
        if len(nodes) == 0:
            return data
        _, classes, width = data.prototypes.shape
        nodes = env.plane.at_home(nodes)
        means, counts = class_means(data, env, nodes, classes, width)
        weight = counts if self.route.weights == "counts" else (counts > 0).to(counts.dtype)
        place, servers = places(data.server)[nodes], data.server.size[1]
        total = weight.new_zeros(servers, classes).index_add_(0, place, weight)
        total = env.plane.reduce(total)  # [G, C]
        share = weight / total[place].clamp(min=1)  # [n, C]
        if servers == 1:
            average = torch.einsum("nc,ncd->cd", share, means)[None]
        else:
            average = means.new_zeros(servers, classes, width).index_add_(0, place, share[..., None] * means)
        return self._send_down(data, env, nodes, (counts > 0).sum(1), env.plane.reduce(average), total > 0)

    def at_server(self, data: Data) -> Tensor:
        """Nodes at work that have a server."""
        return self.route.at_server(data)

    def _send_down(self, data: Data, env: Env, nodes: Tensor, sent: Tensor, average: Tensor, heard: Tensor) -> Data:
        """Return the graph in which all but isolated nodes have the new averages [G, C, d_z] of classes heard of."""
        place = places(data.server)
        reached = (place >= 0) & ~data.isolated
        if len(average) == 1 and bool(reached.all()):  # all have the same, which is stored once
            prototypes = torch.where(heard[0, :, None], average[0], data.prototypes[0]).expand_as(data.prototypes)
            known = (data.prototype_known[0] | heard[0]).expand_as(data.prototype_known)
        else:
            reached, place = env.plane.mine(reached), env.plane.mine(place)
            news = reached[:, None] & heard[place]  # [k, C]
            prototypes = torch.where(news[..., None], average[place], data.prototypes)
            known = data.prototype_known | news
        floats = average.shape[2] * (sent + known[data.x.place(nodes)].sum(1))
        data = copy.copy(env.plane.charge(data, nodes, floats, at=nodes))
        data.prototypes, data.prototype_known = prototypes, known
        return data


def class_means(data: Data, env: Env, nodes: Tensor, classes: int, width: int) -> tuple[Tensor, Tensor]:
    """Return the mean latents of the nodes' training samples by class, and how many samples those are.

    Latents are in evaluation mode, and are summed a chunk of nodes at a time.

    Args:
        data: The graph.
        env: What pieces may use.
        nodes: Which nodes, [n].
        classes: C.
        width: d_z.

    Returns:
        Means [n, C, d_z], 0 of a class that a node does not have, and counts [n, C].
    """
    sums = torch.zeros(len(nodes), classes, width, dtype=data.x.dtype, device=data.x.device)
    counts = sums.new_zeros(len(nodes), classes)
    for chunk in env.engine.predict(Rows.own(data.x, nodes), "train", embed=True):
        inside = chunk.mask & (chunk.targets >= 0) & (chunk.targets < classes)
        member = F.one_hot(chunk.targets.where(inside, 0), classes).to(sums) * inside[..., None]  # [r, n, C]
        sums[chunk.rows] = member.mT @ cast(Tensor, chunk.latent).to(sums)
        counts[chunk.rows] = member.sum(1)
    return sums / counts.clamp(min=1)[..., None], counts
