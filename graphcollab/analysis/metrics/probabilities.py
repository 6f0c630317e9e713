"""Metrics of predicted probabilities: their quality and calibration.

Outputs are interpreted as in `accuracy`: [R, n, C, ...] are logits of C classes, and [R, n] or [R, n, 1] logits of
class 1 in a binary task. Probabilities are their softmax, or sigmoid, so log-probabilities are valid, too. Targets
[R, n, ...] are class indices; those that the loss ignores are ignored.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from graphcollab.analysis.metrics.classification import as_classes
from graphcollab.analysis.metrics.metric import Metric, row_mean

BINS = 15  # number of bins of `ece`


def _log_probabilities(name: str, outputs: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probabilities [R, n, C, ...], float64, classes [R, n, ...], 0 if ignored, and a mask of the others."""
    outputs, targets, counted = as_classes(name, outputs.double(), targets, mask)
    if outputs.size(2) == 1:
        log_p = torch.cat([functional.logsigmoid(-outputs), functional.logsigmoid(outputs)], 2)
    else:
        log_p = outputs.log_softmax(2)
    return log_p, targets.where(counted, 0).long(), counted


def _log_loss(outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    log_p, targets, counted = _log_probabilities("log_loss", outputs, targets, mask)
    return row_mean(-log_p.gather(2, targets.unsqueeze(2)).squeeze(2), weight, counted)


log_loss = Metric(
    "log_loss",
    False,
    _log_loss,
    weighted=True,
    losses=("cross_entropy", "bce"),
    title="log loss",
    explanation="the mean negative logarithm of the probability that the true class was given",
)
"""The mean of -log p of the true class, in nats: the cross-entropy without class weights or label smoothing."""


def _brier(outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    log_p, targets, counted = _log_probabilities("brier", outputs, targets, mask)
    true = torch.zeros_like(log_p).scatter_(2, targets.unsqueeze(2), 1.0)
    distance = (log_p.exp() - true).square().sum(2)
    return row_mean(distance / 2 if log_p.size(2) == 2 else distance, weight, counted)


brier = Metric(
    "brier",
    False,
    _brier,
    weighted=True,
    losses=("cross_entropy", "bce"),
    title="Brier score",
    explanation="the mean squared error of predicted probabilities",
)
r"""The mean squared distance between predicted probabilities and outcomes.

From `Verification of Forecasts Expressed in Terms of Probability (Brier, Monthly Weather Review 1950)
<https://doi.org/10.1175/1520-0493(1950)078%3C0001:VOFEIT%3E2.0.CO;2>`_:

.. math::
    \frac1n \sum_s \sum_c (p_{sc} - [y_s = c])^2

for three or more classes, from 0 to 2. For a binary task, with one logit or with two, it is half of that,
:math:`\frac1n \sum_s (p_s - y_s)^2` with p the probability of class 1, from 0 to 1, as is usual (also in
scikit-learn).
"""


def _ece(outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    confidence, right, bins, weight = confidences(outputs, targets, mask, weight)
    gap = (right - confidence).where(weight > 0, 0.0) * weight
    sums = gap.new_zeros(len(gap), BINS).scatter_add_(1, bins, gap)
    return sums.abs().sum(1) / weight.sum(1)


def confidences(
    outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the confidence, correctness, bin and weight of every prediction, [R, N] each.

    A sample with several predictions contributes each of them; the weight is 0 if there is no class.
    """
    log_p, targets, counted = _log_probabilities("ece", outputs, targets, mask)
    confidence, predicted = log_p.exp().max(2)
    right = (predicted == targets).double()  # [R, n, ...]
    weight = (weight.reshape(*weight.shape, *[1] * (right.dim() - 2)) * counted).flatten(1)
    # bin b holds confidences in (b / M, (b + 1) / M]; the result of a NaN is NaN in any bin
    bins = ((confidence.flatten(1) * BINS).ceil() - 1).nan_to_num(0.0).clamp(0, BINS - 1).long()
    return confidence.flatten(1), right.flatten(1), bins, weight


ece = Metric(
    "ece",
    False,
    _ece,
    weighted=True,
    losses=("cross_entropy", "bce"),
    title="calibration error (ECE)",
    explanation="how far predicted probabilities are from how often they come true",
)
r"""The expected calibration error: the difference between confidence and accuracy.

From `On Calibration of Modern Neural Networks (Guo et al., ICML 2017) <https://arxiv.org/abs/1706.04599>`_:

.. math::
    \sum_{b=1}^{M} \frac{|B_b|}{n} \, \big| \mathrm{acc}(B_b) - \mathrm{conf}(B_b) \big|

where :math:`B_b` are the samples whose confidence, the probability of the predicted class, lies in
:math:`((b - 1) / M, b / M]`, with M = 15 bins of equal width; acc is their accuracy, and conf their mean confidence. If
samples have weights, n and :math:`|B_b|` are sums of weights, and shares and means are weighted. With few samples it is
biased upward, even for correct probabilities, so only compare it between models on the same samples.
"""
