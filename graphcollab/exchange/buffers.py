"""Whether buffers (running statistics) travel with the part of the model that is exchanged."""

from __future__ import annotations

from graphcollab.settings import Buffers
from graphcollab.stack import Stacks

__all__ = ["buffers_travel", "buffers_width"]


def buffers_travel(models: Stacks, buffers: Buffers) -> bool:
    """Tell whether buffers are averaged: that is asked for, and every architecture has some."""
    return buffers == "average" and all("buffers" in spec.parts for spec in models.specs)


def buffers_width(models: Stacks, buffers: Buffers) -> int:
    """Return how many numbers of buffers travel with every model that is exchanged."""
    return models.part("buffers").shape[1] if buffers_travel(models, buffers) else 0
