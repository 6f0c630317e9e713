"""The base class of all transforms that drop edges by weight."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab.transforms._edges import (
    check_edges,
    check_no_duplicates,
    edge_weights,
    node_count,
    select_edges,
    sort_edges,
)
from graphcollab.transforms._transform import Transform

__all__ = ["Sparsification"]


class Sparsification(Transform):
    r"""Base class of transforms that drop edges by their ``edge_weight``.

    A self-loop is never dropped. All fields of the edges that stay are kept aligned, and edges are sorted by receiver,
    then sender. A subclass writes :meth:`keep` only.

    Args:
        renormalize: Whether the weights a receiver keeps are scaled to the sum they had before. A receiver that keeps
            no edge stays without. By default weights stay as they are.

    Shapes:
        ``edge_index``: [2, E] to [2, E'] with E' at most E.
        ``edge_weight``: [E] to [E'].

    Raises:
        ValueError: If there is no ``edge_weight``, a weight is NaN, an edge is out of range or occurs twice, or weights
            that sum to 0 are to be scaled to another sum.

    Example:
        >>> class Positive(Sparsification):
        ...     def keep(self, data: Data) -> Tensor:
        ...         return data.edge_weight > 0
        >>> data = Data(num_nodes=3, edge_index=torch.tensor([[1, 2], [0, 0]]), edge_weight=torch.tensor([0.0, 1.0]))
        >>> Positive()(data).edge_index.tolist()
        [[2], [0]]
    """

    def __init__(self, renormalize: bool = False) -> None:
        self.renormalize = renormalize

    @abstractmethod
    def keep(self, data: Data) -> Tensor:
        """Return which edges stay. Self-loops stay whatever it says.

        Shapes:
            Output: [E], bool.
        """

    def forward(self, data: Data) -> Data:
        """Return a shallow copy of ``data`` without the edges dropped."""
        check_edges(data)
        check_no_duplicates(data)
        before = edge_weights(data)
        sender, receiver = data.edge_index
        out = select_edges(data, self.keep(data) | (sender == receiver))
        if self.renormalize:
            out.edge_weight = _rescale(out, _row_sums(before, receiver, node_count(data)))
        return sort_edges(out)


def _row_sums(weight: Tensor, receiver: Tensor, count: int) -> Tensor:
    return scatter(weight, receiver.long(), dim=0, dim_size=count, reduce="sum")


def _rescale(data: Data, wanted: Tensor) -> Tensor:
    """Return the weights of ``data`` scaled so that each receiver's sum is as ``wanted`` [K]."""
    receiver = data.edge_index[1].long()
    got = _row_sums(data.edge_weight, receiver, wanted.numel())
    lost = ((got == 0) & (wanted != 0))[receiver]
    if bool(lost.any()):
        node = int(receiver[lost][0])
        raise ValueError(
            f"the weights that receiver {node} keeps sum to 0 and cannot be scaled to {float(wanted[node]):g}, their "
            "sum before; keep more neighbours, or use renormalize=False"
        )
    return data.edge_weight * torch.where(got == 0, 1.0, wanted / torch.where(got == 0, 1.0, got))[receiver]
