"""Whether buffers (running statistics) travel with the part of the model that is exchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphcollab.settings import Buffers, check_setting

if TYPE_CHECKING:
    from graphcollab.stack import Stacks

__all__ = ["buffers_travel", "buffers_width", "check_buffers"]


def check_buffers(buffers: str) -> None:
    """Check a setting that says what happens to buffers, for pieces that do not annotate it as `Buffers` yet."""
    check_setting("buffers", Buffers, buffers)


def buffers_travel(models: Stacks, buffers: Buffers) -> bool:
    """Tell whether buffers are averaged: that is asked for, and every architecture has some."""
    return buffers == "average" and all("buffers" in spec.parts for spec in models.specs)


def buffers_width(models: Stacks, buffers: Buffers) -> int:
    """Return how many numbers of buffers travel with every model that is exchanged."""
    return models.part("buffers").shape[1] if buffers_travel(models, buffers) else 0
