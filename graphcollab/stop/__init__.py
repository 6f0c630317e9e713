"""The stop slot: when a node has learned enough."""

from __future__ import annotations

from graphcollab.stop.watch import EarlyStopping, NoWatch, ProbeSimilarity, WatchMerging

__all__ = [
    "EarlyStopping",
    "NoWatch",
    "ProbeSimilarity",
    "WatchMerging",
]
