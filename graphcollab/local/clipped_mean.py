"""Cross-gradients combined as federated clustering does: a mean of those that are near, found step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from graphcollab.local.combine import Combine
from graphcollab.ops import bundle_gram, bundle_sum
from graphcollab.settings import Count, Fraction, Real

__all__ = ["ClippedMean"]


@dataclass(frozen=True)
class ClippedMean(Combine):
    r"""Average the gradients that lie near, and put the average so far in place of the others.

    The threshold-clustering procedure of `Provably Personalized and Robust Federated Learning (Werner et al., TMLR
    2023) <https://arxiv.org/abs/2306.08393>`_. With :math:`g_j = \nabla f_j(x_i)` for the n nodes that are i and its
    neighbours:

    .. math::
        v \leftarrow g_i, \qquad \text{then, } M \text{ times,} \qquad
        v \leftarrow \frac1n \sum_j \begin{cases}
            g_j & \lVert g_j - v \rVert \le \tau \\
            v & \text{else}
        \end{cases}

    v is always :math:`\sum_j \alpha_j g_j` with :math:`\alpha \ge 0` and :math:`\sum_j \alpha_j = 1`, so inner products
    of the gradients, taken once, are all it needs; distances that differ by rounding count as equal.

    Without τ, it is in every step the distance of rank :math:`\lfloor n q \rfloor`, counted from 0, from v to the n
    gradients, as in the authors' code: :math:`\lfloor n q \rfloor + 1` gradients lie within it. So for clusters of c
    nodes known beforehand give ``quantile=(c - 0.5) / n``, the share of a node's own cluster less half a node. With
    :math:`q < 1 / n` a node hears nobody but itself.

    Args:
        tau: τ. 0 is local training, ``math.inf`` the mean of all gradients. Default: by the quantile.
        quantile: q.
        iterations: M.

    Example:
        >>> own, others = torch.tensor([[1.0]]), torch.tensor([[[1.1], [5.0]]])
        >>> ClippedMean(tau=0.5, iterations=1)(own, others, [1])[0]
        tensor([[1.0333]])
        >>> ClippedMean(tau=0.5, iterations=50)(own, others, [1])[0]
        tensor([[1.0500]])
    """

    tau: Annotated[float, Real(least=0, infinite=True)] | None = None
    quantile: Fraction = 0.2
    iterations: Count = 10

    def __call__(self, own: Tensor, others: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return directions [R, P] and coefficients [R, m + 1], the own gradient's first.

        Args:
            own: Own gradients, [R, P].
            others: Those of the m neighbours' data, [R, m, P].
            sizes: Not used.
        """
        gram = bundle_gram(own, others, centred=True)  # [R, n, n]; distances do not depend on the centre
        square, n = gram.diagonal(dim1=1, dim2=2), gram.shape[1]
        alpha = torch.zeros_like(square)
        alpha[:, 0] = 1
        for _ in range(self.iterations):
            product = (gram @ alpha[:, :, None])[:, :, 0]  # ⟨g_j, v⟩
            length = (alpha * product).sum(1, keepdim=True)  # ‖v‖²
            distance = (square - 2 * product + length).clamp(min=0)
            limit = self._limit(distance) + 8 * torch.finfo(own.dtype).eps * (square + length)
            near = (distance <= limit).to(alpha.dtype)
            alpha = (near + (n - near.sum(1, keepdim=True)) * alpha) / n
        return bundle_sum(alpha, own, others), alpha

    def _limit(self, distance: Tensor) -> Tensor | float:
        """Return τ², or one per row, [R, 1], given squared distances [R, n]."""
        if self.tau is not None:
            return math.inf if math.isinf(self.tau) else self.tau**2
        n = distance.shape[1]
        return distance.sort(1).values[:, min(int(n * self.quantile), n - 1), None]
