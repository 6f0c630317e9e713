"""A ring of nodes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform

from graphcollab.settings import Count
from graphcollab.transforms.topology import Topology

__all__ = ["Ring"]


@functional_transform("ring_topology")
class Ring(Topology):
    r"""Connects every node with the next ``neighbors`` nodes on both sides (functional name: ``ring_topology``).

    .. math::
        j \to i \iff |i - j| \le n \;\text{ or }\; K - |i - j| \le n, \qquad i \neq j

    where :math:`n` is ``neighbors`` and :math:`i, j` are the places of the nodes in the ascending order of ``node_id``.

    Args:
        neighbors: Neighbours on each side. Default: 1.
        allowed: See :class:`~graphcollab.transforms.Topology`.

    Shapes:
        ``edge_index``: [2, K min(2 n, K - 1)], int64, symmetric.

    Example:
        >>> from torch_geometric.data import Data
        >>> Ring()(Data(num_nodes=4)).edge_index
        tensor([[1, 3, 0, 2, 1, 3, 0, 2],
                [0, 0, 1, 1, 2, 2, 3, 3]])
    """

    def __init__(self, neighbors: Count = 1, allowed: Tensor | None = None) -> None:
        self.neighbors = neighbors
        super().__init__(allowed)

    def connect(self, node_id: Tensor) -> Tensor:
        """Return the edges between positions that are near each other around the ring."""
        return ring_edges(node_id.numel(), self.neighbors, node_id.device)


def ring_edges(count: int, reach: int, device: torch.device | None = None) -> Tensor:
    """Return the edges between nodes that are at most ``reach`` steps apart on a ring.

    Shapes:
        Output: [2, E], int64; an edge may occur twice where the two ways round meet.
    """
    nodes = torch.arange(count, device=device)
    steps = torch.arange(1, min(reach, count // 2) + 1, device=device)
    steps = torch.cat([steps, -steps])
    # [steps, K]: everybody listens to the node that many steps further.
    senders = (nodes + steps.view(-1, 1)) % max(count, 1)
    return torch.stack([senders.reshape(-1), nodes.repeat(steps.numel())])
