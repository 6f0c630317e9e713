"""The base class of all topologies."""

from __future__ import annotations

import copy
from abc import abstractmethod

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.transforms._edges import check_edges, edge_keys, node_count, node_ids
from graphcollab.transforms._transform import Transform

__all__ = ["Topology"]


class Topology(Transform):
    r"""Base class of transforms that decide who may listen to whom.

    A topology replaces ``edge_index``. Edge fields that the input had (``edge_weight`` and whatever else has "edge" in
    its name) describe edges that are gone, so they are removed. There are no self-loops and no duplicates, and
    edges are sorted by receiver, then sender. Add self-loops with
    :class:`~graphcollab.transforms.WithSelfLoops`.

    A subclass writes :meth:`connect` only. It sees the nodes in the ascending order of ``node_id``, so giving nodes
    other places in memory gives the same graph.

    Args:
        allowed: The edges j -> i that may exist, in the numbering of the ``Data`` that comes in; all others are left
            out. A node may end up without neighbours. Default: all edges are allowed.

    Shapes:
        allowed: [2, A], int64.
        ``edge_index``: [2, E], int64.

    Raises:
        ValueError: If ``allowed`` does not hold integers of that shape, or names nodes that do not exist.

    Example:
        >>> class Star(Topology):
        ...     def connect(self, node_id: Tensor) -> Tensor:
        ...         others = torch.arange(1, node_id.numel())
        ...         return torch.stack([others, torch.zeros_like(others)])
        >>> Star()(Data(num_nodes=4)).edge_index
        tensor([[1, 2, 3],
                [0, 0, 0]])
    """

    def __init__(self, allowed: Tensor | None = None) -> None:
        if allowed is not None and (allowed.dtype not in (torch.int64, torch.int32) or allowed.shape[:-1] != (2,)):
            kind = f"{allowed.dtype} of shape {list(allowed.shape)}"
            raise ValueError(f"{type(self).__name__}: allowed must be an int64 tensor [2, A], got {kind}")
        self.allowed = allowed

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
        # [K]: the place in memory of each position.
        node_id, place = node_ids(data).sort()
        keys = edge_keys(place[self.connect(node_id)], count)
        keys = keys[keys % max(count, 1) != keys // max(count, 1)].unique()
        if self.allowed is not None:
            keys = keys[torch.isin(keys, self._allowed_keys(self.allowed, count).to(keys.device))]
        out = copy.copy(data)
        for name, _ in data:
            if "edge" in name:
                del out[name]
        out.num_nodes = count
        out.edge_index = torch.stack([keys % max(count, 1), keys // max(count, 1)])
        return out

    def _allowed_keys(self, allowed: Tensor, count: int) -> Tensor:
        try:
            check_edges(Data(num_nodes=count, edge_index=allowed))
        except ValueError as error:
            raise ValueError(f"{type(self).__name__}: allowed: {error}") from None
        return edge_keys(allowed, count)
