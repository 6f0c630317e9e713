"""Regression metrics."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from graphcollab._base.errors import ShapeError
from graphcollab.analysis.metrics.metric import Metric, row_mean


def _same_shape(name: str, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Convert both to float64 with the same shape."""
    if outputs.shape == (*targets.shape, 1):
        outputs = outputs.squeeze(-1)
    if outputs.shape != targets.shape:
        raise ShapeError(
            "outputs", f"{name}: outputs and targets must have one shape, got {outputs.shape} and {targets.shape}"
        )
    return outputs.double(), targets.double()


def _mean_error(name: str, power: float, outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    outputs, targets = _same_shape(name, outputs, targets)
    return row_mean((outputs - targets).abs().pow(power), weight)


mse = Metric(
    "mse",
    False,
    partial(_mean_error, "mse", 2.0),
    weighted=True,
    losses=("mse", "poisson"),
    unit=2,
    title="mean squared error",
    explanation="the mean squared distance of predictions from the truth",
)
"""The mean of (output - target)² over samples and output dimensions.

Outputs and targets have the same shape [R, n, ...]; outputs [R, n, 1] also match targets [R, n]. Nothing is broadcast.
"""
mae = Metric(
    "mae",
    False,
    partial(_mean_error, "mae", 1.0),
    weighted=True,
    losses=("mse", "poisson"),
    unit=1,
    title="mean absolute error",
    explanation="the mean distance of predictions from the truth",
)
"""The mean of abs(output - target) over samples and output dimensions; shapes as in `mse`."""


def _rmse(outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    return _mean_error("rmse", 2.0, outputs, targets, mask, weight).sqrt()


rmse = Metric(
    "rmse",
    False,
    _rmse,
    weighted=True,
    losses=("mse", "poisson"),
    unit=1,
    title="root mean squared error",
    explanation="the root of the mean squared distance of predictions from the truth",
)
"""The square root of `mse`, in the unit of the targets; shapes as in `mse`."""


def _poisson_deviance(outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    rates, counts = _same_shape("poisson_deviance", outputs, targets)
    return row_mean(
        2 * (rates - counts + counts * (counts.clamp(min=1).log() - rates.log()).where(counts > 0, 0)), weight
    )


poisson_deviance = Metric(
    "poisson_deviance",
    False,
    _poisson_deviance,
    weighted=True,
    losses=("poisson",),
    title="Poisson deviance",
    explanation="how unlikely counts are at predicted rates, 0 at best",
)
r"""The mean deviance :math:`2 (r - y + y \log(y / r))` of counts y from predicted rates r.

Shapes are as in `mse`. It is 0 if every rate equals its count. Models with ``loss="poisson"`` output log rates, and
regression metrics receive the rates.
"""


def _r2(outputs: Tensor, targets: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    outputs, targets = _same_shape("r2", outputs, targets)
    # [R, n, D]
    real, weight = mask.unsqueeze(2), weight.unsqueeze(2)
    outputs, targets = ((v.flatten(2) if v.dim() > 2 else v.unsqueeze(2)).where(real, 0.0) for v in (outputs, targets))
    # relative to the first target, so that identical targets differ by exactly 0 despite rounding
    first = real.long().argmax(1, keepdim=True) if targets.size(1) else None
    shifted = targets if first is None else targets - targets.gather(1, first.expand(-1, -1, targets.size(2)))
    shifted = shifted.where(real, 0.0)
    mean = (shifted * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
    total = ((shifted - mean).where(real, 0.0).square() * weight).sum(1)  # [R, D]
    left = ((outputs - targets).square() * weight).sum(1)
    return (1 - left / total.where(total > 0, torch.nan)).mean(1)


r2 = Metric(
    "r2",
    True,
    _r2,
    undefined="it needs targets that differ",
    weighted=True,
    losses=("mse", "poisson"),
    title="R²",
    explanation="the share of the variance that predictions explain",
)
r"""The coefficient of determination: the share of the targets' variance at a node that its model explains.

.. math::
    R^2 = 1 - \frac{\sum_s (y_s - f_s)^2}{\sum_s (y_s - \bar y)^2}

with :math:`\bar y` the mean of the node's own targets in the split: predicting this mean gives 0, and a worse model is
below. With several output dimensions, it is the mean of their values. It is NaN if the targets of a dimension are all
equal. Shapes are as in `mse`.
"""
