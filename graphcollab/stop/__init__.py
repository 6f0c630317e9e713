"""The stop slot: when a node has learned enough."""

from __future__ import annotations

from graphcollab.stop.early_stopping import BestModel, EarlyStopping

__all__ = ["BestModel", "EarlyStopping"]
