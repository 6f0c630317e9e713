"""Similarity by the loss of the sender's model on the receiver's samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.engine import Rows
from graphcollab.settings import Buffers, Positive
from graphcollab.typing import Env
from graphcollab.weigh.similarity import Similarity, width

__all__ = ["InverseLoss"]


@dataclass(frozen=True)
class InverseLoss(Similarity):
    r"""Inverse of the loss of the sender's model on the receiver's samples.

    From `With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies` (Hagander &
    Ihre-Thomason 2024), eq. 2.14:

    .. math::
        s_i(j) = \Big( \sum_{(x, y) \in D_i} \ell(x, y; w_j) \Big)^{-1}

    It is not symmetric. The model travels to the samples, never the other way. The sum is the text's; the authors' code
    takes the mean, so temperatures found with it are for ``reduction="mean"``.

    Args:
        split: Split of the receiver's samples: ``"train"`` (the paper's) or ``"val"``.
        reduction: ``"sum"`` or ``"mean"`` over samples.
        eps: Losses below it count as this much, so a loss of 0 has a finite inverse.
        buffers: The exchange's: ``"keep"`` judges with the receiver's own running statistics, as the mixed model will
            have, ``"average"`` with the sender's, which travel then. Between several architectures models are judged
            with their own, and these travel, in any case.

    Raises:
        ValueError: When scoring, if a receiver has no samples in the split or a loss is negative.

    Example:
        >>> InverseLoss(reduction="mean").needs
        ('train',)
    """

    travels: ClassVar[str] = "whole models, along every edge"
    unbounded: ClassVar[bool] = True

    split: Literal["train", "val"] = "train"
    reduction: Literal["sum", "mean"] = "sum"
    eps: Positive = 1e-12
    buffers: Buffers = "keep"

    @property
    def needs(self) -> tuple[str, ...]:
        """The split that losses are computed on."""
        return (self.split,)

    @property
    def agrees(self) -> dict[str, object]:
        """Models are judged as they are going to be mixed."""
        return {"buffers": self.buffers}

    def init(self, data: Data, env: Env) -> Data:
        """Do nothing: architectures need have nothing in common, since models travel to the samples as a whole."""
        return data

    def judging(self, buffers: Buffers) -> InverseLoss:
        """Return the metric that judges models as they are mixed."""
        return replace(self, buffers=buffers)

    def statistics(self, data: Data, stack: int) -> int:
        """Return how many numbers of running statistics travel with a model that is judged."""
        return width(data, "buffers", stack) if self._whole(data) and "buffers" in data.x.specs[stack].parts else 0

    def _whole(self, data: Data) -> bool:
        """Tell whether models are judged with their own running statistics."""
        return self.buffers == "average" or len(data.x.specs) > 1

    def scores(self, data: Data, env: Env, edge_index: Tensor) -> Tensor:
        """Return the inverse losses, [E'], float64; 0 where a loss is not finite."""
        sender, receiver = edge_index
        tasks = env.engine.tasks
        count = tasks.sizes(self.split)[receiver]
        if bool((count == 0).any()):
            tasks.require(self.split, "InverseLoss scores other nodes' models on")
        plain = self._whole(data)
        rows = Rows(data.x, receiver, sender) if plain else Rows.with_part_of(data.x, receiver, sender, "all")
        loss = env.plane.at_data(rows, lambda rows: env.engine.loss(rows, self.split)).double()
        if bool((loss < 0).any()):
            edge = int((loss < 0).nonzero()[0])
            raise ValueError(
                f"InverseLoss needs a loss that is never negative, got {float(loss[edge]):g} for the model of "
                f"{tasks.names[int(sender[edge])]} on the samples of {tasks.names[int(receiver[edge])]}: use a "
                "similarity of models, such as CosineWeights(), with this loss"
            )
        if self.reduction == "sum":
            loss = loss * count
        return torch.where(loss.isfinite(), 1 / loss.clamp(min=self.eps), 0.0)
