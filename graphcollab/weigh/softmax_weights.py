"""Weights by the similarities that were just measured, the own model's included."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import softmax

from graphcollab.piece import Weigher
from graphcollab.settings import Fraction, Positive
from graphcollab.typing import Env
from graphcollab.weigh.self_loops import require_self_loops

__all__ = ["SoftmaxWeights"]


@dataclass(frozen=True)
class SoftmaxWeights(Weigher):
    r"""Softmax of the cosines measured in the round.

    .. math::
        w_{ij} = \frac{e^{\tau s_i(j)}}{\sum_{l \in \{i\} \cup S_i} e^{\tau s_i(l)}}, \qquad s_i(i) = 1

    `SimilarityWeights` weighs peers by what was known when they were drawn, and gives the own model no more than the
    best of them; a node that has met only unlike peers then still takes half of its model from them. Here it keeps its
    own. This form is ours. With a constant ``own`` weight the softmax is over the others alone, and a node that hears
    nobody keeps its own model.

    Args:
        tau: τ.
        own: Weight of the own model. Default: the softmax's.

    Shapes:
        Reads ``edge_score`` [E], at most 1; writes ``edge_weight`` [E].

    Raises:
        ValueError: If there are no scores, or one is above 1.

    Example:
        >>> data = Data(num_nodes=3, edge_index=torch.tensor([[0, 1, 2], [0, 0, 0]]))
        >>> data.edge_score = torch.tensor([torch.nan, 1.0, 0.0])
        >>> [round(w, 4) for w in SoftmaxWeights(tau=10).weights(data, env=None).tolist()]
        [0.5, 0.5, 0.0]
    """

    tau: Positive = 30.0
    own: Fraction | None = None

    @property
    def reads_scores(self) -> bool:
        """It does."""
        return True

    def init(self, data: Data, env: Env) -> Data:
        """Check that every node hears itself, where its own model has a weight of its own."""
        if self.own is not None:
            require_self_loops(data, env, f"SoftmaxWeights gives a node's own model the weight own={self.own:g}")
        return data

    def weights(self, data: Data, env: Env) -> Tensor:
        """Return the softmax over every receiver's edges."""
        if "edge_score" not in data:
            raise ValueError("SoftmaxWeights needs `edge_score` [E], similarities measured in the round: give a metric")
        sender, receiver = data.edge_index
        loop = sender == receiver
        score = data.edge_score.masked_fill(loop, 1.0)
        if bool((score > 1 + 1e-9).any()):
            raise ValueError(
                f"SoftmaxWeights weighs by cosines, which are at most 1, got a similarity of {float(score.max()):g}: "
                "use CosineWeights() or CosineUpdates(), or weigh by SimilarityWeights()"
            )
        if self.own is None:
            return softmax(self.tau * (score - 1), receiver, num_nodes=data.num_nodes)
        others = softmax((self.tau * (score - 1)).masked_fill(loop, -torch.inf), receiver, num_nodes=data.num_nodes)
        heard = torch.bincount(receiver, minlength=data.num_nodes)[receiver] > 1
        own = torch.full_like(others, self.own).masked_fill(~heard, 1.0)  # where(heard, 0.3, 1.0) would be float32
        return torch.where(loop, own, (1 - self.own) * others)
