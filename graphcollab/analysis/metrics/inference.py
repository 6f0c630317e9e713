"""What repeated splits of the same samples say about a difference, and how much of it many comparisons leave."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

ROUNDING = 1e-9  # errors smaller than so much of the mean are 0 but for rounding
FOUND = 0.8  # how often a difference that could have been detected would have been


@dataclass(frozen=True)
class Differences:
    """Mean differences over repeated splits, [...] each, float64.

    Args:
        mean: d̄.
        error: Standard error of the mean, corrected for samples that splits share.
        low: Lower end of the interval.
        high: Upper end.
        p_value: Of the two-sided t-test.
        repeats: R, splits in which the difference was defined.
    """

    mean: Tensor
    error: Tensor
    low: Tensor
    high: Tensor
    p_value: Tensor
    repeats: Tensor

    def detectable(self, level: float) -> Tensor:
        """Return the difference that a test at a level would have found four times out of five, [...]."""
        from scipy import stats

        freedom = (self.repeats - 1).clamp(min=1).numpy()
        quantiles = stats.t.ppf(1 - level / 2, freedom) + stats.t.ppf(FOUND, freedom)
        return torch.as_tensor(quantiles) * self.error


def corrected_differences(
    values: Tensor, ratio: Tensor, level: float = 0.05, halves: Tensor | None = None
) -> Differences:
    r"""Judge differences between two ways to train, measured on R random splits of the same samples.

    The corrected resampled t-test of `Inference for the Generalization Error (Nadeau, Bengio, Machine Learning 2003)
    <https://doi.org/10.1023/A:1024068626366>`_:

    .. math::
        t = \frac{\bar d}{s \sqrt{1 / R + n_{test} / n_{train}}}

    with s the standard deviation of the R differences and R - 1 degrees of freedom. Splits share most of their samples,
    so their differences are not independent, and an ordinary t-test finds what is not there. Splits in which a
    difference is not defined (NaN) do not count; with fewer than two everything but the mean is NaN. Where all
    differences are the same the p-value is 1, as how they vary is not known, and the error and the interval are NaN
    unless all differences are 0.

    With more test than training samples that is far too careful, since training samples are then almost all different
    on different splits (ours; the paper's ratios are below 1). So the variance is parted: with v a quarter of the mean
    squared difference between what halves of the test samples say, the test samples account for τ² = v n_train / n of
    s², and the training samples for γ² = max(s² − τ², 0), n being n_test + n_train. Test samples are as much in common
    as before; of sums over training samples the part n_train / n_test of the variance is:

    .. math::
        t = \frac{\bar d}{\sqrt{s^2 / R + τ^2 n_{test} / n_{train} + γ^2 n_{train} / n_{test}}}

    Args:
        values: Differences, [R, ...].
        ratio: n_test / n_train, [...] or [].
        level: 1 minus the confidence of the intervals.
        halves: Differences on the two halves of the test samples, [R, 2, ...]; they are used where the ratio is above
            1. NaN do not count; where all are, the first formula holds.
    """
    from scipy import stats

    values = values.double()
    there = ~values.isnan()
    repeats = there.sum(0)
    mean = values.nan_to_num().sum(0) / repeats  # NaN where there are none
    square = torch.where(there, (values - mean).square(), 0).sum(0)
    spread = torch.where(repeats > 1, (square / (repeats - 1)).sqrt(), math.nan)
    ratio = ratio.double()
    error = spread * (1 / repeats.double() + ratio).sqrt()
    if halves is not None:
        ratio = ratio.expand(mean.shape)
        by_tests = (halves[:, 0] - halves[:, 1]).double().square().nanmean(0) / 4 / (1 + ratio)
        by_training = (spread.square() - by_tests).clamp(min=0)
        parted = spread.square() / repeats + by_tests * ratio + by_training / ratio
        error = torch.where((ratio > 1) & ~parted.isnan(), parted.sqrt(), error)
    error = error.masked_fill(error <= ROUNDING * mean.abs(), 0)
    freedom = (repeats - 1).clamp(min=1).numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (mean / error).abs().numpy()
    p_value = torch.as_tensor(2 * stats.t.sf(t, freedom))
    p_value = torch.where(error == 0, 1.0, p_value)
    error = torch.where((error == 0) & (mean != 0), math.nan, error)
    half = torch.as_tensor(stats.t.ppf(1 - level / 2, freedom)) * error
    return Differences(mean, error, mean - half, mean + half, p_value, repeats)


def holm(p_values: Tensor) -> Tensor:
    """Adjust p-values [...] for all comparisons there are, by the step-down method of Holm (1979); NaN do not count.

    Of comparisons that are adjusted to at most α, the chance that any is wrong is at most α.

    Example:
        >>> holm(torch.tensor([0.01, 0.04, 0.03]))
        tensor([0.0300, 0.0600, 0.0600])
    """
    flat = p_values.flatten()
    there = (~flat.isnan()).nonzero().flatten()
    order = there[flat[there].argsort(stable=True)]
    factor = torch.arange(len(order), 0, -1, dtype=flat.dtype)
    adjusted = flat.clone()
    adjusted[order] = (flat[order] * factor).clamp(max=1).cummax(0).values if len(order) else flat[order]
    return adjusted.view_as(p_values)
