"""How well nodes do, how evenly, and whether the learned graph shows the structure of the tasks."""

from typing import TYPE_CHECKING

from graphcollab._lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.metrics.as_metric import METRICS as METRICS, as_metric as as_metric
    from graphcollab.metrics.classification import accuracy as accuracy, auc as auc, concordance as concordance
    from graphcollab.metrics.errors import (
        mae as mae,
        mse as mse,
        poisson_deviance as poisson_deviance,
        r2 as r2,
        rmse as rmse,
    )
    from graphcollab.metrics.inference import Differences as Differences, corrected_differences as corrected_differences
    from graphcollab.metrics.metric import Metric as Metric
    from graphcollab.metrics.probabilities import brier as brier, ece as ece, log_loss as log_loss
    from graphcollab.metrics.recovery import (
        adjusted_rand_index as adjusted_rand_index,
        in_cluster_share as in_cluster_share,
        recovered_clusters as recovered_clusters,
        recovery_auc as recovery_auc,
    )
    from graphcollab.metrics.scores import Scores as Scores, score_rows as score_rows
    from graphcollab.metrics.statistics import paired_difference as paired_difference
    from graphcollab.metrics.traffic import (
        cluster_traffic as cluster_traffic,
        contact_counts as contact_counts,
        never_sampled as never_sampled,
        server_graph as server_graph,
    )
    from graphcollab.metrics.weight_spread import weight_agreement as weight_agreement, weight_spread as weight_spread

__all__ = make_lazy(__name__)
