"""The stop slot: when a node has learned enough."""

from __future__ import annotations

from graphcollab.stop.watch import BestModel, EarlyStopping, NoWatch, ProbeSimilarity, WatchMerging

__all__ = [
    "BestModel",
    "EarlyStopping",
    "NoWatch",
    "ProbeSimilarity",
    "WatchMerging",
]
