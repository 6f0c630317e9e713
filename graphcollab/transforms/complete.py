"""Everybody may listen to everybody."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform

from graphcollab.transforms.topology import Topology

__all__ = ["Complete"]


@functional_transform("complete_topology")
class Complete(Topology):
    r"""Connects every node with every other node: :math:`E = K (K - 1)` (functional name: ``complete_topology``).

    With ``allowed`` it is the graph of all allowed edges.

    Args:
        allowed: See :class:`~graphcollab.transforms.Topology`.

    Shapes:
        ``edge_index``: [2, K (K - 1)], int64.

    Example:
        >>> from torch_geometric.data import Data
        >>> Complete()(Data(num_nodes=3)).edge_index
        tensor([[1, 2, 0, 2, 0, 1],
                [0, 0, 1, 1, 2, 2]])
    """

    def connect(self, node_id: Tensor) -> Tensor:
        """Return all pairs of positions."""
        nodes = torch.arange(node_id.numel(), device=node_id.device)
        return torch.stack([nodes.repeat(nodes.numel()), nodes.repeat_interleave(nodes.numel())])
