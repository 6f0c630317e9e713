"""Weights by the similarities that were just measured, the own model's included."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import softmax

from graphcollab.piece import Weigher

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["SoftmaxScores"]


@dataclass(frozen=True)
class SoftmaxScores(Weigher):
    r"""Softmax of the cosines measured in the round; a node's own model has the cosine 1.

    .. math::
        w_{ij} = \frac{e^{\tau s_i(j)}}{\sum_{l \in \{i\} \cup S_i} e^{\tau s_i(l)}}, \qquad s_i(i) = 1

    `FedSim` weighs peers by what was known when they were drawn, and gives the own model no more than the best of them;
    a node that has met only unlike peers then still takes half of its model from them. Here it keeps its own. This form
    is ours.

    Args:
        tau: τ.

    Shapes:
        Reads ``edge_score`` [E], cosines; writes ``edge_weight`` [E].

    Raises:
        ValueError: If τ is not a positive finite number, there are no scores, or one is above 1.

    Example:
        >>> import torch
        >>> data = Data(num_nodes=3, edge_index=torch.tensor([[0, 1, 2], [0, 0, 0]]))
        >>> data.edge_score = torch.tensor([torch.nan, 1.0, 0.0])
        >>> [round(w, 4) for w in SoftmaxScores(tau=10).weights(data, env=None).tolist()]
        [0.5, 0.5, 0.0]
    """

    tau: float = 30.0
    reads_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.tau < math.inf:
            raise ValueError(f"tau must be a positive finite number, got {self.tau}")

    def weights(self, data: Data, env: Env) -> Tensor:
        """Return the softmax over every receiver's edges."""
        if "edge_score" not in data:
            raise ValueError("SoftmaxScores needs `edge_score` [E], similarities measured in the round: give a metric")
        sender, receiver = data.edge_index
        score = data.edge_score.masked_fill(sender == receiver, 1.0)
        if bool((score > 1 + 1e-9).any()):
            raise ValueError(
                f"SoftmaxScores weighs by cosines, which are at most 1, got a similarity of {float(score.max()):g}: "
                "use CosineWeights() or CosineUpdates(), or weigh by FedSim()"
            )
        return softmax(self.tau * (score - 1), receiver, num_nodes=data.num_nodes)
