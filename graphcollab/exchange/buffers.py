"""Whether buffers (running statistics) travel with the part of the model that is exchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphcollab.stack import Stacks

__all__ = ["buffers_travel", "buffers_width", "check_buffers"]


def check_buffers(buffers: str) -> None:
    """Check a setting that says what happens to buffers.

    Raises:
        ValueError: If it is none of ``"keep"`` and ``"average"``.
    """
    if buffers not in ("keep", "average"):
        raise ValueError(f"buffers must be 'keep' or 'average', got {buffers!r}")


def buffers_travel(models: Stacks, buffers: str) -> bool:
    """Tell whether buffers are mixed: that is asked for, and every architecture has some."""
    return buffers == "average" and all("buffers" in spec.parts for spec in models.specs)


def buffers_width(models: Stacks, buffers: str) -> int:
    """Return how many numbers of buffers travel with every model that is exchanged."""
    return models.part("buffers").shape[1] if buffers_travel(models, buffers) else 0
