"""What the methods have in common in which nodes weigh each other's models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphcollab.exchange import Exchange
from graphcollab.judge import Judge
from graphcollab.local import Fit
from graphcollab.method import Method
from graphcollab.piece import Weigher
from graphcollab.settings import Buffers
from graphcollab.stop import EarlyStopping
from graphcollab.weigh import Metric, PeerWeights, SampleCounts, Similarity, SimilarityWeights

__all__ = ["Metric", "merging", "patient", "peer_method"]


def merging(merge: str, similarity: Similarity, tau: float) -> Weigher:
    """Return how peers that were chosen are weighed: ``"fedavg"``, ``"similarity"`` or ``"softmax"``, by τ.

    Raises:
        ValueError: If it does not fit the metric.
    """
    if merge == "softmax" and similarity.unbounded:
        raise ValueError(
            f"merge='softmax' weighs by cosines, and the metric is {type(similarity).__name__}: use a cosine, or "
            "another way to merge"
        )
    if merge == "fedavg":
        return SampleCounts()
    return SimilarityWeights(by="prior") if merge == "similarity" else SimilarityWeights("alike", tau)


def peer_method(name: str, local: Fit, weigh: PeerWeights, part: str, buffers: Buffers, **slots: Any) -> Method:
    """Return a method that trains, weighs the models of others, and takes their weighted mean."""
    metric: Any = weigh.metric
    if metric is not None and "buffers" in metric.agrees:  # it judges models as they are mixed
        metric = replace(metric, buffers=buffers)
    weigh = replace(weigh, metric=metric, part=part, buffers=buffers)
    return Method(name, local=local, weigh=weigh, exchange=Exchange("zero", "x", part, buffers=buffers), **slots)


def patient(method: Method, patience: int | None) -> Method:
    """Return a method in which nodes stop after so many rounds without a better validation loss, if they do."""
    return method if patience is None else method.replace(stop=EarlyStopping(patience), judge=Judge(field="best_x"))
