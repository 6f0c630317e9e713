"""Combination of gradients of several nodes' data into one direction."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from graphcollab._base.piece import Piece
from graphcollab._base.settings import Count, Fraction, NonNegative, Real
from graphcollab.nn.functional.projections import bundle_gram, bundle_sum, cone_coefficients


@dataclass(frozen=True)
class Combine(Piece, ABC):
    """Combine a node's own gradient and those of its neighbors' data into a direction."""

    @abstractmethod
    def __call__(
        self, own: Tensor, others: Tensor, sizes: Sequence[int], lost: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return directions [R, P] and the coefficients of the gradients in them, the own one first, [R, m + 1].

        Both stay on the gradients' device, without synchronization.

        Args:
            own: Gradients of the node's own data, one per receiver, [R, P].
            others: Gradients of the data of its m neighbors, at the same model, [R, m, P].
            sizes: Number of columns of every parameter tensor among the P.
            lost: Which of the others were not finite, a mask [R, m]; the own gradient stands in their place, and they
                are left out. Default: none.
        """


@dataclass(frozen=True)
class ClippedMean(Combine):
    r"""Average the gradients that are near, and replace all others by the current average.

    With :math:`g_j = \nabla f_j(x_i)` for the n nodes that are i and its neighbors:

    .. math::
        v \leftarrow g_i, \qquad \text{then, } M \text{ times,} \qquad
        v \leftarrow \frac1n \sum_j \begin{cases}
            g_j & \lVert g_j - v \rVert \le \tau \\
            v & \text{else}
        \end{cases}

    v is always a weighted mean of the :math:`g_j`, so the inner products of the gradients, computed once, are
    sufficient; distances that differ by rounding count as equal. Without τ, it is in every step the distance of rank
    :math:`\lfloor n q \rfloor`, counted from 0, from v to the n gradients, as in the authors' code. With
    :math:`q < 1 / n` a node uses only its own gradient. See `fc`.

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

    def __call__(
        self, own: Tensor, others: Tensor, sizes: Sequence[int], lost: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        gram = bundle_gram(own, others, centered=True)  # [R, n, n]; distances do not depend on the center
        square = gram.diagonal(dim1=1, dim2=2)
        there = torch.ones_like(square, dtype=torch.bool)  # [R, n]
        if lost is not None:
            there[:, 1:] = ~lost
        n = there.sum(1, keepdim=True)
        alpha = torch.zeros_like(square)
        alpha[:, 0] = 1
        for _ in range(self.iterations):
            product = (gram @ alpha[:, :, None])[:, :, 0]  # ⟨g_j, v⟩
            length = (alpha * product).sum(1, keepdim=True)  # ‖v‖²
            distance = (square - 2 * product + length).clamp(min=0)
            limit = self._limit(distance.where(there, math.inf), n) + 8 * torch.finfo(own.dtype).eps * (square + length)
            near = ((distance <= limit) & there).to(alpha.dtype)
            alpha = (near + (n - near.sum(1, keepdim=True)) * alpha) / n
        return bundle_sum(alpha, own, others), alpha

    def _limit(self, distance: Tensor, count: Tensor) -> Tensor | float:
        """Return τ², or one per row, [R, 1], given squared distances [R, n], of which ``count`` [R, 1] are finite."""
        if self.tau is not None:
            return math.inf if math.isinf(self.tau) else self.tau**2
        return distance.sort(1).values.gather(1, (count.double() * self.quantile).long().minimum(count - 1))


@dataclass(frozen=True)
class ProjectedGradient(Combine):
    r"""Project the own gradient onto the directions that increase no neighbor's loss.

    With :math:`g_j = \nabla f_j(x_i)`, the gradient of node j's data at node i's model:

    .. math::
        \tilde g_i = g_i + \sum_{j \in N(i)} u_j g_j, \qquad
        u = \arg\min_{u \ge 0} \tfrac12 \Big\lVert g_i + \sum_j u_j g_j \Big\rVert^2

    which is the dual of :math:`\min_z \lVert z - g_i \rVert^2` over the z with :math:`\langle z, g_j \rangle \ge 0` for
    all j in N(i). The own gradient needs no constraint:
    :math:`\langle \tilde g_i, g_i \rangle = \lVert \tilde g_i \rVert^2` holds anyway. See `cga`.

    Args:
        margin: Lower bound of u. With a positive value, the neighbors' gradients are added even without conflicts, and
            the result is no longer a projection.
        per_layer: Project each parameter tensor separately instead of all parameters at once.

    Example:
        >>> own, others = torch.tensor([[0.5, 0.0]]), torch.tensor([[[-0.5, 0.25]]])
        >>> ProjectedGradient()(own, others, [2])[0]
        tensor([[0.1000, 0.2000]])
    """

    margin: NonNegative = 0.0
    per_layer: bool = False

    def __call__(
        self, own: Tensor, others: Tensor, sizes: Sequence[int], lost: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """With ``per_layer``, coefficients are averaged over layers, weighted by the sizes."""
        sizes = list(sizes) if self.per_layer else [own.shape[1]]
        directions = []
        total = torch.zeros(len(own), others.shape[1] + 1, dtype=torch.float64, device=own.device)
        for mine, theirs in zip(own.split(sizes, 1), others.split(sizes, 2), strict=True):
            u = cone_coefficients(bundle_gram(mine, theirs), self.margin)
            coefficient = torch.cat([torch.ones_like(u[:, :1]), u], 1)
            directions.append(bundle_sum(coefficient, mine, theirs))
            total += coefficient * mine.shape[1]
        return torch.cat(directions, 1), total / own.shape[1]
