"""Loss and metric of rows on a split."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab.local import Engine, Rows
from graphcollab.metrics.as_metric import as_metric
from graphcollab.metrics.metric import Metric
from graphcollab.tasks import Tasks

__all__ = ["metric_of", "score_rows"]


def metric_of(tasks: Tasks) -> Metric:
    """Return the metric that tasks are judged by; a user's function is better when bigger unless it says otherwise."""
    if isinstance(tasks.metric, str | Metric):
        return as_metric(tasks.metric)
    return as_metric(tasks.metric, bool(getattr(tasks.metric, "higher_is_better", True)))


def score_rows(engine: Engine, rows: Rows, split: str, metric: Metric) -> tuple[Tensor, Tensor]:
    """Return loss and metric of every row on a split of its node's data.

    Args:
        engine: What computes.
        rows: Models and whose data they meet.
        split: ``"train"``, ``"val"`` or ``"test"``.
        metric: The metric.

    Shapes:
        Output: two tensors [R], double precision; NaN where the node has no such samples.
    """
    loss = torch.full((len(rows),), float("nan"), dtype=torch.float64, device=rows.node.device)
    score = loss.clone()
    for chunk in engine.predict(rows, split):
        loss[chunk.rows] = engine.losses_of(chunk).double()
        score[chunk.rows] = metric(chunk.outputs, chunk.targets, chunk.mask).to(loss)
    return loss, score
