"""Drop the neighbours with the smallest weights."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform

from graphcollab.settings import Fraction, Natural
from graphcollab.transforms._edges import neighbor_rank
from graphcollab.transforms.sparsification import Sparsification

__all__ = ["DropWeakest"]


@functional_transform("drop_weakest")
class DropWeakest(Sparsification):
    r"""Removes the neighbours with the smallest ``edge_weight`` (functional name: ``drop_weakest``).

    So does `"Learning to Collaborate in Decentralized Learning of Personalized Models"
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_
    with :math:`K_0` neighbours of every receiver in round :math:`T_0`.

    Self-loops are neither dropped nor counted. Among equal weights the sender with the larger ``node_id`` goes first.

    Args:
        count: How many neighbours a receiver loses (all, if it has fewer).
        fraction: Which fraction of its neighbours a receiver loses, rounded down to whole neighbours. 0.9 of 99
            neighbours are 89, so 10 stay. Give either ``count`` or ``fraction``.
        renormalize: See :class:`~graphcollab.transforms.Sparsification`. Default: False.

    Shapes:
        ``edge_index``: [2, E] to [2, E'].

    Raises:
        ValueError: If both or none of ``count`` and ``fraction`` are given.

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [0, 0, 0, 0]])
        >>> data = Data(num_nodes=4, edge_index=edge_index, edge_weight=torch.tensor([0.1, 0.4, 0.2, 0.3]))
        >>> DropWeakest(count=1)(data).edge_index[0].tolist()
        [0, 1, 3]
    """

    def __init__(
        self, count: Natural | None = None, fraction: Fraction | None = None, renormalize: bool = False
    ) -> None:
        if (count is None) == (fraction is None):
            raise ValueError(
                f"DropWeakest: give exactly one of count and fraction, got count={count}, fraction={fraction}"
            )
        self.count = count
        self.fraction = fraction
        super().__init__(renormalize)

    def keep(self, data: Data) -> Tensor:
        """Keep the strongest of each receiver's neighbours, as many as are not to be dropped."""
        rank, degree = neighbor_rank(data)
        dropped: Tensor | int = 0
        if self.count is not None:
            dropped = self.count
        if self.fraction is not None:
            # The small addend makes 0.29 of 100 neighbours 29, although 0.29 * 100 is 28.999... in floating point.
            dropped = (self.fraction * degree.double() + 1e-9).floor().long()
        return rank < degree - dropped
