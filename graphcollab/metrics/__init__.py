"""How well nodes do, how evenly, and whether the learned graph shows the structure of the tasks."""

from __future__ import annotations

from graphcollab.metrics.accuracy import Accuracy
from graphcollab.metrics.as_metric import METRICS, as_metric
from graphcollab.metrics.auc import AUC
from graphcollab.metrics.fairness import summarize
from graphcollab.metrics.metric import Metric
from graphcollab.metrics.paired import PairedDifference, paired_difference
from graphcollab.metrics.recovery import WeightByOverlap, in_cluster_share, recovery_auc, weight_by_overlap
from graphcollab.metrics.regression import MeanError, mae, mse
from graphcollab.metrics.user_metric import UserMetric

__all__ = [
    "AUC",
    "METRICS",
    "Accuracy",
    "MeanError",
    "Metric",
    "PairedDifference",
    "UserMetric",
    "WeightByOverlap",
    "as_metric",
    "in_cluster_share",
    "mae",
    "mse",
    "paired_difference",
    "recovery_auc",
    "summarize",
    "weight_by_overlap",
]
