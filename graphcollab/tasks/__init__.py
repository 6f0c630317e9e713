"""What nodes own: their samples, how a dataset is dealt out to them, and the batches they train on.

Builders of tasks raise a ``ValueError`` where there are too few samples or classes for the nodes or clusters, or where
the numbers of what is given do not agree; it says how many are needed.
"""

from graphcollab.tasks._deal import Labelled
from graphcollab.tasks._pairs import Samples
from graphcollab.tasks.class_counts import class_clusters, class_windows, majority_counts, majority_tasks
from graphcollab.tasks.label_shift import ANIMALS_VEHICLES, CIFAR100_GROUPS, FIVE_PAIRS, disjoint_classes, label_shift
from graphcollab.tasks.partition import class_shards, grouped_tasks, shard_tasks
from graphcollab.tasks.preparation import Column, Preparation
from graphcollab.tasks.regression import linear_regression_tasks, linear_regression_truth
from graphcollab.tasks.samples import Pool, Split
from graphcollab.tasks.schedule import Schedule, local_steps, make_schedule
from graphcollab.tasks.shift import (
    concept_shift,
    covariate_shift,
    label_permutations,
    permuted_labels,
    rotate,
    rotation_shift,
)
from graphcollab.tasks.statistics import Statistics
from graphcollab.tasks.table import Table, open_table
from graphcollab.tasks.tasks import Tasks

__all__ = [
    "ANIMALS_VEHICLES",
    "CIFAR100_GROUPS",
    "FIVE_PAIRS",
    "Column",
    "Labelled",
    "Pool",
    "Preparation",
    "Samples",
    "Schedule",
    "Split",
    "Statistics",
    "Table",
    "Tasks",
    "class_clusters",
    "class_shards",
    "class_windows",
    "concept_shift",
    "covariate_shift",
    "disjoint_classes",
    "grouped_tasks",
    "label_permutations",
    "label_shift",
    "linear_regression_tasks",
    "linear_regression_truth",
    "local_steps",
    "majority_counts",
    "majority_tasks",
    "make_schedule",
    "open_table",
    "permuted_labels",
    "rotate",
    "rotation_shift",
    "shard_tasks",
]
