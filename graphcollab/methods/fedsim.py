"""FedSim: one part of the model is averaged, the rest is personal, and both are trained together."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from graphcollab._base.settings import Positive
from graphcollab.methods.declare import Serving, averaged, fit, method
from graphcollab.methods.method import Method


@method(lr=0.01, epochs=1, batch_size=32, part="head", buffers="keep")
def fedsim(
    *,
    server_lr: Positive = 1.0,
    **given: Unpack[Serving],
) -> Method:
    r"""FedSim: nodes train shared and personal parameters simultaneously and average the shared ones.

    `Federated Learning with Partial Model Personalization (Pillutla et al., ICML 2022)
    <https://arxiv.org/abs/2204.03809>`_, algorithm 2.

    Node i takes τ steps on (u_i, v_i) jointly, from the shared u and its own v_i. Then, over the participating nodes S,

    .. math::
        u \leftarrow u + \eta_s \sum_{i \in S} \frac{n_i}{\sum_{k \in S} n_k} (u_i - u)

    and v_i stays local. Not implemented are the paper's FedAlt, which trains v_i first and then u, and the server-side
    momentum and Adam of the authors' code.

    Args:
        server_lr: η_s. 1 is plain averaging, as in the authors' scripts. Any other value needs an initial u: if
            architectures start with different ones, it is their mean over the participating nodes.
        part: u, such as ``"backbone+prototypes"``. The paper leaves it to the user; the head is what MAPL (Mukherjee
            et al., 2024) shares in its comparison with this method, with ``weights="uniform"``.
    """
    slots = averaged(given)
    if server_lr != 1:
        slots["exchange"] = replace(slots["exchange"], base="x_start", message="update", scale=server_lr)
    return Method("fedsim", local=fit(given), **slots)
