"""Who shares a server, as edges."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

__all__ = ["server_graph"]


def server_graph(data: Data) -> tuple[Tensor, Tensor]:
    """Return an edge of weight 1 from every node to all others with the same server.

    It shows methods whose models travel through servers (FedAvg, the oracle, IFCA) as `graphcollab.report` and the
    metrics of graphs show those whose models travel along edges, such as CoBo, whose weights are 1 between nodes that
    collaborate fully. Nodes change servers between rounds, so it is whom a node shares its next round with. Of 10⁴
    nodes with one server it lists 10⁸ edges.

    Args:
        data: The graph, for example ``result.data``.

    Returns:
        Edges [2, E], sorted by receiver and then by sender, and weights [E]; none with nodes that were isolated, or do
        not belong to the collaboration (`graphcollab.control.Membership`).

    Raises:
        ValueError: If the nodes have no server.

    Example:
        >>> from graphcollab.methods import fedavg
        >>> from graphcollab.testing import Scene
        >>> data, _ = Scene.small(sizes=(5, 5, 5, 5)).begin(fedavg(within="cluster"))
        >>> server_graph(data)[0].tolist()
        [[1, 0, 3, 2], [0, 1, 2, 3]]
    """
    if "server" not in data:
        raise ValueError("there are no servers: the method does not average through any")
    node, place = data.server.edge_index
    home = torch.full_like(data.node_id, -1).index_copy_(0, node, place)
    there = data.present & ~data.isolated & (home >= 0)
    together = (home[:, None] == home) & there[:, None] & there
    receiver, sender = together.fill_diagonal_(False).nonzero().T
    return torch.stack([sender, receiver]), torch.ones(len(sender), dtype=data.x.dtype, device=sender.device)
