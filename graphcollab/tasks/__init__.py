"""What nodes own: their samples, how a dataset is dealt out to them, and the batches they train on."""

from __future__ import annotations

from graphcollab.tasks.batching import Schedule, local_steps, make_schedule
from graphcollab.tasks.partition import Labelled, class_shards, grouped_tasks, shard_tasks
from graphcollab.tasks.pool import Pool, Split
from graphcollab.tasks.tasks import Samples, Tasks

__all__ = [
    "Labelled",
    "Pool",
    "Samples",
    "Schedule",
    "Split",
    "Tasks",
    "class_shards",
    "grouped_tasks",
    "local_steps",
    "make_schedule",
    "shard_tasks",
]
