"""Metrics of the nodes' performance, its fairness, and how well the learned graph recovers the task structure."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.analysis.metrics.as_metric import METRICS as METRICS, as_metric as as_metric
    from graphcollab.analysis.metrics.inference import corrected_differences as corrected_differences
    from graphcollab.analysis.metrics.metric import Metric as Metric
    from graphcollab.analysis.metrics.recovery import (
        adjusted_rand_index as adjusted_rand_index,
        in_cluster_share as in_cluster_share,
        recovered_clusters as recovered_clusters,
        recovery_auc as recovery_auc,
    )
    from graphcollab.analysis.metrics.scores import Scores as Scores
    from graphcollab.analysis.metrics.statistics import paired_difference as paired_difference
    from graphcollab.analysis.metrics.traffic import contact_counts as contact_counts, never_sampled as never_sampled
    from graphcollab.analysis.metrics.weight_spread import (
        weight_agreement as weight_agreement,
        weight_spread as weight_spread,
    )

__all__ = make_lazy(__name__)
