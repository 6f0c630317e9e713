"""FedSim, of Pillutla and others: one part of the model is averaged, the rest is personal, both train together."""

from __future__ import annotations

from dataclasses import replace

from graphcollab.engine import RowOptimizer, as_row_optimizer
from graphcollab.exchange import Exchange, ThroughServer
from graphcollab.local import Fit
from graphcollab.method import Method
from graphcollab.rewire.sample_nodes import sample_nodes
from graphcollab.settings import Positive, check_setting

__all__ = ["fedsim_pillutla"]


def fedsim_pillutla(
    part: str = "head",
    epochs: int = 1,
    steps: int | None = None,
    lr: float = 0.01,
    weight_decay: float = 0.0,
    batch_size: int = 32,
    optimizer: str | RowOptimizer = "sgd",
    server_lr: float = 1.0,
    fraction: float = 1.0,
    weights: str = "counts",
    buffers: str = "keep",
    incomplete: str = "refuse",
) -> Method:
    r"""FedSim: nodes train shared and personal parameters simultaneously, and average the shared ones.

    `Federated Learning with Partial Model Personalization (Pillutla et al., ICML 2022)
    <https://arxiv.org/abs/2204.03809>`_, algorithm 2. It has the first author's name because there is another FedSim:
    `graphcollab.weigh.FedSim`, a rule that weighs peers by the probabilities they were drawn with.

    Node i takes τ steps on (u_i, v_i) together, from the shared u and its own v_i. Then, over the nodes S at work,

    .. math::
        u \leftarrow u + \eta_s \sum_{i \in S} \frac{n_i}{\sum_{k \in S} n_k} (u_i - u)

    and v_i stays. (The paper's FedAlt, which trains v_i first and then u, is not here.)

    Args:
        part: u, the part that is shared; or several, such as ``"backbone+prototypes"``. The paper leaves it to the
            user; the head is shared, and backbones may differ, where MAPL (Mukherjee et al., 2024) compares with this
            method, with ``weights="uniform"``.
        epochs: Passes over a node's samples per round, on u and v together.
        steps: τ, local steps per round, instead of ``epochs``.
        lr: Step size of u and v; without meaning where an optimiser is given that has its own.
        weight_decay: Coefficient of the L2 penalty.
        batch_size: Samples per step.
        optimizer: ``"sgd"`` or ``"adam"``, or an optimiser of `graphcollab.local`. Its state starts afresh every round.
        server_lr: η_s. 1 is plain averaging, as in the authors' scripts. (Momentum and Adam at the server, which their
            code offers too, are not here.) Another one needs a u to start from: where architectures start with
            different ones, it is their mean over the nodes at work.
        fraction: Share of the nodes that works in a round (client sampling).
        weights: ``"counts"``: a node counts by its training samples n_i; ``"uniform"``: all nodes count alike.
        buffers: ``"keep"``: running statistics are personal; ``"mix"``: they are averaged.
        incomplete: ``"refuse"``, or ``"average"``: where edges are given, nodes of a connected component are averaged
            although not all of them may hear each other.

    Raises:
        ValueError: If a setting is out of its range.

    Example:
        >>> fedsim_pillutla(weights="uniform").exchange.part
        'head'
    """
    check_setting("server_lr", Positive, server_lr)
    if isinstance(optimizer, str):
        optimizer = as_row_optimizer(optimizer, lr=lr, weight_decay=weight_decay)
    route = ThroughServer(weights, incomplete=incomplete)
    average = Exchange(part=part, buffers=buffers, route=route)
    return Method(
        "fedsim_pillutla",
        local=Fit(epochs=epochs, steps=steps, batch_size=batch_size, optimizer=optimizer),
        exchange=average if server_lr == 1 else replace(average, base="x_start", message="update", scale=server_lr),
        rewire=sample_nodes(fraction),
    )
