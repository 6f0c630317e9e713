"""Transforms that drop edges by their weights."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform

from graphcollab._base.errors import ConflictError
from graphcollab._base.settings import Fraction, Natural, Real
from graphcollab.transforms._edges import (
    Transform,
    check_edges,
    edge_weights,
    neighbor_rank,
    select_edges,
    sort_edges,
)


class Sparsification(Transform):
    r"""Base class of transforms that drop edges by their ``edge_weight``.

    A self-loop is neither dropped nor counted. All fields of the remaining edges are kept aligned, and edges are sorted
    by receiver, then sender. A subclass implements :meth:`keep` only.

    Shapes:
        ``edge_index``: [2, E] to [2, E'] with E' at most E.
        ``edge_weight``: [E] to [E'].

    Example:
        >>> import torch
        >>> class Positive(Sparsification):
        ...     def keep(self, data: Data) -> Tensor:
        ...         return data.edge_weight > 0
        >>> data = Data(num_nodes=3, edge_index=torch.tensor([[1, 2], [0, 0]]), edge_weight=torch.tensor([0.0, 1.0]))
        >>> Positive()(data).edge_index.tolist()
        [[2], [0]]
    """

    @abstractmethod
    def keep(self, data: Data) -> Tensor:
        """Return a mask of the edges to keep. Self-loops are always kept.

        Shapes:
            Output: [E], bool.
        """

    def forward(self, data: Data) -> Data:
        """Return a shallow copy of ``data`` without the dropped edges."""
        check_edges(data, distinct=True)
        edge_weights(data)  # must have one number per edge
        sender, receiver = data.edge_index
        return sort_edges(select_edges(data, self.keep(data) | (sender == receiver)))


@functional_transform("top_k_neighbors")
class TopK(Sparsification):
    r"""Keep the ``k`` neighbors of every receiver with the largest ``edge_weight``, and its self-loop if it has one.

    For equal weights, the sender with the smaller ``node_id`` is kept. The functional name is ``top_k_neighbors``.

    Args:
        k: Number of neighbors that a receiver keeps (all, if it has fewer).
    """

    def __init__(self, k: Natural) -> None:
        self.k = k

    def keep(self, data: Data) -> Tensor:
        return neighbor_rank(data)[0] < self.k


@functional_transform("threshold_edges")
class Threshold(Sparsification):
    r"""Remove the edges whose ``edge_weight`` is below ``minimum`` (functional name: ``threshold_edges``).

    Args:
        minimum: The smallest weight to keep.
    """

    def __init__(self, minimum: Annotated[float, Real(infinite=True)]) -> None:
        self.minimum = float(minimum)

    def keep(self, data: Data) -> Tensor:
        return data.edge_weight >= self.minimum


@functional_transform("drop_weakest")
class DropWeakest(Sparsification):
    r"""Remove the neighbors with the smallest ``edge_weight`` (functional name: ``drop_weakest``).

    `"Learning to Collaborate in Decentralized Learning of Personalized Models"
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_ does so with :math:`K_0` neighbors of every receiver in round
    :math:`T_0`. For equal weights, the sender with the larger ``node_id`` is removed first.

    Args:
        count: Number of neighbors that a receiver loses (all, if it has fewer).
        fraction: Fraction of its neighbors that a receiver loses, rounded down to an integer. 0.9 of 99
            neighbors are 89, so 10 remain. Give either ``count`` or ``fraction``.

    Raises:
        ValueError: If both or none of ``count`` and ``fraction`` are given.
    """

    def __init__(self, count: Natural | None = None, fraction: Fraction | None = None) -> None:
        if (count is None) == (fraction is None):
            raise ConflictError(
                "count", f"DropWeakest: give exactly one of count and fraction, got count={count}, fraction={fraction}"
            )
        self.count = count
        self.fraction = fraction

    def keep(self, data: Data) -> Tensor:
        rank, many = neighbor_rank(data)
        if self.fraction is None:
            return rank < many - (self.count or 0)
        # The small addend makes 0.29 of 100 neighbors 29, although 0.29 * 100 is 28.999... in floating point.
        return rank < many - (self.fraction * many.double() + 1e-9).floor().long()
