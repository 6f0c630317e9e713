"""Edges from every node to itself."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform

from graphcollab.transforms._edges import check_edges, edge_fields, node_count, select_edges, sort_edges
from graphcollab.transforms._transform import Transform

__all__ = ["WithSelfLoops"]


@functional_transform("with_self_loops")
class WithSelfLoops(Transform):
    r"""Adds the self-loops i -> i that are missing (functional name: ``with_self_loops``).

    A self-loop carries :math:`w_{ii}`, the weight a node gives to its own model. Self-loops that exist, and their
    fields, stay as they are. Edges come out sorted by receiver, then sender.

    Args:
        fill_value: ``edge_weight`` of an added self-loop, where the graph has weights. All other edge fields of an
            added self-loop are zero. Default: 0.

    Shapes:
        ``edge_index``: [2, E] to [2, E + K minus the self-loops there were].

    Raises:
        ValueError: If ``edge_index`` is missing or out of range, or an edge field is not aligned with it.

    Example:
        >>> data = Data(num_nodes=2, edge_index=torch.tensor([[1], [0]]), edge_weight=torch.tensor([0.3]))
        >>> out = WithSelfLoops(fill_value=0.7)(data)
        >>> out.edge_index.tolist(), out.edge_weight
        ([[0, 1, 1], [0, 0, 1]], tensor([0.7000, 0.3000, 0.7000]))
    """

    def __init__(self, fill_value: float = 0.0) -> None:
        self.fill_value = float(fill_value)

    def forward(self, data: Data) -> Data:
        """Return a shallow copy of ``data`` in which every node has a self-loop."""
        check_edges(data)
        sender, receiver = data.edge_index
        absent = torch.ones(node_count(data), dtype=torch.bool, device=sender.device)
        absent[sender[sender == receiver].long()] = False
        loops = absent.nonzero().view(-1).to(sender.dtype)
        out = select_edges(data, torch.arange(sender.numel(), device=sender.device))
        for name, value in edge_fields(out).items():
            out[name] = torch.cat([value, self._loop_values(name, value, loops)], dim=data.__cat_dim__(name, value))
        return sort_edges(out)

    def _loop_values(self, name: str, value: Tensor, loops: Tensor) -> Tensor:
        if name == "edge_index":
            return loops.expand(2, -1)
        fill = self.fill_value if name == "edge_weight" else 0
        return value.new_full((loops.numel(), *value.shape[1:]), fill)
