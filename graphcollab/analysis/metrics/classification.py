"""Classification metrics, and rank metrics of scores for classes or possibly censored times."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from graphcollab._base.errors import RangeError, ShapeError
from graphcollab.analysis.metrics.metric import IGNORED, Metric, row_mean

MOST_PAIRS = 2**22  # evaluated at once


def counted_classes(name: str, targets: Tensor, mask: Tensor, classes: int) -> Tensor:
    """Return a mask of the targets [R, n, ...] that count: real samples, not `IGNORED`; reject invalid classes."""
    counted = mask.reshape(*mask.shape, *[1] * (targets.dim() - 2)) & (targets != IGNORED)
    strange = counted & ((targets < 0) | (targets >= classes) | (targets != targets.long()))
    if targets.device.type == "cpu" and bool(strange.any()):  # on a GPU the check would synchronize; runs have done it
        row, found = int(strange.nonzero()[0, 0]), targets[strange][0].item()
        raise RangeError(
            "targets", f"{name}: targets must be classes from 0 to {classes - 1}, but row {row} has {found}"
        )
    return counted


def as_classes(name: str, outputs: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return outputs [R, n, C, ...] (one logit: C = 1), classes [R, n, ...], and a mask of those that count."""
    outputs = outputs.unsqueeze(2) if outputs.dim() == 2 else outputs
    targets = targets.squeeze(2) if targets.shape == outputs.shape and outputs.size(2) == 1 else targets
    if (*outputs.shape[:2], *outputs.shape[3:]) != targets.shape:
        raise ShapeError(
            "outputs",
            f"{name} needs outputs [R, n, C, ...] and targets [R, n, ...], got {[*outputs.shape]}, {[*targets.shape]}",
        )
    return outputs, targets, counted_classes(name, targets, mask, max(outputs.size(2), 2))


def _accuracy(outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    outputs, targets, counted = as_classes("accuracy", outputs, targets, mask)
    predicted = outputs.argmax(dim=2) if outputs.size(2) > 1 else (outputs > 0).long().squeeze(2)
    return row_mean(predicted == targets, weight, counted)


accuracy = Metric(
    "accuracy",
    True,
    _accuracy,
    weighted=True,
    losses=("cross_entropy", "bce"),
    is_share=True,
    explanation="the share of rows that are predicted right",
)
"""The share of samples whose predicted class is the true one.

Outputs [R, n, C, ...] with C classes are interpreted as in PyTorch's cross-entropy: the dimension after the samples is
the class. Outputs [R, n], or [R, n, 1], are interpreted as logits of class 1 in a binary task. Targets [R, n, ...] are
class indices, with one output also [R, n, 1]. All classification metrics ignore targets equal to -100, or to the loss's
``ignore_index``. Other targets are an error.
"""


def _auc(outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    scores = outputs.double()
    if scores.dim() == 3 and scores.size(2) == 1:
        scores = scores.squeeze(2)
    elif scores.dim() == 3 and scores.size(2) == 2:
        scores = scores[:, :, 1] - scores[:, :, 0]
    if scores.dim() != 2:
        raise ShapeError(
            "outputs", f"auc needs scores [R, n] or [R, n, 1], or two logits [R, n, 2], got {list(outputs.shape)}"
        )
    targets = targets.squeeze(2) if targets.dim() == 3 and targets.size(2) == 1 else targets
    if targets.dim() != 2:
        raise ShapeError("targets", f"auc: targets must have shape [R, n] or [R, n, 1], got {list(targets.shape)}")
    mask = counted_classes("auc", targets, mask, 2)
    weight = weight.where(mask, 0.0)
    padded = scores.masked_fill(~mask, torch.inf).contiguous()  # its position is irrelevant, since its weight is 0
    ordered, order = padded.sort(dim=1)
    positive, negative = weight.where(targets == 1, 0.0), weight.where(targets == 0, 0.0)
    # [R, n + 1]: total weight of the negative samples with the k lowest scores
    weight_of_lowest = functional.pad(negative.gather(1, order).cumsum(dim=1), (1, 0))
    below = weight_of_lowest.gather(1, torch.searchsorted(ordered, padded, right=False))
    not_above = weight_of_lowest.gather(1, torch.searchsorted(ordered, padded, right=True))
    wins = (positive * (below + not_above)).sum(dim=1) / 2
    # For a node with one class, this just divides 0 by 0.
    area = wins / (positive.sum(dim=1) * negative.sum(dim=1))
    return area.masked_fill((scores.isnan() & mask).any(dim=1), torch.nan)


auc = Metric(
    "auc",
    True,
    _auc,
    undefined="it needs samples of both classes",
    weighted=True,
    losses=("cross_entropy", "bce", "mse", "poisson"),  # it needs only an order
    is_share=True,
    title="AUC",
    explanation="the chance that of two rows of different classes the right one has the higher probability",
)
r"""The area under the ROC curve of a binary task: the probability that a positive sample outscores a negative one.

.. math::
    \mathrm{AUC} = \frac{\sum_{s \in +} \sum_{t \in -} w_s w_t \big([f_s > f_t] + \frac12 [f_s = f_t]\big)}
        {\sum_{s \in +} w_s \sum_{t \in -} w_t}

over the positive and the negative samples of a node, with scores f and weights w (1 by default). The value is NaN for
nodes with samples of only one class, where the area is undefined, and for nodes with a NaN score.

Outputs are scores [R, n] or [R, n, 1], or two logits [R, n, 2], whose difference is the score of class 1. Targets
[R, n] or [R, n, 1] are 0 or 1; others are an error.
"""


def _concordance(outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    if targets.dim() != 3 or targets.shape[2] != 2 or outputs[0:, :, None].flatten(2).shape[2] != 1:
        raise ShapeError(
            "targets",
            "concordance needs scores [R, n] or [R, n, 1], and times with events [R, n, 2], got "
            f"{list(outputs.shape)} and {list(targets.shape)}",
        )
    scores = outputs.double().reshape(mask.shape)
    time, event = targets.double().where(mask[:, :, None], 0.0).unbind(2)  # [R, n]
    won, pairs = (torch.zeros(len(mask), dtype=torch.float64, device=outputs.device) for _ in range(2))
    for some in torch.arange(mask.shape[1]).split(max(1, MOST_PAIRS // max(mask.numel(), 1))):
        first, seen, score, own = (values[:, some, None] for values in (time, event, scores, weight))
        later = (first < time[:, None]) | ((first == time[:, None]) & (event[:, None] == 0))  # [R, some, n]
        counts = (later & (seen > 0)) * own * weight[:, None]
        above = (score > scores[:, None]) + 0.5 * (score == scores[:, None])
        won, pairs = won + (counts * above).sum((1, 2)), pairs + counts.sum((1, 2))
    return (won / pairs).masked_fill((scores.isnan() & mask).any(1), torch.nan)


concordance = Metric(
    "concordance",
    True,
    _concordance,
    undefined="it needs an event before the time of another sample",
    weighted=True,
    is_share=True,
    losses=("cox",),
    explanation="the share of pairs of which the one with the earlier event has the higher risk",
)
r"""Harrell's C: the share of comparable pairs of samples in which the earlier event has the higher score.

Pairs are comparable if the earlier time is that of an event; if times are equal, exactly one must be an event. Equal
scores count one half, so that 0.5 is chance. The value is NaN for nodes without comparable pairs or with a NaN score.

Outputs are scores [R, n] or [R, n, 1], larger for earlier events. Targets [R, n, 2] are times, and 1 if the event was
observed at that time, or 0 if the time is censored.
"""
