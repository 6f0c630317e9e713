"""What sites are tested on: how many samples of their rarer class, how many groups of samples."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab.tasks import Tasks
from graphcollab.tasks._pairs import class_labels

__all__ = ["groups_held", "rarer_held"]


def rarer_held(tasks: Tasks, split: str = "test") -> Tensor | None:
    """Return how many samples of a split are of each node's rarer class, [K], where there are two classes in all."""
    held = tasks.splits[split]
    labels = class_labels(tasks.pools[held.pool].targets.cpu())
    if (
        labels is None
        or len(labels.unique()) != 2
        or (tasks.classes is not None and int(tasks.classes.any(0).sum()) != 2)
    ):
        return None
    ones = (labels == labels.max()).double()
    return torch.stack([held.totals(ones), held.totals(1 - ones)]).amin(0)


def groups_held(tasks: Tasks, split: str = "test") -> Tensor | None:
    """Return of how many groups (``group`` of `Tasks.from_frame`) nodes' samples of a split are, [K], or None."""
    held = tasks.splits[split]
    group = tasks.pools[held.pool].group
    if group is None:
        return None
    return torch.tensor([len(group.cpu()[held.of(node)].unique()) for node in range(tasks.num_nodes)]).double()
