"""Partitions of a dataset over nodes: by classes, shifts and groups, or drawn from a distribution."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.data.partition.class_counts import (
        class_clusters as class_clusters,
        majority_tasks as majority_tasks,
    )
    from graphcollab.data.partition.label_shift import (
        ANIMALS_VEHICLES as ANIMALS_VEHICLES,
        FIVE_PAIRS as FIVE_PAIRS,
        disjoint_classes as disjoint_classes,
        label_shift as label_shift,
    )
    from graphcollab.data.partition.partition import grouped_tasks as grouped_tasks, shard_tasks as shard_tasks
    from graphcollab.data.partition.regression import linear_regression_tasks as linear_regression_tasks
    from graphcollab.data.partition.shift import (
        concept_shift as concept_shift,
        covariate_shift as covariate_shift,
        permuted_labels as permuted_labels,
        rotation_shift as rotation_shift,
    )

__all__ = make_lazy(__name__)
