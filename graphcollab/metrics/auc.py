"""Area under the ROC curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from graphcollab.metrics.metric import Metric

__all__ = ["AUC"]


@dataclass(frozen=True)
class AUC(Metric):
    r"""The area under the ROC curve of a binary task: how often a positive sample scores above a negative one.

    .. math::
        \mathrm{AUC} = \frac{\sum_{s \in +} r_s - P (P + 1) / 2}{P N}

    where :math:`r_s` is the rank of sample s among the node's scores (the mean rank where scores are equal), and P and
    N count the positive and negative samples.

    The value is NaN for a node that has samples of one class only, where the area is not defined, and for a node with a
    score that is NaN.

    Shapes:
        outputs: scores [R, n] or [R, n, 1], or two logits [R, n, 2], whose difference is the score of class 1.
        targets: [R, n] or [R, n, 1], 0 or 1.
        mask: [R, n], bool.
        Output: [R], float64, within 0 and 1, or NaN.

    Raises:
        ValueError: If the shapes do not belong together, or a target is neither 0 nor 1.

    Example:
        >>> scores = torch.tensor([[0.1, 0.4, 0.35, 0.8], [0.5, 0.5, 0.5, 9.0]])
        >>> mask = torch.tensor([[True, True, True, True], [True, True, True, False]])
        >>> AUC()(scores, torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]]), mask)
        tensor([0.7500, 0.5000], dtype=torch.float64)
    """

    name: str = "auc"
    higher_is_better: bool = True
    undefined: ClassVar[str] = "it needs samples of both classes"

    def measure(self, outputs: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        """Return the area of each row."""
        scores = self._scores(outputs)
        targets = targets.squeeze(2) if targets.dim() == 3 and targets.size(2) == 1 else targets
        if targets.dim() != 2:
            raise ValueError(f"{self.name}: targets must have shape [R, n] or [R, n, 1], got {list(targets.shape)}")
        strange = mask & (targets != 0) & (targets != 1)
        if bool(strange.any()):
            row = int(strange.any(dim=1).nonzero()[0])
            value = targets[row][strange[row]][0].item()
            raise ValueError(f"{self.name}: targets must be 0 or 1, but row {row} has a target {value}")
        # Padding sorts behind everything real; a real score of infinity that stands among it is put right by ``real``.
        padded = scores.masked_fill(~mask, torch.inf).contiguous()
        ordered = padded.sort(dim=1).values
        real = mask.sum(dim=1, keepdim=True)
        below = torch.searchsorted(ordered, padded, right=False)
        not_above = torch.searchsorted(ordered, padded, right=True).minimum(real)
        rank = (below + not_above + 1).double() / 2
        positive = mask & (targets == 1)
        positives = positive.sum(dim=1)
        negatives = real.view(-1) - positives
        wins = rank.where(positive, 0.0).sum(dim=1) - positives * (positives + 1) / 2
        # A node of one class only divides 0 by 0.
        area = wins / (positives * negatives)
        return area.masked_fill((scores.isnan() & mask).any(dim=1), torch.nan)

    def _scores(self, outputs: Tensor) -> Tensor:
        outputs = outputs.double()
        if outputs.dim() == 2:
            return outputs
        if outputs.dim() == 3 and outputs.size(2) == 1:
            return outputs.squeeze(2)
        if outputs.dim() == 3 and outputs.size(2) == 2:
            return outputs[:, :, 1] - outputs[:, :, 0]
        raise ValueError(
            f"{self.name}: outputs must be scores [R, n] or [R, n, 1], or two logits [R, n, 2], "
            f"got {list(outputs.shape)}; it is a metric of binary tasks"
        )
