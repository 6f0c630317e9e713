"""FLT's exchange: a server averages for every node the models of its neighbours."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab.control.allowed import components, without_the_alone
from graphcollab.control.at_work import has_neighbors
from graphcollab.exchange.server_average import ServerAverage, connect_servers, parts_that_travel
from graphcollab.keyed import keyed_bits
from graphcollab.ops import edge_products, mix

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["NeighborhoodAverage"]


@dataclass(frozen=True)
class NeighborhoodAverage(ServerAverage):
    r"""Averages through a server that knows the graph: every node gets the weighted mean of its neighbours' models.

    .. math::
        x_i \leftarrow \frac{\sum_{j \in S} w_{ij} x_j}{\sum_{j \in S} w_{ij}}

    over the nodes S at work (those that both train and serve), the node itself among them where it has a self-loop.
    Nodes with the same neighbours and weights share an average: it is computed once, so their models are equal bit for
    bit, and what is computed grows with the number of different neighbourhoods and not with that of edges.

    As under `ServerAverage`, nodes at rest get their average too and are judged by it, a node of whose neighbours none
    is at work keeps its model, and a node at work is charged d floats up and d down, whatever the number of its
    neighbours. One without neighbours sends nothing.

    Args:
        part: Part of the model that is averaged.
        buffers: ``"average"``: buffers (running statistics) are averaged too; ``"keep"``: they stay with the node.

    Shapes:
        Reads ``x`` (K rows) and ``edge_weight`` [E]; writes ``x``, and ``x_local``, the models before the exchange.

    Example:
        >>> NeighborhoodAverage(part="head")
        NeighborhoodAverage(part='head', buffers='average')
    """

    weights: str = field(default="counts", init=False, repr=False)  # the weigher says what edges weigh
    within: str | None = field(default=None, init=False, repr=False)
    lr: float = field(default=1.0, init=False, repr=False)
    incomplete: str = field(default="average", init=False, repr=False)  # edges say who is averaged with whom

    def init(self, data: Data, env: Env) -> Data:
        """Check that the part can be shared, and connect nodes that may have neighbours to the server."""
        for part in self.part.split("+"):
            data.x.part(part)
        return connect_servers(data, env, without_the_alone(components(data, mutual=False)))

    def __call__(self, data: Data, env: Env) -> Data:
        """Average up, send down."""
        sender, receiver = data.edge_index
        weight, total = _weights_at_work(data)
        reached = (total > 0) & ~data.isolated
        group = _alike(data, weight)
        first = scatter(torch.arange(len(group), device=group.device), group, reduce="min")  # [G]
        speaks = first[group[receiver]] == receiver  # the edges of the first node of every group
        edges = torch.stack([sender[speaks], group[receiver[speaks]]])
        share = (weight / total[receiver].clamp(min=torch.finfo(weight.dtype).tiny))[speaks]
        new, width = data.x, 0
        for part in (p for many in parts_that_travel(new, self.part, self.buffers) for p in many.split("+")):
            old = new.part(part)
            average = mix(env.comm.halo(old, edges), share, edges, len(first))
            new = new.with_part(part, torch.where(reached[:, None], average[group], old))
            width += old.shape[1]
        data = env.comm.count(data, self.at_server(data).nonzero().flatten(), 2 * width)
        data = copy.copy(data)
        data.x, data.x_local = new, data.x
        return data

    def at_server(self, data: Data) -> Tensor:
        """Nodes at work that have neighbours."""
        return data.trains & data.serves & has_neighbors(data)

    def weight_gradient(self, data: Data, env: Env, cotangent: Tensor) -> Tensor:
        """Return ∂L_i/∂w_ij = ⟨∂L_i/∂x_i, x_j − x_i⟩ / Σ_l w_il with the models sent and the new one, [E]."""
        receiver = data.edge_index[1]
        _, total = _weights_at_work(data)
        sent = env.comm.halo(data.x_local.part(self.part), data.edge_index)
        gain = edge_products(cotangent, sent, data.edge_index)
        gain = (gain - (cotangent * data.x.part(self.part)).sum(1)[receiver]) / total[receiver]
        counts = (data.trains & data.serves)[data.edge_index[0]] & (total > 0)[receiver]
        return torch.where(counts, gain, 0.0)


def _weights_at_work(data: Data) -> tuple[Tensor, Tensor]:
    """Return every edge's weight, 0 where the sender is at rest, [E], and their sums per receiver, [K]."""
    sender, receiver = data.edge_index
    weight = data.edge_weight.masked_fill(~(data.trains & data.serves)[sender], 0)
    return weight, scatter(weight, receiver, dim_size=data.num_nodes)


def _alike(data: Data, weight: Tensor) -> Tensor:
    """Number the nodes such that those with the same neighbours and weights have the same number, [K].

    A node's neighbours are told by the sum of 64 random bits per neighbour and weight, modulo 2⁶⁴. Of a million
    different neighbourhoods, two have the same sum with a probability of 3 · 10⁻⁸.
    """
    sender, receiver = data.edge_index
    bits = keyed_bits(sender, weight.double().view(torch.int64))
    total = torch.zeros(data.num_nodes, dtype=torch.int64, device=bits.device).index_add_(0, receiver, bits)
    return total.unique(return_inverse=True)[1]
