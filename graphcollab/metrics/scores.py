"""The loss and the metrics of every node's model."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab.device import beside
from graphcollab.engine import Engine, Rows
from graphcollab.metrics.metric import Metric

__all__ = ["score_rows"]


def score_rows(engine: Engine, rows: Rows, split: str, metric: Metric) -> tuple[Tensor, Tensor]:
    """Return loss and metric of every row on a split of its node's data, [R] each, float64.

    They are NaN where the node has no such samples. A model whose loss, or one of whose predictions, is not finite has
    diverged: its loss is infinite and its metric NaN.
    """
    found = torch.full((2, len(rows)), torch.nan, dtype=torch.float64, device=rows.source.device)
    for chunk in engine.predict(rows, split):
        values = engine.losses_of(chunk).double()
        finite = torch.isfinite(chunk.outputs).reshape(*chunk.mask.shape, -1).all(2)
        diverged = chunk.mask.any(1) & ~((finite | ~chunk.mask).all(1) & torch.isfinite(values))
        score = metric(chunk.outputs, chunk.targets, chunk.mask).to(found).masked_fill(diverged, torch.nan)
        found[:, beside(chunk.rows, found)] = torch.stack([values.masked_fill(diverged, torch.inf), score])
    loss, score = found.cpu()
    return loss, score
