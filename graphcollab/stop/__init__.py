"""The stop slot: when a node has learned enough."""

from __future__ import annotations

from graphcollab.stop.early_stopping import EarlyStopping

__all__ = ["EarlyStopping"]
