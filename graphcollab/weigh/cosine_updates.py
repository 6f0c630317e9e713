"""Similarity by the angle between what two models have learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.control.allowed import parts_apart
from graphcollab.settings import Fraction
from graphcollab.typing import Env
from graphcollab.weigh.similarity import Similarity, width

__all__ = ["CosineUpdates"]


@dataclass(frozen=True)
class CosineUpdates(Similarity):
    r"""Cosine of the last local updates, of the changes since the start of the run, or a mix of both.

    From `With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies` (Hagander &
    Ihre-Thomason 2024), eq. 2.15 to 2.17, where it is called the cosine similarity of gradients:

    .. math::
        s_i(j) = s_j(i) = \alpha \cos(w_i^t - w_i^{t-1}, w_j^t - w_j^{t-1})
        + (1 - \alpha) \cos(w_i^t - w_i^0, w_j^t - w_j^0)

    with w^{t-1} the models before the last local update. The text's experiments have α = 1 ("Cos grad"); the authors'
    code has the second term only whatever α is, so its results are those of ``alpha=0``.

    A node that `EarlyStopping` has stopped has no last update; what led to its best model stands in for it.

    Args:
        alpha: α, from 0 (the change since the start alone) to 1 (the last update alone).
        part: Part of the model that is compared; nodes of different architectures must share it.

    Example:
        >>> CosineUpdates(alpha=0.5)
        CosineUpdates(alpha=0.5, part='all')
    """

    travels: ClassVar[str] = "the part that is compared, along every edge; with α > 0 its last update, too"

    alpha: Fraction = 1.0
    part: str = "all"

    def payload(self, data: Data) -> int:
        """Return P_part where the last updates are compared: a model does not tell from where its node set out.

        The change since the start follows from the model, as all nodes start from the same one.
        """
        return width(data, self.part) if self.alpha > 0 else 0

    def scores(self, data: Data, env: Env, edge_index: Tensor) -> Tensor:
        """Return the mix of cosines, [E'], float64; a change that is zero or not finite has the cosine 0."""
        terms = [(self.alpha, "x_start"), (1 - self.alpha, "x_init")]
        return sum(
            (share * self._cosines(data, env, edge_index, since) for share, since in terms if share),
            start=edge_index.new_zeros(edge_index.shape[1]).double(),
        )

    def _cosines(self, data: Data, env: Env, edge_index: Tensor, since: str) -> Tensor:
        """Return the cosines of the changes since ``x_start`` or ``x_init``, [E']."""
        change = data.x.part(self.part) - data[since].part(self.part)
        if since == "x_start" and "stopped" in data:  # a node that rests has learned nothing in this round
            last = data.best_x.part(self.part) - data.best_start.part(self.part)
            change = torch.where(env.plane.mine(data.stopped)[:, None], last, change)
        return env.plane.cosines(change, change, edge_index, parts_apart(data)).nan_to_num(0.0)
