"""Drop the edges whose weights are too small."""

from __future__ import annotations

from typing import Annotated

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform

from graphcollab.settings import Real
from graphcollab.transforms.sparsification import Sparsification

__all__ = ["Threshold"]


@functional_transform("threshold_edges")
class Threshold(Sparsification):
    r"""Removes the edges whose ``edge_weight`` is below ``minimum`` (functional name: ``threshold_edges``).

    Self-loops stay.

    Args:
        minimum: The smallest weight that is kept.
        renormalize: See :class:`~graphcollab.transforms.Sparsification`. Default: False.

    Shapes:
        ``edge_index``: [2, E] to [2, E'].

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [0, 0, 0, 0]])
        >>> data = Data(num_nodes=4, edge_index=edge_index, edge_weight=torch.tensor([0.1, 0.4, 0.2, 0.3]))
        >>> Threshold(minimum=0.25)(data).edge_index[0].tolist()
        [0, 1, 3]
    """

    def __init__(self, minimum: Annotated[float, Real(infinite=True)], renormalize: bool = False) -> None:
        self.minimum = float(minimum)
        super().__init__(renormalize)

    def keep(self, data: Data) -> Tensor:
        """Keep the edges with at least the smallest weight allowed."""
        return data.edge_weight >= self.minimum
