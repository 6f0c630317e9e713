"""Metrics of predicted probabilities: how good they are, and whether they mean what they say.

Outputs are read as `accuracy` reads them: [R, n, C, ...] are logits of C classes, and [R, n] or [R, n, 1] logits of
class 1 in a binary task. Their softmax, or sigmoid, are the probabilities; so log-probabilities may be given too.
Targets [R, n, ...] are class indices; those that the loss ignores are left out.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from graphcollab.analysis.metrics.classification import as_classes
from graphcollab.analysis.metrics.metric import Metric, row_mean

BINS = 15  # how many bins `ece` has


def _log_probabilities(name: str, outputs: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probabilities [R, n, C, ...], float64, classes [R, n, ...], 0 if not counted, and which count."""
    outputs, targets, counted = as_classes(name, outputs.double(), targets, mask)
    if outputs.size(2) == 1:
        log_p = torch.cat([functional.logsigmoid(-outputs), functional.logsigmoid(outputs)], 2)
    else:
        log_p = outputs.log_softmax(2)
    return log_p, targets.where(counted, 0).long(), counted


def _log_loss(outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    log_p, targets, counted = _log_probabilities("log_loss", outputs, targets, mask)
    return row_mean(-log_p.gather(2, targets.unsqueeze(2)).squeeze(2), weight, counted)


log_loss = Metric("log_loss", False, _log_loss, weighted=True, of_classes=True)
"""The mean of -log p of the true class, in nats: what cross-entropy is without class weights or label smoothing."""


def _brier(outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    log_p, targets, counted = _log_probabilities("brier", outputs, targets, mask)
    true = torch.zeros_like(log_p).scatter_(2, targets.unsqueeze(2), 1.0)
    distance = (log_p.exp() - true).square().sum(2)
    return row_mean(distance / 2 if log_p.size(2) == 2 else distance, weight, counted)


brier = Metric("brier", False, _brier, weighted=True, of_classes=True)
r"""The mean squared distance between predicted probabilities and what came true.

From `Verification of Forecasts Expressed in Terms of Probability (Brier, Monthly Weather Review 1950)
<https://doi.org/10.1175/1520-0493(1950)078%3C0001:VOFEIT%3E2.0.CO;2>`_:

.. math::
    \frac1n \sum_s \sum_c (p_{sc} - [y_s = c])^2

for three classes or more, from 0 to 2. Of a binary task, with one logit or with two, it is half of that,
:math:`\frac1n \sum_s (p_s - y_s)^2` with p the probability of class 1, from 0 to 1, as usual there (and in
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
    """Return how sure every prediction is, whether it is right, its bin, and its weight, [R, N] each.

    A sample with several predictions counts with each of them; the weight is 0 where there is no class.
    """
    log_p, targets, counted = _log_probabilities("ece", outputs, targets, mask)
    confidence, predicted = log_p.exp().max(2)
    right = (predicted == targets).double()  # [R, n, ...]
    weight = (weight.reshape(*weight.shape, *[1] * (right.dim() - 2)) * counted).flatten(1)
    # bin b holds confidences in (b / M, (b + 1) / M]; what a NaN says is NaN in any of them
    bins = ((confidence.flatten(1) * BINS).ceil() - 1).nan_to_num(0.0).clamp(0, BINS - 1).long()
    return confidence.flatten(1), right.flatten(1), bins, weight


ece = Metric("ece", False, _ece, weighted=True, of_classes=True)
r"""The expected calibration error: how far confidence is from accuracy.

From `On Calibration of Modern Neural Networks (Guo et al., ICML 2017) <https://arxiv.org/abs/1706.04599>`_:

.. math::
    \sum_{b=1}^{M} \frac{|B_b|}{n} \, \big| \mathrm{acc}(B_b) - \mathrm{conf}(B_b) \big|

where :math:`B_b` are the samples whose confidence, the probability of the predicted class, lies in
:math:`((b - 1) / M, b / M]`, with M = 15 bins of equal width; acc is the share of them that are predicted rightly, and
conf their mean confidence. Where samples have weights, n and :math:`|B_b|` are sums of them, and shares and means
weighted. Of few samples it is too large, also where probabilities are right, so compare it between models on the same
samples only.
"""
