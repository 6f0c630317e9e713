"""Ditto: a personal model beside the average, pulled towards it."""

from __future__ import annotations

from graphcollab.engine import SGD
from graphcollab.exchange import ServerAverage
from graphcollab.local import Fit, FitPersonal, PersonalModel
from graphcollab.method import Method
from graphcollab.rewire.sample_nodes import sample_nodes

__all__ = ["ditto"]


def ditto(
    lam: float = 1.0,
    epochs: int = 1,
    steps: int | None = None,
    lr: float = 0.05,
    weight_decay: float = 0.0,
    batch_size: int = 16,
    momentum: float = 0.0,
    fraction: float = 1.0,
    part: str = "all",
    buffers: str = "mix",
    weights: str = "uniform",
    incomplete: str = "refuse",
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
        lam: λ; 0 is local training, a large one FedAvg. The authors' script has 1.
        epochs: Passes over a node's samples per round, of both models.
        steps: Local steps per round, instead of ``epochs``; the authors' script takes 2.
        lr: η, of both models.
        weight_decay: Coefficient of the L2 penalty.
        batch_size: Samples per step.
        momentum: Momentum of both models, which starts afresh every round.
        fraction: Share of the nodes that works in a round (client sampling).
        part: Part of the model that is averaged, and in which the personal model is pulled.
        buffers: ``"mix"`` or ``"keep"`` running statistics of the global model; the personal ones stay with the node.
        weights: ``"uniform"``, or ``"counts"``: nodes count by their training samples.
        incomplete: ``"refuse"``, or ``"average"``: where edges are given, nodes of a connected component are averaged
            although not all of them may hear each other.

    Raises:
        ValueError: If a setting is out of its range.

    Example:
        >>> ditto(lam=0.1).local.lam
        0.1
    """
    optimizer = SGD(lr=lr, weight_decay=weight_decay, momentum=momentum)
    return Method(
        "ditto",
        local=FitPersonal(Fit(epochs, steps, batch_size, optimizer), lam, part),
        exchange=ServerAverage(part=part, buffers=buffers, weights=weights, incomplete=incomplete),
        rewire=sample_nodes(fraction),
        personal=PersonalModel(),
        global_state=True,
    )
