"""FLT's route: a server averages for every node the models of its neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab.exchange.route import AtServer, Ways
from graphcollab.keyed import keyed_bits

__all__ = ["NeighborhoodMeans"]


@dataclass(frozen=True)
class NeighborhoodMeans(AtServer):
    r"""A server that knows the graph gives every node the weighted mean of its neighbours' models.

    .. math::
        x_i \leftarrow \frac{\sum_{j \in S} w_{ij} x_j}{\sum_{j \in S} w_{ij}}

    over the nodes S at work (those that both train and serve), the node itself among them where it has a self-loop.
    Nodes with the same neighbours and weights share a mean: it is computed once, so their models are equal bit for bit,
    and what is computed grows with the number of different neighbourhoods and not with that of edges.

    Nodes at rest get their mean too and are judged by it. A node of whose neighbours none is at work keeps its model.
    The account is that of `AtServer`. A node without neighbours sends nothing.

    Args:
        neighbors_only: Leave self-loops out of the sum (their weights still take part in the normalisation).

    Example:
        >>> NeighborhoodMeans().serves_rest, AtServer().serves_rest
        (True, False)
    """

    serves_rest: ClassVar[bool] = True

    def shares(self, data: Data, pulls: bool = False) -> tuple[Tensor, Tensor | None]:
        """Return the edges' weights, normalised over senders at work."""
        sender, receiver = data.edge_index
        weight = data.edge_weight.masked_fill(~(data.trains & data.serves)[sender], 0)
        total = scatter(weight, receiver, dim_size=data.num_nodes)
        keeps = (total <= 0) | data.isolated
        share = weight / total.masked_fill(keeps, 1)[receiver]
        silent = keeps[receiver] | (sender == receiver) if self.neighbors_only else keeps[receiver]
        return share.masked_fill(silent, 0), keeps

    def ways(self, data: Data, pulls: bool = False) -> Ways:
        """Return the edges of one node of every neighbourhood."""
        sender, receiver = data.edge_index
        share, keeps = self.shares(data)
        group = _alike(data, share)
        first = scatter(torch.arange(len(group), device=group.device), group, reduce="min")  # [G]
        speaks = first[group[receiver]] == receiver
        edges = torch.stack([sender[speaks], group[receiver[speaks]]])
        return Ways(edges, share[speaks], len(first), group, keeps)


def _alike(data: Data, weight: Tensor) -> Tensor:
    """Number the nodes such that those with the same neighbours and weights have the same number, [K].

    A node's neighbours are told by the sum of 64 random bits per neighbour and weight, modulo 2⁶⁴. Of a million
    different neighbourhoods, two have the same sum with a probability of 3 · 10⁻⁸.
    """
    sender, receiver = data.edge_index
    bits = keyed_bits(sender, weight.double().view(torch.int64))
    total = torch.zeros(data.num_nodes, dtype=torch.int64, device=bits.device).index_add_(0, receiver, bits)
    return total.unique(return_inverse=True)[1]
