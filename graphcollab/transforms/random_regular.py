"""Random regular graphs."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform

from graphcollab.keyed import keyed_seed
from graphcollab.settings import Count, Natural
from graphcollab.transforms.topology import Topology

__all__ = ["RandomRegular"]


@functional_transform("random_regular_topology")
class RandomRegular(Topology):
    r"""Gives every node ``degree`` random neighbours (functional name: ``random_regular_topology``).

    The graph is undirected, and drawn by :func:`networkx.random_regular_graph` on the places of the nodes in the
    ascending order of ``node_id``.

    Args:
        degree: Neighbours of each node.
        seed: Another seed gives another graph; not negative. Default: 0.
        allowed: See :class:`~graphcollab.transforms.Topology`.

    Shapes:
        ``edge_index``: [2, K degree], int64, symmetric.

    Raises:
        ValueError: If ``degree`` is not below K, or K times ``degree`` is odd.

    Example:
        >>> from torch_geometric.data import Data
        >>> RandomRegular(degree=3, seed=1)(Data(num_nodes=6)).edge_index[1].bincount().tolist()
        [3, 3, 3, 3, 3, 3]
    """

    def __init__(self, degree: Count, seed: Natural = 0, allowed: Tensor | None = None) -> None:
        self.degree = degree
        self.seed = seed
        super().__init__(allowed)

    def connect(self, node_id: Tensor) -> Tensor:
        """Draw the graph and return both directions of its edges."""
        count = node_id.numel()
        if self.degree >= count:
            raise ValueError(
                f"RandomRegular: degree {self.degree} must be below the number of nodes, {count}; "
                f"use a degree of at most {max(count - 1, 0)}, or Complete()"
            )
        if count * self.degree % 2:
            raise ValueError(
                f"RandomRegular: K * degree = {count} * {self.degree} is odd, so no such graph exists; "
                "make one of the two even"
            )
        import networkx  # here, since importing it takes long

        graph = networkx.random_regular_graph(self.degree, count, seed=keyed_seed(self.seed))
        edges = torch.tensor(list(graph.edges), dtype=torch.int64, device=node_id.device).view(-1, 2).t()
        return torch.cat([edges, edges.flip(0)], dim=1)
