"""Weights near the nodes' shares of the data that also reward similarity: a projection onto the simplex."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab.ops import project_simplex
from graphcollab.piece import Weigher
from graphcollab.settings import Finite, Positive
from graphcollab.typing import Env
from graphcollab.weigh.self_loops import require_self_loops

__all__ = ["SimplexWeights"]


@dataclass(frozen=True)
class SimplexWeights(Weigher):
    r"""The best compromise between listening to those who are alike and to everybody by their data.

    .. math::
        w_i = \operatorname*{argmin}_{w \ge 0,\, \sum_j w_j = 1} \; -\sum_j w_j s_i(j) + \alpha \sum_j (w_j - p_j)^2
            = \Pi_\Delta \Big( p + \frac{s_i}{2 \alpha} \Big), \qquad s_i(i) = 1

    over the senders i hears in the round, itself included, with :math:`p_j = n_j / \sum_l n_l` of their training
    samples. The projection is exact; no solver is needed. Rows become sparse, and are not symmetric. α → ∞ is weighing
    by sample counts; α → 0 puts all weight on the most similar, the node itself among them.

    Args:
        alpha: α.
        snap: Similarities above it count as 1, so that a row jumps where a similarity crosses it; None: none do.

    Shapes:
        Reads ``edge_score`` [E], at most 1; every node needs a self-loop.

    Example:
        >>> SimplexWeights(alpha=0.8)
        SimplexWeights(alpha=0.8, snap=None)
    """

    alpha: Positive = 0.8
    snap: Finite | None = None

    @property
    def reads_scores(self) -> bool:
        """It does."""
        return True

    def init(self, data: Data, env: Env) -> Data:
        """Check that every node hears itself."""
        require_self_loops(data, env, "SimplexWeights gives a node's own model a similarity of 1")
        return data

    def weights(self, data: Data, env: Env) -> Tensor:
        """Return the weights of the round's edges."""
        sender, receiver = data.edge_index
        count = env.engine.tasks.sizes("train")[sender].double()
        share = count / scatter(count, receiver, dim_size=data.num_nodes)[receiver]
        score = data.edge_score.double().masked_fill(sender == receiver, 1.0)
        if self.snap is not None:
            score = torch.where(score > self.snap, 1.0, score)
        return project_simplex(share + score / (2 * self.alpha), receiver, data.num_nodes)
