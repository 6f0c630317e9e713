"""Loss and metric of rows on a split."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab.engine import Engine, Rows
from graphcollab.metrics.as_metric import as_metric
from graphcollab.metrics.metric import Metric
from graphcollab.tasks import Tasks

__all__ = ["metric_of", "score_rows"]


def metric_of(tasks: Tasks) -> Metric:
    """Return the metric that tasks are judged by; a user's function says itself which way it goes."""
    if isinstance(tasks.metric, str | Metric):
        return as_metric(tasks.metric)
    return as_metric(tasks.metric, bool(getattr(tasks.metric, "higher_is_better", None)))


def score_rows(engine: Engine, rows: Rows, split: str, metric: Metric) -> tuple[Tensor, Tensor]:
    """Return loss and metric of every row on a split of its node's data.

    Args:
        engine: What computes.
        rows: Models and whose data they meet.
        split: ``"train"``, ``"val"`` or ``"test"``.
        metric: The metric.

    Shapes:
        Output: two tensors [R], double precision; NaN where the node has no such samples. A model whose loss, or one of
        whose predictions, is not finite has diverged: its loss is infinite and its metric NaN.
    """
    loss = torch.full((len(rows),), float("nan"), dtype=torch.float64, device=rows.node.device)
    score = loss.clone()
    for chunk in engine.predict(rows, split):
        values = engine.losses_of(chunk).double()
        finite = torch.isfinite(chunk.outputs).reshape(*chunk.mask.shape, -1).all(2)
        diverged = chunk.mask.any(1) & ~((finite | ~chunk.mask).all(1) & torch.isfinite(values))
        loss[chunk.rows] = values.masked_fill(diverged, torch.inf)
        score[chunk.rows] = metric(chunk.outputs, chunk.targets, chunk.mask).to(loss).masked_fill(diverged, torch.nan)
    return loss, score
