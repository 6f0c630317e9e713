"""What nodes own: their samples, how a dataset is dealt out to them, and the batches they train on."""

from __future__ import annotations

from graphcollab.tasks.batching import Schedule, local_steps, make_schedule
from graphcollab.tasks.class_clusters import class_clusters, class_windows
from graphcollab.tasks.class_groups import ANIMALS_VEHICLES, CIFAR100_GROUPS, FIVE_PAIRS
from graphcollab.tasks.disjoint_classes import disjoint_classes
from graphcollab.tasks.majority import majority_counts, majority_tasks
from graphcollab.tasks.partition import Labelled, class_shards, grouped_tasks, shard_tasks
from graphcollab.tasks.permuted_labels import label_permutations, permuted_labels
from graphcollab.tasks.pool import Pool, Split
from graphcollab.tasks.regression import linear_regression_tasks, linear_regression_truth
from graphcollab.tasks.rotate import rotate
from graphcollab.tasks.shift import concept_shift, covariate_shift, label_shift, rotation_shift
from graphcollab.tasks.tasks import Samples, Tasks

__all__ = [
    "ANIMALS_VEHICLES",
    "CIFAR100_GROUPS",
    "FIVE_PAIRS",
    "Labelled",
    "Pool",
    "Samples",
    "Schedule",
    "Split",
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
    "permuted_labels",
    "rotate",
    "rotation_shift",
    "shard_tasks",
]
