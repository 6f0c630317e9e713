"""Cross-gradients combined as CGA does: the direction nearest to the own gradient that goes against no neighbour's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphcollab.local.combine import Combine
from graphcollab.ops import bundle_gram, bundle_sum, cone_coefficients
from graphcollab.settings import NonNegative

__all__ = ["ProjectedGradient"]


@dataclass(frozen=True)
class ProjectedGradient(Combine):
    r"""Project the own gradient onto the directions that increase no neighbour's loss.

    From `Cross-Gradient Aggregation for Decentralized Learning from Non-IID data (Esfandiari et al., ICML 2021)
    <https://arxiv.org/abs/2103.02051>`_. With :math:`g_j = \nabla f_j(x_i)`, what data of node j say at node i's model:

    .. math::
        \tilde g_i = g_i + \sum_{j \in N(i)} u_j g_j, \qquad
        u = \arg\min_{u \ge 0} \tfrac12 \Big\lVert g_i + \sum_j u_j g_j \Big\rVert^2

    which is the dual of :math:`\min_z \lVert z - g_i \rVert^2` over the z with :math:`\langle z, g_j \rangle \ge 0` for
    all j in N(i). The own gradient is no constraint of its own: for a projection onto a cone
    :math:`\langle \tilde g_i, g_i \rangle = \lVert \tilde g_i \rVert^2` holds anyway.

    The authors' code differs: it asks for :math:`u \ge 0.5` (``margin``), projects the gradient of every parameter
    tensor by itself (``per_layer``), and scales :math:`g_j` by the mixing weight :math:`\pi_{ij}`. Without a margin
    that scaling changes nothing; with one it is a margin of :math:`\pi_{ij}` times as much, so with uniform weights
    give ``margin=0.5 / (1 + number of neighbours)``.

    Args:
        margin: Lower bound of u. With a positive one the neighbours' gradients take part even where nothing conflicts,
            and the result is no projection any more.
        per_layer: Project parameter tensor by parameter tensor instead of all parameters at once.

    Example:
        >>> own, others = torch.tensor([[0.5, 0.0]]), torch.tensor([[[-0.5, 0.25]]])
        >>> ProjectedGradient()(own, others, [2])[0]
        tensor([[0.1000, 0.2000]])
    """

    margin: NonNegative = 0.0
    per_layer: bool = False

    def __call__(self, own: Tensor, others: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return directions [R, P] and coefficients [R, m + 1], the own gradient's first.

        Args:
            own: Own gradients, [R, P].
            others: Those of the m neighbours' data, [R, m, P].
            sizes: Number of columns of every parameter tensor. The coefficients of projections by layer are the mean
                over layers, weighted by their sizes.
        """
        sizes = list(sizes) if self.per_layer else [own.shape[1]]
        directions, total = [], own.new_zeros(len(own), others.shape[1] + 1, dtype=torch.float64)
        for mine, theirs in zip(own.split(sizes, 1), others.split(sizes, 2), strict=True):
            u = cone_coefficients(bundle_gram(mine, theirs), self.margin)
            coefficient = torch.cat([torch.ones_like(u[:, :1]), u], 1)
            directions.append(bundle_sum(coefficient, mine, theirs))
            total += coefficient * mine.shape[1]
        return torch.cat(directions, 1), total / own.shape[1]
