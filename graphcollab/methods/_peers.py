"""What the methods that look for peers have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphcollab.exchange import Exchange
from graphcollab.judge import Judge
from graphcollab.local import Fit
from graphcollab.method import Method
from graphcollab.piece import Weigher
from graphcollab.rewire import PeerSampler
from graphcollab.settings import Buffers
from graphcollab.stop import EarlyStopping
from graphcollab.weigh import (
    Metric,
    PeerWeights,
    SampleCounts,
    Similarity,
    SimilarityWeights,
)

__all__ = ["Metric", "merging", "peer_method"]


def merging(merge: str, similarity: Similarity, tau: float) -> Weigher:
    """Return how peers that were chosen are weighed.

    Args:
        merge: ``"fedavg"``, ``"similarity"`` or ``"softmax"``.
        similarity: What is measured.
        tau: τ of the softmax.

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


def peer_method(
    name: str, local: Fit, weigh: PeerWeights, rewire: PeerSampler, patience: int | None, part: str, buffers: Buffers
) -> Method:
    """Return a method that trains, meets some peers, merges with them, and decides whom to meet next.

    Args:
        name: Its name.
        local: How nodes train.
        weigh: What is measured, chosen and weighed.
        rewire: Whom to meet.
        patience: Rounds without a better validation loss after which a node stops, if it does.
        part: Part of the model that is merged.
        buffers: ``"keep"`` or ``"average"`` running statistics.
    """
    metric: Any = weigh.metric
    if metric is not None and "buffers" in metric.agrees:  # it judges models as they are mixed
        metric = replace(metric, buffers=buffers)
    method = Method(
        name,
        local=local,
        weigh=replace(weigh, metric=metric, part=part, buffers=buffers),
        exchange=Exchange("zero", "x", part, buffers=buffers),
        rewire=rewire,
    )
    return method if patience is None else method.replace(stop=EarlyStopping(patience), judge=Judge(field="best_x"))
