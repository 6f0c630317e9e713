"""Nobody listens to anybody."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform

from graphcollab.transforms.topology import Topology

__all__ = ["Isolated"]


@functional_transform("isolated_topology")
class Isolated(Topology):
    r"""Removes all edges: every node learns alone (functional name: ``isolated_topology``).

    Shapes:
        ``edge_index``: [2, 0], int64.

    Example:
        >>> from torch_geometric.data import Data
        >>> Isolated()(Data(num_nodes=3)).num_edges
        0
    """

    def __init__(self) -> None:
        super().__init__()

    def connect(self, node_id: Tensor) -> Tensor:
        """Return no edges."""
        return torch.empty(2, 0, dtype=torch.int64, device=node_id.device)
