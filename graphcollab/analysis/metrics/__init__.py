"""How well nodes do, how evenly, and whether the learned graph shows the structure of the tasks."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.analysis.metrics.as_metric import METRICS as METRICS, as_metric as as_metric
    from graphcollab.analysis.metrics.classification import accuracy as accuracy, auc as auc, concordance as concordance
    from graphcollab.analysis.metrics.errors import (
        mae as mae,
        mse as mse,
        poisson_deviance as poisson_deviance,
        r2 as r2,
        rmse as rmse,
    )
    from graphcollab.analysis.metrics.inference import (
        Differences as Differences,
        corrected_differences as corrected_differences,
    )
    from graphcollab.analysis.metrics.metric import Metric as Metric
    from graphcollab.analysis.metrics.probabilities import brier as brier, ece as ece, log_loss as log_loss
    from graphcollab.analysis.metrics.recovery import (
        adjusted_rand_index as adjusted_rand_index,
        in_cluster_share as in_cluster_share,
        recovered_clusters as recovered_clusters,
        recovery_auc as recovery_auc,
    )
    from graphcollab.analysis.metrics.scores import Scores as Scores, score_rows as score_rows
    from graphcollab.analysis.metrics.statistics import paired_difference as paired_difference
    from graphcollab.analysis.metrics.traffic import (
        cluster_traffic as cluster_traffic,
        contact_counts as contact_counts,
        never_sampled as never_sampled,
        server_graph as server_graph,
    )
    from graphcollab.analysis.metrics.weight_spread import (
        weight_agreement as weight_agreement,
        weight_spread as weight_spread,
    )

__all__ = make_lazy(__name__)
