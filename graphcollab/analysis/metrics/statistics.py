"""Summary statistics over nodes, and paired comparison of two methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphcollab._base.errors import NotFiniteError, ShapeError
from graphcollab._base.settings import NonNegative, Real, checked
from graphcollab.analysis.metrics.inference import corrected_differences

WORST = {10: 20, 20: 10}  # minimum number of nodes for showing the mean over the worst, by their share in percent

Values: TypeAlias = Tensor | np.ndarray | Sequence[Any]


@checked
def summarize(values: Values, higher_is_better: bool = True) -> dict[str, float]:
    """Summarize one value per node, [K]: the mean, the mean over the worst nodes, and the spread.

    These are the columns of Table 3 of `"Learning to Collaborate in Decentralized Learning of Personalized Models"
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_. ``worst10`` and ``worst20`` are means over the worst 10 % and 20 %
    of the ``nodes`` that count, rounded up to integers. ``std`` is the population standard deviation (divided by K,
    not K - 1), since the nodes are all there are, not a sample. NaN values are ``ignored``, and results are NaN if all
    values are.

    Example:
        >>> summarize([1.0, 3.0, float("nan")])
        {'mean': 2.0, 'worst10': 1.0, 'worst20': 1.0, 'std': 1.0, 'nodes': 2, 'ignored': 1}
    """
    values = torch.as_tensor(values, dtype=torch.float64)
    if values.dim() != 1:
        raise ShapeError("values", f"summarize expects one value per node, shape [K], got {list(values.shape)}")
    counted = values[~values.isnan()].sort(descending=not higher_is_better).values
    nodes = counted.numel()
    worst10, worst20 = (float(counted[: -(-nodes * percent // 100)].mean()) for percent in WORST)
    mean, std = float(counted.mean()), float(counted.std(correction=0)) if nodes else float("nan")
    found = {"mean": mean, "worst10": worst10, "worst20": worst20, "std": std}
    return {**found, "nodes": nodes, "ignored": values.numel() - nodes}


def worst_shown(nodes: float, of_nodes: float) -> list[int]:
    """Return the shares of the worst nodes, in percent, to show: of two nodes at least; all if ``nodes`` is NaN."""
    return [percent for percent, least in WORST.items() if not (of_nodes < least or nodes * percent <= 100)]


@dataclass(frozen=True)
class PairedDifference:
    """The mean of a - b over n pairs and its uncertainty.

    ``low`` and ``high`` are the ends of the confidence interval, ``std`` is the standard deviation of the differences
    (divided by n - 1), ``p_value`` is that of the two-sided paired t-test; with a single pair all four are NaN. If all
    differences are equal and not 0, ``low`` and ``high`` are NaN, and the p-value is 1. ``ratio`` is the correction of
    interval and test, test samples per training sample; 0 without correction.
    """

    mean: float
    low: float
    high: float
    std: float
    n: int
    p_value: float
    ratio: float = 0.0


@checked
def paired_difference(
    a: Values, b: Values, confidence: Annotated[float, Real(above=0, below=1)] = 0.95, ratio: NonNegative = 0.0
) -> PairedDifference:
    r"""Compare two methods that ran on the same S partitions by Student's t-interval of their differences.

    .. math::
        \bar d \pm t_{S-1,\,(1+c)/2} \; s \sqrt{1 / S + r}, \qquad d_s = a_s - b_s

    where :math:`s` is the standard deviation of the differences, :math:`c` the confidence and :math:`r` the ratio.
    Without a ratio, partitions are independent draws; with one, see `corrected_differences`. If all differences are
    equal, their variance is unknown, so the p-value is 1 and, unless they are 0, there is no interval.

    Args:
        a: The first method's value on each partition, [S], finite; at least one.
        b: The second method's values, in the same order, [S].
        confidence: The interval's confidence level.
        ratio: Test samples per training sample, if all partitions are of the same samples and the interval should cover
            the variation over other samples.
    """
    a, b = torch.as_tensor(a, dtype=torch.float64), torch.as_tensor(b, dtype=torch.float64)
    if a.dim() != 1 or a.shape != b.shape or a.numel() == 0:
        raise ShapeError(
            "values", f"expected two sequences of the same length S >= 1, got {list(a.shape)} and {list(b.shape)}"
        )
    difference = a - b
    if not bool(difference.isfinite().all()):
        pair = int((~difference.isfinite()).nonzero()[0])
        raise NotFiniteError(
            "values", f"values must be finite, but pair {pair} is {float(a[pair])} and {float(b[pair])}"
        )
    n, mean = difference.numel(), float(difference.mean())
    if n == 1:
        return PairedDifference(mean, math.nan, math.nan, math.nan, n, math.nan, ratio)
    std = float(difference.std(correction=1))
    found = corrected_differences(difference, torch.tensor(ratio, dtype=torch.float64), 1 - confidence)
    return PairedDifference(mean, float(found.low), float(found.high), std, n, float(found.p_value), ratio)
