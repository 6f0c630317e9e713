"""How well nodes do, how evenly, and whether the learned graph shows the structure of the tasks."""

from __future__ import annotations

from graphcollab.metrics.accuracy import Accuracy
from graphcollab.metrics.as_metric import METRICS, as_metric
from graphcollab.metrics.auc import AUC
from graphcollab.metrics.class_overlap import class_overlap
from graphcollab.metrics.clusters import adjusted_rand_index, recovered_clusters
from graphcollab.metrics.fairness import summarize
from graphcollab.metrics.metric import Metric
from graphcollab.metrics.mixture_bound import MixtureBound, label_distance, mixture_bound
from graphcollab.metrics.node_latents import NodeLatents, node_latents
from graphcollab.metrics.paired import PairedDifference, paired_difference
from graphcollab.metrics.recovery import WeightByOverlap, in_cluster_share, recovery_auc, weight_by_overlap
from graphcollab.metrics.regression import MeanError, mae, mse
from graphcollab.metrics.score_rows import metric_of, score_rows
from graphcollab.metrics.server_graph import server_graph
from graphcollab.metrics.similarity_by_cluster import Band, SimilarityByCluster, similarity_by_cluster
from graphcollab.metrics.traffic import ClusterTraffic, cluster_traffic, contact_counts, never_sampled
from graphcollab.metrics.user_metric import UserMetric

__all__ = [
    "AUC",
    "METRICS",
    "Accuracy",
    "Band",
    "ClusterTraffic",
    "MeanError",
    "Metric",
    "MixtureBound",
    "NodeLatents",
    "PairedDifference",
    "SimilarityByCluster",
    "UserMetric",
    "WeightByOverlap",
    "adjusted_rand_index",
    "as_metric",
    "class_overlap",
    "cluster_traffic",
    "contact_counts",
    "in_cluster_share",
    "label_distance",
    "mae",
    "metric_of",
    "mixture_bound",
    "mse",
    "never_sampled",
    "node_latents",
    "paired_difference",
    "recovered_clusters",
    "recovery_auc",
    "score_rows",
    "server_graph",
    "similarity_by_cluster",
    "summarize",
    "weight_by_overlap",
]
