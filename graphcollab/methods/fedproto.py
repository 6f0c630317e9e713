"""FedProto: nodes agree on prototypes of classes, and share nothing else."""

from __future__ import annotations

from typing import Literal

from graphcollab.engine import PrototypeDistance
from graphcollab.exchange import PrototypeAverage, ThroughServer
from graphcollab.judge import Judge, NearestPrototype
from graphcollab.method import Method
from graphcollab.methods._method import Optimizer, Weights, fit, method
from graphcollab.rewire.scheduled import sample_nodes
from graphcollab.settings import Count, Incomplete, Momentum, NonNegative, Share

__all__ = ["fedproto"]


@method
def fedproto(
    *,
    lr: NonNegative = 0.01,
    epochs: Count = 1,
    steps: Count | None = None,
    batch_size: Count = 10,
    optimizer: Optimizer = "sgd",
    momentum: Momentum = 0.5,
    weight_decay: NonNegative = 0.0,
    lam: NonNegative = 1.0,
    predict: Literal["prototype", "head"] = "prototype",
    fraction: Share = 1.0,
    weights: Weights = "counts",
    incomplete: Incomplete = "refuse",
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
        predict: ``"prototype"``: nodes are judged by the nearest prototype; ``"head"``: by their own heads.
        fraction: Share of the nodes at work in a round (client sampling); prototypes reach the others too.
        weights: ``"counts"``: a node's prototype of a class counts by its samples of that class, as in the paper;
            ``"uniform"``: nodes that have the class count alike, as in the authors' code.

    Example:
        >>> fedproto(lam=0.1).local.objective
        PrototypeDistance(lam=0.1)
    """
    objective = PrototypeDistance(lam)
    local = fit(lr, epochs, steps, batch_size, optimizer, momentum, weight_decay, objective=objective)
    return Method(
        "fedproto",
        local=local,
        exchange=PrototypeAverage(ThroughServer(weights, incomplete=incomplete)),
        rewire=sample_nodes(fraction),
        judge=NearestPrototype() if predict == "prototype" else Judge(),
    )
