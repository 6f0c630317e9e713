"""Ditto: a personal model, pulled towards the average, trained alongside it."""

from __future__ import annotations

from typing import Unpack

from graphcollab._base.settings import NonNegative
from graphcollab.components import FitPersonal
from graphcollab.components.judge import Judge
from graphcollab.methods.declare import Serving, averaged, fit, method
from graphcollab.methods.method import Method


@method(lr=0.05, epochs=1, batch_size=16, weights="uniform", part="all", buffers="average")
def ditto(
    *,
    lam: NonNegative = 1.0,
    **given: Unpack[Serving],
) -> Method:
    r"""Ditto: every node trains a personal model that is pulled towards the average of all nodes' models.

    `Ditto: Fair and Robust Federated Learning Through Personalization (Li et al., ICML 2021)
    <https://arxiv.org/abs/2012.04221>`_, algorithm 1.

    .. math::
        v_k &\leftarrow v_k - \eta \big( \nabla F_k(v_k) + \lambda (v_k - w^t) \big) \\
        w^{t+1} &= w^t + \frac{1}{|S|} \sum_{k \in S} (w_k - w^t)

    over the participating nodes S, with :math:`w_k` the result of plain local steps from :math:`w^t` on the same
    batches. The evaluated model is :math:`v_k`, which never leaves its node. Training arguments apply to both models.
    (Code published by others takes the gradients of the global update at models other than :math:`w_k`; this is the
    paper's form.)

    Args:
        steps: Local steps per round, instead of ``epochs``; the authors' script takes 2.
        lam: λ; 0 is local training, a large value approaches FedAvg. The authors' script has 1.
        part: Part of the model that is averaged, and in which the personal model is pulled.
        buffers: Running statistics of the global model: ``"average"`` or ``"keep"``; personal ones stay with the node.
    """
    return Method(
        "ditto",
        local=FitPersonal(fit(given), lam, given["part"]),
        **averaged(given),
        judge=Judge(field="x_personal"),
    )
