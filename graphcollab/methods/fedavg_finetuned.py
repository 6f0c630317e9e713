"""Federated averaging, fine-tuned on every node's own data before it is judged."""

from __future__ import annotations

from graphcollab.engine import SGD
from graphcollab.judge import FineTuned
from graphcollab.local import Fit
from graphcollab.method import Method
from graphcollab.methods.fedavg import fedavg

__all__ = ["fedavg_finetuned"]


def fedavg_finetuned(
    finetune_epochs: int = 1,
    finetune_steps: int | None = None,
    finetune_lr: float | None = None,
    epochs: int = 5,
    lr: float = 0.01,
    weight_decay: float = 5e-4,
    batch_size: int = 10,
    momentum: float = 0.0,
    fraction: float = 1.0,
    part: str = "all",
    buffers: str = "mix",
    steps: int | None = None,
    weights: str = "counts",
    incomplete: str = "refuse",
) -> Method:
    """FedAvg, whose nodes are judged by the average after a few local steps on their own data.

    The models that are trained and averaged are those of `fedavg` with the same settings, bit for bit. Papers that
    compare with it seldom say how long they fine-tune; the authors of Ditto take 40 steps (``finetune_steps=40``).

    Args:
        finetune_epochs: Passes over a node's samples before it is judged.
        finetune_steps: Steps before it is judged, instead.
        finetune_lr: Step size of fine-tuning. Default: ``lr``.
        epochs: Passes over a node's samples per round.
        lr: Step size of SGD.
        weight_decay: Coefficient of the L2 penalty.
        batch_size: Samples per step.
        momentum: Momentum of SGD.
        fraction: Share of the nodes that works in a round (client sampling).
        part: Part of the model that is averaged; all of the model is fine-tuned.
        buffers: ``"mix"`` or ``"keep"`` running statistics.
        steps: Local steps per round, instead of ``epochs``.
        weights: ``"counts"``, or ``"uniform"``: all nodes count alike.
        incomplete: ``"refuse"``, or ``"average"``: where edges are given, nodes of a connected component are averaged
            although not all of them may hear each other.

    Example:
        >>> fedavg_finetuned(finetune_steps=40).judge.local.steps
        40
    """
    average = fedavg(
        epochs, lr, weight_decay, batch_size, momentum, fraction, part, buffers, steps, weights, incomplete=incomplete
    )
    optimizer = SGD(lr=lr if finetune_lr is None else finetune_lr, weight_decay=weight_decay, momentum=momentum)
    tuned = FineTuned(Fit(epochs=finetune_epochs, steps=finetune_steps, batch_size=batch_size, optimizer=optimizer))
    return average.replace(name="fedavg_finetuned", judge=tuned)
