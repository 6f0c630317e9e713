"""Weights in proportion to similarity, where a node keeps what is left for its own model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab.piece import Weigher
from graphcollab.settings import Positive
from graphcollab.typing import Env
from graphcollab.weigh.self_loops import require_self_loops

__all__ = ["RemainderWeights"]


@dataclass(frozen=True)
class RemainderWeights(Weigher):
    r"""Similarities times a number; what they leave of 1 is the own model's.

    .. math::
        w_{ij} = c \, s_i(j), \qquad w_{ii} = 1 - \sum_{j \ne i} w_{ij}

    Where similarities are symmetric, so are the weights, and columns sum to 1 too. The own weight is never negative:
    where the others' sum is above 1 they are divided by it, and the own model weighs nothing. Similarities below 0
    count as 0.

    Args:
        scale: c.

    Shapes:
        Reads ``edge_score`` [E]; every node needs a self-loop.

    Example:
        >>> import torch
        >>> data = Data(num_nodes=3, edge_index=torch.tensor([[0, 1, 2, 1, 2], [0, 0, 0, 1, 2]]))
        >>> data.edge_score = torch.tensor([torch.nan, 1.0, 0.2, torch.nan, torch.nan])
        >>> RemainderWeights(scale=0.5).weights(data, env=None)
        tensor([0.4000, 0.5000, 0.1000, 1.0000, 1.0000])
    """

    scale: Positive = 1.0

    @property
    def reads_scores(self) -> bool:
        """It does."""
        return True

    def init(self, data: Data, env: Env) -> Data:
        """Check that every node hears itself."""
        require_self_loops(data, env, "RemainderWeights gives a node's own model what the others leave")
        return data

    def weights(self, data: Data, env: Env) -> Tensor:
        """Return the weights of the round's edges."""
        sender, receiver = data.edge_index
        loop = sender == receiver
        weight = (self.scale * data.edge_score).masked_fill(loop, 0).clamp(min=0)
        total = scatter(weight, receiver, dim_size=data.num_nodes)
        own = (1 - total).clamp(min=0)[receiver]
        return torch.where(loop, own, weight / total.clamp(min=1)[receiver])
