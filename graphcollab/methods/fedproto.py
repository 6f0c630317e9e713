"""FedProto: nodes agree on prototypes of classes, and share nothing else."""

from __future__ import annotations

from graphcollab.engine import SGD, PrototypeDistance
from graphcollab.exchange import PrototypeAverage
from graphcollab.judge import NearestPrototype
from graphcollab.local import Fit
from graphcollab.method import Method, OwnModel
from graphcollab.rewire.sample_nodes import sample_nodes

__all__ = ["fedproto"]


def fedproto(
    lam: float = 1.0,
    epochs: int = 1,
    steps: int | None = None,
    lr: float = 0.01,
    momentum: float = 0.5,
    weight_decay: float = 0.0,
    batch_size: int = 10,
    fraction: float = 1.0,
    weights: str = "counts",
    predict: str = "prototype",
    incomplete: str = "refuse",
) -> Method:
    r"""FedProto: nodes with models of any architecture share the mean latents of their classes.

    `FedProto: Federated Prototype Learning across Heterogeneous Clients (Tan et al., AAAI 2022)
    <https://arxiv.org/abs/2105.00243>`_. Every node minimises, with :math:`z = f_i(x)` the latent of a sample,

    .. math::
        F_i + \lambda \, \mathbb{E}_{(x, y) \sim D_i} \Big[ \frac{1}{d_z} \lVert z - \bar c_y \rVert^2 \Big]

    then sends its own prototypes, the mean latents of its classes, to a server, which averages them to the
    :math:`\bar c` of the next round. A sample is given the class of the nearest prototype. In the first round there
    are none: nodes train alone. Models need latents of one size (`graphcollab.models.SplitModel` with the same
    ``latent``), and are never sent, so architectures may differ.

    What differs from the paper or from its code is named in `PrototypeDistance`, `PrototypeAverage` and
    `NearestPrototype`. The authors take batches of 4 samples; these are of 10, as in the other methods here.

    Args:
        lam: λ. The authors have 1, and 0.1 for CIFAR-10.
        epochs: Passes over a node's samples per round.
        steps: Local steps per round, instead of ``epochs``.
        lr: Step size of SGD.
        momentum: Momentum of SGD, which starts afresh every round.
        weight_decay: Coefficient of the L2 penalty.
        batch_size: Samples per step.
        fraction: Share of the nodes that works in a round (client sampling); prototypes reach the others too.
        weights: ``"counts"``: a node's prototype of a class counts by its samples of that class, as in the paper;
            ``"uniform"``: nodes that have the class count alike, as in the authors' code.
        predict: ``"prototype"``: nodes are judged by the nearest prototype; ``"head"``: by their own heads.
        incomplete: ``"refuse"``, or ``"average"``: where edges are given, nodes of a connected component are averaged
            although not all of them may hear each other.

    Raises:
        ValueError: If a setting is out of its range.

    Example:
        >>> fedproto(lam=0.1).local.objective
        PrototypeDistance(lam=0.1)
    """
    if predict not in ("prototype", "head"):
        raise ValueError(f"predict must be 'prototype' or 'head', got {predict!r}")
    return Method(
        "fedproto",
        local=Fit(
            epochs=epochs,
            steps=steps,
            batch_size=batch_size,
            optimizer=SGD(lr=lr, momentum=momentum, weight_decay=weight_decay),
            objective=PrototypeDistance(lam),
        ),
        exchange=PrototypeAverage(weights, incomplete),
        rewire=sample_nodes(fraction),
        personal=NearestPrototype() if predict == "prototype" else OwnModel(),
        global_state=True,
    )
