"""Drop the edges that weigh nothing."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform

from graphcollab.transforms.sparsification import Sparsification

__all__ = ["DropZero"]


@functional_transform("drop_zero_edges")
class DropZero(Sparsification):
    r"""Removes the edges whose ``edge_weight`` is 0 (functional name: ``drop_zero_edges``).

    Self-loops stay.

    Shapes:
        ``edge_index``: [2, E] to [2, E'].

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[0, 1, 2], [0, 0, 0]])
        >>> data = Data(num_nodes=3, edge_index=edge_index, edge_weight=torch.tensor([0.0, 0.0, 1e-9]))
        >>> DropZero()(data).edge_index[0].tolist()
        [0, 2]
    """

    def __init__(self) -> None:
        super().__init__()

    def keep(self, data: Data) -> Tensor:
        """Keep the edges that weigh something."""
        return data.edge_weight != 0
