"""What nodes own: their samples, how a dataset is dealt out to them, and the batches they train on.

Builders of tasks raise a ``ValueError`` where samples or classes are too few, and say how many are needed.
"""

from typing import TYPE_CHECKING

from graphcollab._lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.tasks._pairs import Samples as Samples
    from graphcollab.tasks.class_counts import (
        class_clusters as class_clusters,
        class_windows as class_windows,
        majority_counts as majority_counts,
        majority_tasks as majority_tasks,
    )
    from graphcollab.tasks.label_shift import (
        ANIMALS_VEHICLES as ANIMALS_VEHICLES,
        FIVE_PAIRS as FIVE_PAIRS,
        disjoint_classes as disjoint_classes,
        label_shift as label_shift,
    )
    from graphcollab.tasks.partition import grouped_tasks as grouped_tasks, shard_tasks as shard_tasks
    from graphcollab.tasks.preparation import Column as Column, Preparation as Preparation
    from graphcollab.tasks.regression import linear_regression_tasks as linear_regression_tasks
    from graphcollab.tasks.samples import Pool as Pool, Split as Split
    from graphcollab.tasks.schedule import Schedule as Schedule, make_schedule as make_schedule
    from graphcollab.tasks.shift import (
        concept_shift as concept_shift,
        covariate_shift as covariate_shift,
        label_permutations as label_permutations,
        permuted_labels as permuted_labels,
        rotate as rotate,
        rotation_shift as rotation_shift,
    )
    from graphcollab.tasks.table import Table as Table
    from graphcollab.tasks.tasks import Tasks as Tasks

__all__ = make_lazy(__name__)
