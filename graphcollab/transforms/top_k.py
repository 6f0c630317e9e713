"""Keep the neighbours with the largest weights."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform

from graphcollab.settings import Natural
from graphcollab.transforms._edges import neighbor_rank
from graphcollab.transforms.sparsification import Sparsification

__all__ = ["TopK"]


@functional_transform("top_k_neighbors")
class TopK(Sparsification):
    r"""Keeps the ``k`` neighbours with the largest ``edge_weight`` (functional name: ``top_k_neighbors``).

    Every receiver keeps as many, and its self-loop if it has one. Among equal weights the sender with the smaller
    ``node_id`` is kept.

    Args:
        k: How many neighbours a receiver keeps (all, if it has fewer).
        renormalize: See :class:`~graphcollab.transforms.Sparsification`. Default: False.

    Shapes:
        ``edge_index``: [2, E] to [2, E'].

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [0, 0, 0, 0]])
        >>> data = Data(num_nodes=4, edge_index=edge_index, edge_weight=torch.tensor([0.1, 0.4, 0.2, 0.3]))
        >>> TopK(k=1, renormalize=True)(data).edge_weight
        tensor([0.2000, 0.8000])
    """

    def __init__(self, k: Natural, renormalize: bool = False) -> None:
        self.k = k
        super().__init__(renormalize)

    def keep(self, data: Data) -> Tensor:
        """Keep the k strongest of each receiver's neighbours."""
        return neighbor_rank(data)[0] < self.k
