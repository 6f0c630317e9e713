"""Ditto: a personal model beside the average, pulled towards it."""

from __future__ import annotations

from graphcollab.exchange import Exchange, ThroughServer
from graphcollab.judge import Judge
from graphcollab.local import FitPersonal
from graphcollab.method import Method
from graphcollab.methods._method import Optimizer, Weights, fit, method
from graphcollab.rewire.scheduled import sample_nodes
from graphcollab.settings import Buffers, Count, Incomplete, Momentum, NonNegative, Share

__all__ = ["ditto"]


@method
def ditto(
    *,
    lr: NonNegative = 0.05,
    epochs: Count = 1,
    steps: Count | None = None,
    batch_size: Count = 16,
    optimizer: Optimizer = "sgd",
    momentum: Momentum = 0.0,
    weight_decay: NonNegative = 0.0,
    lam: NonNegative = 1.0,
    fraction: Share = 1.0,
    weights: Weights = "uniform",
    incomplete: Incomplete = "refuse",
    part: str = "all",
    buffers: Buffers = "average",
) -> Method:
    r"""Ditto: every node trains a personal model that is pulled towards the global one.

    `Ditto: Fair and Robust Federated Learning Through Personalization (Li et al., ICML 2021)
    <https://arxiv.org/abs/2012.04221>`_, algorithm 1.

    .. math::
        v_k &\leftarrow v_k - \eta \big( \nabla F_k(v_k) + \lambda (v_k - w^t) \big) \\
        w^{t+1} &= w^t + \frac{1}{|S|} \sum_{k \in S} (w_k - w^t)

    over the nodes S at work, with :math:`w_k` the result of plain local steps from :math:`w^t` on the same batches.
    Nodes are judged by :math:`v_k`, which never leaves its node. (Code that others have published takes the gradients
    of the global update at other models than :math:`w_k`; this is the paper's form.)

    Args:
        lr: η, of both models.
        epochs: Passes over a node's samples per round, of both models.
        steps: Local steps per round, instead of ``epochs``; the authors' script takes 2.
        optimizer: Of both models, by name or as an object. Its state starts afresh in every round.
        lam: λ; 0 is local training, a large one FedAvg. The authors' script has 1.
        part: Part of the model that is averaged, and in which the personal model is pulled.
        buffers: ``"average"`` or ``"keep"`` running statistics of the global model; the personal ones stay with the
            node.

    Example:
        >>> ditto(lam=0.1).local.lam
        0.1
    """
    local = fit(lr, epochs, steps, batch_size, optimizer, momentum, weight_decay)
    return Method(
        "ditto",
        local=FitPersonal(local, lam, part),
        exchange=Exchange(part=part, buffers=buffers, route=ThroughServer(weights, incomplete=incomplete)),
        rewire=sample_nodes(fraction),
        judge=Judge(field="x_personal"),
    )
