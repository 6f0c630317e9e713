"""Statistical inference on differences over repeated splits of the same samples, with multiple testing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

ROUNDING = 1e-9  # errors below this fraction of the mean are due to rounding
FOUND = 0.8  # power of the test at the detectable difference


@dataclass(frozen=True)
class Differences:
    """Mean differences over repeated splits, [...] each, float64.

    Args:
        mean: d̄.
        error: Standard error of the mean, corrected for samples that splits share.
        low: Lower end of the interval.
        high: Upper end of the interval.
        p_value: p-value of the two-sided t-test.
        repeats: R, splits in which the difference was defined.
    """

    mean: Tensor
    error: Tensor
    low: Tensor
    high: Tensor
    p_value: Tensor
    repeats: Tensor

    def detectable(self, level: float) -> Tensor:
        """Return the difference that a test at a level would detect with a power of 80 %, [...]."""
        from scipy import stats

        freedom = (self.repeats - 1).clamp(min=1).numpy()
        quantiles = stats.t.ppf(1 - level / 2, freedom) + stats.t.ppf(FOUND, freedom)
        return torch.as_tensor(quantiles) * self.error


def corrected_differences(
    values: Tensor, ratio: Tensor, level: float = 0.05, halves: Tensor | None = None
) -> Differences:
    r"""Test differences between two ways to train, measured on R random splits of the same samples.

    The corrected resampled t-test of `Inference for the Generalization Error (Nadeau, Bengio, Machine Learning 2003)
    <https://doi.org/10.1023/A:1024068626366>`_:

    .. math::
        t = \frac{\bar d}{s \sqrt{1 / R + n_{test} / n_{train}}}

    with s the standard deviation of the R differences and R - 1 degrees of freedom. Splits share most of their samples,
    so their differences are not independent, and an ordinary t-test reports differences that do not exist. Splits with
    an undefined difference (NaN) are ignored; with fewer than two, everything but the mean is NaN. If all differences
    are equal, their variance is unknown, so the p-value is 1, and the error and the interval are NaN unless all
    differences are 0.

    With more test than training samples, this is far too conservative, since training sets then barely overlap between
    splits (our extension; the paper's ratios are below 1). Therefore, the variance is decomposed: with v a quarter of
    the mean squared difference between the halves of the test samples, the test samples account for τ² = v n_train / n
    of s², and the training samples for γ² = max(s² − τ², 0), n being n_test + n_train. Test samples are shared as
    before; sums over training samples share the part n_train / n_test of the variance:

    .. math::
        t = \frac{\bar d}{\sqrt{s^2 / R + τ^2 n_{test} / n_{train} + γ^2 n_{train} / n_{test}}}

    Args:
        values: Differences, [R, ...].
        ratio: n_test / n_train, [...] or [].
        level: 1 minus the confidence of the intervals.
        halves: Differences on the two halves of the test samples, [R, 2, ...]; used if the ratio is above 1. NaN are
            ignored; if all are NaN, the first formula applies.
    """
    from scipy import stats

    values = values.double()
    there = ~values.isnan()
    repeats = there.sum(0)
    mean = values.nan_to_num().sum(0) / repeats  # NaN if there are none
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
    """Adjust p-values [...] for multiple testing by the step-down method of Holm (1979); NaN are ignored.

    If all comparisons with an adjusted p-value of at most α are claimed, the probability of any false claim is at most
    α.

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
