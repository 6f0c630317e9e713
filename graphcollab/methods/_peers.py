"""What the methods that look for peers have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict

from graphcollab.engine import RowOptimizer, as_row_optimizer
from graphcollab.exchange import Exchange
from graphcollab.judge import JudgedBy
from graphcollab.local import Fit
from graphcollab.method import Method
from graphcollab.piece import Weigher
from graphcollab.rewire import PeerSampler
from graphcollab.stop import EarlyStopping
from graphcollab.weigh import (
    FedSim,
    InverseDistance,
    InverseLoss,
    PeerWeights,
    SampleCounts,
    Similarity,
    SoftmaxScores,
)

__all__ = ["Training", "merging", "peer_method"]

MERGES = ("fedavg", "fedsim", "softmax")


class Training(TypedDict, total=False):
    """Settings that all of these methods take, beside those that are about peers."""

    epochs: int
    lr: float
    batch_size: int
    optimizer: str | RowOptimizer
    weight_decay: float
    patience: int | None
    part: str
    buffers: str


def merging(merge: str, similarity: Similarity, tau: float = 30.0) -> Weigher:
    """Return how peers that were chosen are weighed.

    Args:
        merge: ``"fedavg"``, ``"fedsim"`` or ``"softmax"``.
        similarity: What is measured.
        tau: τ of the softmax.

    Raises:
        ValueError: If it is none of these, or does not fit the metric.
    """
    if merge not in MERGES:
        raise ValueError(f"merge must be one of {MERGES}, got {merge!r}")
    if merge == "softmax" and isinstance(similarity, InverseLoss | InverseDistance):
        raise ValueError(
            f"merge='softmax' weighs by cosines, and the metric is {type(similarity).__name__}: use a cosine, or "
            "another way to merge"
        )
    return {"fedavg": SampleCounts(), "fedsim": FedSim(), "softmax": SoftmaxScores(tau)}[merge]


def peer_method(
    name: str,
    weigh: PeerWeights,
    rewire: PeerSampler,
    epochs: int = 1,
    lr: float = 1e-3,
    batch_size: int = 32,
    optimizer: str | RowOptimizer = "adam",
    weight_decay: float = 0.0,
    patience: int | None = None,
    part: str = "all",
    buffers: str = "keep",
) -> Method:
    """Return a method that trains, meets some peers, merges with them, and decides whom to meet next.

    Args:
        name: Its name.
        weigh: What is measured, chosen and weighed.
        rewire: Whom to meet.
        epochs: Passes over a node's samples per round.
        lr: Step size; without meaning where an optimiser is given that has its own.
        batch_size: Samples per step.
        optimizer: ``"adam"`` or ``"sgd"``, or an optimiser of `graphcollab.local`. Its state starts afresh every round.
        weight_decay: Coefficient of the L2 penalty.
        patience: Rounds without a better validation loss after which a node stops; nodes are then judged by their best
            models. None: nobody stops, and nodes are judged by their last models.
        part: Part of the model that is merged.
        buffers: ``"keep"`` or ``"mix"`` running statistics.
    """
    if isinstance(optimizer, str):
        optimizer = as_row_optimizer(optimizer, lr=lr, weight_decay=weight_decay)
    metric = weigh.metric
    if metric is not None and hasattr(metric, "buffers"):  # it judges models as they are going to be mixed
        metric = replace(metric, buffers=buffers)  # type: ignore[call-arg]
    method = Method(
        name,
        local=Fit(epochs=epochs, batch_size=batch_size, optimizer=optimizer),
        weigh=replace(weigh, metric=metric, part=part, buffers=buffers),
        exchange=Exchange("zero", "x", part, buffers=buffers),
        rewire=rewire,
    )
    return method if patience is None else method.replace(stop=EarlyStopping(patience), judge=JudgedBy("best_x"))
