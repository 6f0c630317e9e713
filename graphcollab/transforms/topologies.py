"""Allowed communication: topologies, which replace all edges, and self-loops."""

from __future__ import annotations

import copy
from abc import abstractmethod

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform

from graphcollab._base.errors import ConflictError, RangeError
from graphcollab._base.keyed import keyed_order
from graphcollab._base.settings import Count, Natural
from graphcollab.transforms._edges import (
    Transform,
    check_edges,
    edge_fields,
    edge_keys,
    node_count,
    node_ids,
    sort_edges,
)

_PAIRING = 2  # purpose key of random numbers


def regular_pairs(count: int, degree: int, seed: int) -> Tensor:
    """Return distinct pairs of K nodes, every node ``degree`` < K times (K degree even), [2, K degree / 2]."""
    rest, attempt, edges = count - 1 - degree, 0, None
    while edges is None:
        edges, attempt = _pair_ends(count, min(degree, rest), seed, attempt), attempt + 1
    if rest < degree:
        every = torch.triu_indices(count, count, 1)
        edges = every[:, ~torch.isin(every[0] * count + every[1], edges[0] * count + edges[1])]
    return edges


def _pair_ends(count: int, degree: int, seed: int, attempt: int) -> Tensor | None:
    """Return edges [2, K degree / 2] between K nodes; None if the remaining ends cannot be paired."""
    ends, found, turn = torch.arange(count).repeat_interleave(degree), torch.zeros(0, dtype=torch.int64), 0
    while len(ends):
        order = keyed_order(seed, _PAIRING, attempt, turn, torch.arange(len(ends)))
        pairs = ends[order].view(-1, 2).sort(1).values
        key = pairs[:, 0] * count + pairs[:, 1]
        fits = (pairs[:, 0] < pairs[:, 1]) & ~torch.isin(key, found)
        some = fits.nonzero().flatten()
        first = np.unique(key[some].numpy(), return_index=True)[1]  # first occurrence of each pair
        fits = torch.zeros_like(fits).index_fill_(0, some[first], True)
        found, ends = torch.cat([found, key[fits]]), pairs[~fits].flatten()
        if not bool(fits.any()) and not _can_pair(ends, found, count):
            return None
        turn += 1
    return torch.stack([found // count, found % count])


def _can_pair(ends: Tensor, found: Tensor, count: int) -> bool:
    """Return whether two of the nodes with remaining ends have no edge yet."""
    nodes = ends.unique()
    one, other = torch.combinations(nodes).T
    return bool((~torch.isin(one * count + other, found)).any())


class Topology(Transform):
    r"""Base class of transforms that determine the allowed communication.

    A topology replaces ``edge_index``. Existing edge fields (``edge_weight`` and all others with "edge" in their name)
    describe the replaced edges, so they are removed. There are no self-loops (`WithSelfLoops` adds them) and
    no duplicates, and edges are sorted by receiver, then sender.

    A subclass implements :meth:`connect` only. It sees the nodes in ascending order of ``node_id``, so reordering nodes
    in memory gives the same graph.

    Shapes:
        ``edge_index``: [2, E], int64.

    Example:
        >>> class Star(Topology):
        ...     def connect(self, node_id: Tensor) -> Tensor:
        ...         others = torch.arange(1, node_id.numel())
        ...         return torch.stack([others, torch.zeros_like(others)])
        >>> Star()(Data(num_nodes=4)).edge_index
        tensor([[1, 2, 3],
                [0, 0, 0]])
    """

    @abstractmethod
    def connect(self, node_id: Tensor) -> Tensor:
        """Return edges between positions in ``node_id``; order, duplicates and self-loops do not matter.

        Shapes:
            node_id: [K], int64, ascending.
            Output: [2, E], int64, senders and receivers as positions 0..K-1 in ``node_id``.
        """

    def forward(self, data: Data) -> Data:
        """Return a shallow copy of ``data`` with the edges of this topology."""
        count = node_count(data)
        node_id, place = node_ids(data).sort()  # [K] each: identity, and index in memory, of every position
        sender, receiver = place[self.connect(node_id)]
        keys = edge_keys(torch.stack([sender, receiver])[:, sender != receiver], count).unique()
        out = copy.copy(data)
        for name, _ in data:
            if "edge" in name:
                del out[name]
        out.num_nodes = count
        out.edge_index = torch.stack([keys % max(count, 1), keys // max(count, 1)])
        return out


@functional_transform("complete_topology")
class Complete(Topology):
    r"""Connect every node with every other node: :math:`E = K (K - 1)` (functional name: ``complete_topology``)."""

    def connect(self, node_id: Tensor) -> Tensor:
        nodes = torch.arange(node_id.numel(), device=node_id.device)
        return torch.cartesian_prod(nodes, nodes).t()


@functional_transform("isolated_topology")
class Isolated(Topology):
    """Remove all edges: every node learns alone (functional name: ``isolated_topology``)."""

    def connect(self, node_id: Tensor) -> Tensor:
        return torch.empty(2, 0, dtype=torch.int64, device=node_id.device)


@functional_transform("ring_topology")
class Ring(Topology):
    r"""Connect every node with the next ``neighbors`` nodes on both sides (functional name: ``ring_topology``).

    .. math::
        j \to i \iff |i - j| \le n \;\text{ or }\; K - |i - j| \le n, \qquad i \neq j

    where :math:`n` is ``neighbors`` and :math:`i, j` are the positions of nodes in ascending order of ``node_id``.

    The "group-ring" topology of `"Learning to Collaborate in Decentralized Learning of Personalized Models"
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_ with :math:`d = K - K_0` neighbors is ``Ring(d // 2)``: its
    formula has :math:`d / 2` for :math:`n`, so an odd :math:`d` gives :math:`d - 1` neighbors.

    Args:
        neighbors: Neighbors on each side. Half of K or more gives a complete graph.

    Shapes:
        ``edge_index``: [2, K min(2 n, K - 1)], int64, symmetric.
    """

    def __init__(self, neighbors: Count = 1) -> None:
        self.neighbors = neighbors

    def connect(self, node_id: Tensor) -> Tensor:
        nodes = torch.arange(len(node_id), device=node_id.device)
        steps = torch.arange(1, min(self.neighbors, len(nodes) // 2) + 1, device=node_id.device)
        # [steps, K]: every node receives from the node that many steps ahead, and that many steps back.
        senders = (nodes + torch.cat([steps, -steps])[:, None]) % max(len(nodes), 1)
        return torch.stack([senders.reshape(-1), nodes.repeat(len(senders))])


@functional_transform("random_regular_topology")
class RandomRegular(Topology):
    r"""Give every node ``degree`` random neighbors (functional name: ``random_regular_topology``).

    The graph is undirected. Every node has ``degree`` edge ends, which are paired at random; ends whose edge would be a
    loop or a duplicate are paired again with each other: `Generating Random Regular Graphs Quickly (Steger and Wormald,
    1999) <https://doi.org/10.1017/S0963548399003867>`_, by which all graphs are about equally likely if the degree is
    small relative to K. Here all ends are paired at once, not one pair after another. For a degree above (K − 1) / 2,
    the pairs without an edge are drawn.

    Args:
        degree: Number of neighbors of each node.
        seed: Seed of the graph; nonnegative. Default: 0.

    Shapes:
        ``edge_index``: [2, K degree], int64, symmetric.

    Raises:
        ValueError: If ``degree`` is not below K, or K times ``degree`` is odd.
    """

    def __init__(self, degree: Count, seed: Natural = 0) -> None:
        self.degree = degree
        self.seed = seed

    def connect(self, node_id: Tensor) -> Tensor:
        count = node_id.numel()
        if self.degree >= count:
            raise RangeError(
                "degree",
                f"RandomRegular: degree {self.degree} must be below the number of nodes, {count}: or use Complete()",
            )
        if count * self.degree % 2:
            odd = f"K * degree = {count} * {self.degree} is odd"
            raise ConflictError("degree", f"RandomRegular: {odd}, so no such graph exists; make one of the two even")
        edges = regular_pairs(count, self.degree, self.seed).to(node_id.device)
        return torch.cat([edges, edges.flip(0)], dim=1)


@functional_transform("with_self_loops")
class WithSelfLoops(Transform):
    r"""Add the missing self-loops i -> i (functional name: ``with_self_loops``).

    A self-loop carries :math:`w_{ii}`, the weight of a node's own model. Existing ones are unchanged; all edge fields
    of added ones are zero. PyG's ``AddSelfLoops(fill_value=)`` gives them other weights.

    Shapes:
        ``edge_index``: [2, E] to [2, E + K minus the number of existing self-loops].

    Raises:
        ValueError: If ``edge_index`` is missing or out of range, or an edge field is not aligned with it.
    """

    def forward(self, data: Data) -> Data:
        """Return a shallow copy of ``data`` in which every node has a self-loop."""
        check_edges(data)
        sender, receiver = data.edge_index
        absent = torch.ones(node_count(data), dtype=torch.bool, device=sender.device)
        absent[sender[sender == receiver].long()] = False
        loops = absent.nonzero().view(-1).to(sender.dtype)
        out = copy.copy(data)
        for name, value in edge_fields(data).items():
            new = loops.expand(2, -1) if name == "edge_index" else value.new_zeros(len(loops), *value.shape[1:])
            out[name] = torch.cat([value, new], dim=data.__cat_dim__(name, value))
        return sort_edges(out)
