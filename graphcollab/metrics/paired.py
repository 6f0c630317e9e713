"""Differences between two methods on the same tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["PairedDifference", "paired_difference"]


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference of pairs and how certain it is.

    Args:
        mean: Mean of a - b.
        low: Lower end of the confidence interval; NaN with a single pair.
        high: Upper end of the confidence interval; NaN with a single pair.
        std: Standard deviation of the differences (divided by n - 1); NaN with a single pair.
        n: Number of pairs.
        p_value: Two-sided p-value of the paired t-test; NaN with a single pair.
    """

    mean: float
    low: float
    high: float
    std: float
    n: int
    p_value: float


def paired_difference(
    a: Tensor | Sequence[float], b: Tensor | Sequence[float], confidence: float = 0.95
) -> PairedDifference:
    r"""Compare two methods that ran on the same S partitions, by Student's t-interval of their differences.

    .. math::
        \bar d \pm t_{S-1,\,(1+c)/2} \; s / \sqrt{S}, \qquad d_s = a_s - b_s

    where :math:`s` is the standard deviation of the differences and :math:`c` the confidence. Differences that are all
    equal give an interval of no width, and a p-value of 0 (or of 1 if they are 0).

    Args:
        a: The first method's value on each partition.
        b: The second method's values, in the same order.
        confidence: The interval's confidence level. Default: 0.95.

    Shapes:
        a: [S].
        b: [S].

    Raises:
        ValueError: If there is no pair, shapes differ, a value is not finite, or ``confidence`` is not between 0 and 1.

    Example:
        >>> result = paired_difference([3.0, 5.0, 4.0], [2.0, 3.0, 1.0])
        >>> round(result.mean, 3), round(result.low, 3), round(result.high, 3), round(result.p_value, 4)
        (2.0, -0.484, 4.484, 0.0742)
    """
    a, b = torch.as_tensor(a, dtype=torch.float64), torch.as_tensor(b, dtype=torch.float64)
    if a.dim() != 1 or a.shape != b.shape or a.numel() == 0:
        raise ValueError(f"expected two sequences of the same length S >= 1, got {list(a.shape)} and {list(b.shape)}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    difference = a - b
    if not bool(difference.isfinite().all()):
        pair = int((~difference.isfinite()).nonzero()[0])
        raise ValueError(f"values must be finite, but pair {pair} is {float(a[pair])} and {float(b[pair])}")
    n, mean = difference.numel(), float(difference.mean())
    if n == 1:
        return PairedDifference(mean, math.nan, math.nan, math.nan, n, math.nan)
    std = float(difference.std(correction=1))
    error = std / math.sqrt(n)
    from scipy import stats  # here, since importing it takes long

    reach = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * error
    statistic = abs(mean) / error if error else (math.inf if mean else 0.0)
    return PairedDifference(mean, mean - reach, mean + reach, std, n, 2 * float(stats.t.sf(statistic, n - 1)))
