"""Outputs and targets that a metric of one loss alone goes with."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab.analysis.metrics import Metric


def fitting(metric: Metric, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return scores and targets of 0 and 1 as a metric takes them: as rates and counts, or events at some times."""
    if metric.losses == ("cox",):
        return outputs, torch.stack([7 - torch.arange(outputs.shape[1]).expand_as(targets) % 7, targets], -1)
    return (outputs.exp() if metric.losses == ("poisson",) else outputs), targets
