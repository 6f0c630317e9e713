"""Transforms that drop edges by their weights."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.utils import scatter

from graphcollab.errors import ConflictError
from graphcollab.settings import Fraction, Natural, Real
from graphcollab.transforms._edges import (
    Transform,
    check_edges,
    check_no_duplicates,
    edge_weights,
    neighbor_rank,
    node_count,
    select_edges,
    sort_edges,
)


class Sparsification(Transform):
    r"""Base class of transforms that drop edges by their ``edge_weight``.

    A self-loop is neither dropped nor counted. All fields of the edges that stay are kept aligned, and edges are sorted
    by receiver, then sender. A subclass writes :meth:`keep` only.

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
        raise ConflictError(
            "renormalize",
            f"the weights that receiver {node} keeps sum to 0 and cannot be scaled to {float(wanted[node]):g}, their "
            "sum before; keep more neighbours, or use renormalize=False",
        )
    return data.edge_weight * torch.where(got == 0, 1.0, wanted / torch.where(got == 0, 1.0, got))[receiver]


@functional_transform("top_k_neighbors")
class TopK(Sparsification):
    r"""Keeps the ``k`` neighbours of every receiver with the largest ``edge_weight``, and its self-loop if it has one.

    Among equal weights the sender with the smaller ``node_id`` is kept. The functional name is ``top_k_neighbors``.

    Args:
        k: How many neighbours a receiver keeps (all, if it has fewer).
        renormalize: See `Sparsification`. Default: False.
    """

    def __init__(self, k: Natural, renormalize: bool = False) -> None:
        self.k = k
        super().__init__(renormalize)

    def keep(self, data: Data) -> Tensor:
        """Keep the k strongest of each receiver's neighbours."""
        return neighbor_rank(data)[0] < self.k


@functional_transform("threshold_edges")
class Threshold(Sparsification):
    r"""Removes the edges whose ``edge_weight`` is below ``minimum`` (functional name: ``threshold_edges``).

    Args:
        minimum: The smallest weight that is kept.
        renormalize: See `Sparsification`. Default: False.
    """

    def __init__(self, minimum: Annotated[float, Real(infinite=True)], renormalize: bool = False) -> None:
        self.minimum = float(minimum)
        super().__init__(renormalize)

    def keep(self, data: Data) -> Tensor:
        """Keep the edges with at least the smallest weight allowed."""
        return data.edge_weight >= self.minimum


@functional_transform("drop_weakest")
class DropWeakest(Sparsification):
    r"""Removes the neighbours with the smallest ``edge_weight`` (functional name: ``drop_weakest``).

    So does `"Learning to Collaborate in Decentralized Learning of Personalized Models"
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_ with :math:`K_0` neighbours of every receiver in round :math:`T_0`.
    Among equal weights the sender with the larger ``node_id`` goes first.

    Args:
        count: How many neighbours a receiver loses (all, if it has fewer).
        fraction: Which fraction of its neighbours a receiver loses, rounded down to whole neighbours. 0.9 of 99
            neighbours are 89, so 10 stay. Give either ``count`` or ``fraction``.
        renormalize: See `Sparsification`. Default: False.

    Raises:
        ValueError: If both or none of ``count`` and ``fraction`` are given.
    """

    def __init__(
        self, count: Natural | None = None, fraction: Fraction | None = None, renormalize: bool = False
    ) -> None:
        if (count is None) == (fraction is None):
            raise ConflictError(
                "count", f"DropWeakest: give exactly one of count and fraction, got count={count}, fraction={fraction}"
            )
        self.count = count
        self.fraction = fraction
        super().__init__(renormalize)

    def keep(self, data: Data) -> Tensor:
        """Keep the strongest of each receiver's neighbours, as many as are not to be dropped."""
        rank, many = neighbor_rank(data)
        if self.fraction is None:
            return rank < many - (self.count or 0)
        # The small addend makes 0.29 of 100 neighbours 29, although 0.29 * 100 is 28.999... in floating point.
        return rank < many - (self.fraction * many.double() + 1e-9).floor().long()
