"""Metrics of predicted classes, and of the order in which scores put samples."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab.metrics.metric import Metric, row_mean

__all__ = ["accuracy", "auc"]


def _accuracy(outputs: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    if outputs.dim() == 2:
        outputs = outputs.unsqueeze(2)
    if targets.shape == outputs.shape and outputs.size(2) == 1:
        targets = targets.squeeze(2)
    predicted = outputs.argmax(dim=2) if outputs.size(2) > 1 else (outputs > 0).long().squeeze(2)
    if predicted.shape != targets.shape:
        raise ValueError(
            "accuracy: outputs [R, n, C, ...] and targets [R, n, ...] do not belong together, "
            f"got {list(outputs.shape)} and {list(targets.shape)}"
        )
    return row_mean(predicted == targets, mask)


accuracy = Metric("accuracy", True, _accuracy)
"""The share of samples whose predicted class is the true one.

Outputs [R, n, C, ...] with C classes are read as PyTorch's cross-entropy reads them: classes are the dimension after
the samples. Outputs [R, n] without classes, or with one, [R, n, 1], are read as logits of class 1 in a binary task.
Targets [R, n, ...] are class indices, with one output also [R, n, 1].
"""


def _auc(outputs: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    scores = outputs.double()
    if scores.dim() == 3 and scores.size(2) == 1:
        scores = scores.squeeze(2)
    elif scores.dim() == 3 and scores.size(2) == 2:
        scores = scores[:, :, 1] - scores[:, :, 0]
    if scores.dim() != 2:
        raise ValueError(
            "auc: outputs must be scores [R, n] or [R, n, 1], or two logits [R, n, 2], "
            f"got {list(outputs.shape)}; it is a metric of binary tasks"
        )
    targets = targets.squeeze(2) if targets.dim() == 3 and targets.size(2) == 1 else targets
    if targets.dim() != 2:
        raise ValueError(f"auc: targets must have shape [R, n] or [R, n, 1], got {list(targets.shape)}")
    strange = mask & (targets != 0) & (targets != 1)
    if bool(strange.any()):
        row, sample = strange.nonzero()[0].tolist()
        raise ValueError(f"auc: targets must be 0 or 1, but row {row} has a target {targets[row, sample].item()}")
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


auc = Metric("auc", True, _auc, undefined="it needs samples of both classes")
r"""The area under the ROC curve of a binary task: how often a positive sample scores above a negative one.

.. math::
    \mathrm{AUC} = \frac{\sum_{s \in +} r_s - P (P + 1) / 2}{P N}

where :math:`r_s` is the rank of sample s among the node's scores (the mean rank where scores are equal), and P and N
count the positive and negative samples. The value is NaN for a node that has samples of one class only, where the area
is not defined, and for a node with a score that is NaN.

Outputs are scores [R, n] or [R, n, 1], or two logits [R, n, 2], whose difference is the score of class 1. Targets
[R, n] or [R, n, 1] are 0 or 1; others are an error.
"""
