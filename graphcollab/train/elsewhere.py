"""What all processes find of tasks whose samples are in several of them, before there is a run."""

from __future__ import annotations

from torch import Tensor

from graphcollab.distributed import meet
from graphcollab.plane import Plane
from graphcollab.tasks import Tasks


def plane_of(tasks: Tasks) -> Plane:
    """Return how processes meet that have the samples of some nodes each; where all are here, nobody is met."""
    if not bool(tasks.elsewhere.any()):
        return Plane(tasks.num_nodes)
    work = tasks.sizes("train").double()
    return Plane(tasks.num_nodes, meet(tasks.names, lambda: work, None, tasks.elsewhere))


def told_by_owners(tasks: Tasks, values: Tensor) -> Tensor:
    """Return numbers of all nodes, [K, ...], given those of the nodes whose samples are in this process."""
    return plane_of(tasks).publish(values)
