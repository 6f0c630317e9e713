"""How well nodes do, how evenly, and whether the learned graph shows the structure of the tasks."""

from graphcollab.metrics.as_metric import METRICS, as_metric
from graphcollab.metrics.bootstrap import bootstrap, percentile_interval
from graphcollab.metrics.classification import accuracy, auc
from graphcollab.metrics.errors import mae, mse, r2, rmse
from graphcollab.metrics.inference import Differences, corrected_differences, holm
from graphcollab.metrics.metric import Metric
from graphcollab.metrics.node_latents import node_latents
from graphcollab.metrics.probabilities import brier, ece, log_loss
from graphcollab.metrics.recovery import (
    adjusted_rand_index,
    class_overlap,
    in_cluster_share,
    recovered_clusters,
    recovery_auc,
    weight_by_overlap,
)
from graphcollab.metrics.scores import Scores, as_metrics, score_nodes, score_rows
from graphcollab.metrics.statistics import PairedDifference, paired_difference, summarize
from graphcollab.metrics.traffic import (
    cluster_traffic,
    contact_counts,
    never_sampled,
    server_graph,
    similarity_by_cluster,
)
from graphcollab.metrics.weight_spread import WeightSpread, weight_agreement, weight_spread

__all__ = [
    "METRICS",
    "Differences",
    "Metric",
    "PairedDifference",
    "Scores",
    "WeightSpread",
    "accuracy",
    "adjusted_rand_index",
    "as_metric",
    "as_metrics",
    "auc",
    "bootstrap",
    "brier",
    "class_overlap",
    "cluster_traffic",
    "contact_counts",
    "corrected_differences",
    "ece",
    "holm",
    "in_cluster_share",
    "log_loss",
    "mae",
    "mse",
    "never_sampled",
    "node_latents",
    "paired_difference",
    "percentile_interval",
    "r2",
    "recovered_clusters",
    "recovery_auc",
    "rmse",
    "score_nodes",
    "score_rows",
    "server_graph",
    "similarity_by_cluster",
    "summarize",
    "weight_agreement",
    "weight_by_overlap",
    "weight_spread",
]
