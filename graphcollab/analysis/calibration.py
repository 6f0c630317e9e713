"""Calibrated probabilities, and a decision threshold between two classes, both fitted to validation samples."""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn import functional

MOST = 20.0  # maximum temperature; the minimum is its inverse


def fit_temperature(outputs: Tensor, targets: Tensor) -> float:
    """Return the divisor of the logits that minimizes the mean log loss, from 1/20 to 20.

    `On Calibration of Modern Neural Networks (Guo et al., ICML 2017) <https://arxiv.org/abs/1706.04599>`_.

    Args:
        outputs: Logits of classes [n, C, ...], or of binary labels [n, ...].
        targets: Class labels, int64 [n, ...], or zeros and ones [n, ...].
    """
    binary, outputs = targets.is_floating_point(), outputs.double()
    loss = functional.binary_cross_entropy_with_logits if binary else functional.cross_entropy
    truth = targets.double().reshape(outputs.shape) if binary else targets
    of_log = lambda log: float(loss(outputs / math.exp(log), truth))  # noqa: E731
    ends = (-math.log(MOST), math.log(MOST))
    return math.exp(minimize_scalar(of_log, bounds=ends, method="bounded", options={"xatol": 1e-6}).x)


def balanced_threshold(probability: Tensor, truth: Tensor) -> float:
    """Return the probability threshold for predicting a class that maximizes sensitivity + specificity.

    It lies halfway between two neighboring probabilities; ties go to the threshold nearest to 0.5.

    Args:
        probability: Probability of the second of two classes, [n].
        truth: Whether a sample belongs to it, bool [n].
    """
    ordered, order = probability.double().sort()
    hit = truth[order]
    gain = ((~hit).cumsum(0) / (~hit).sum() - hit.cumsum(0) / hit.sum())[:-1]  # sensitivity + specificity - 1
    between = ordered[1:] > ordered[:-1]
    bars, gain = ((ordered[1:] + ordered[:-1]) / 2)[between], gain[between]
    best = bars[gain >= gain.max() - 1e-6] if len(gain) else bars
    return float(best[(best - 0.5).abs().argmin()]) if len(best) else 0.5
