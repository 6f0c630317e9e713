"""FedProto: nodes agree on prototypes of classes, and share nothing else."""

from __future__ import annotations

from typing import Literal, Unpack

from graphcollab._base.settings import Incomplete, NonNegative, Share
from graphcollab.components.exchange import ThroughServer
from graphcollab.components.exchange.unmixed import PrototypeAverage
from graphcollab.components.judge import Judge, NearestPrototype
from graphcollab.components.local.prototypes import PrototypeDistance
from graphcollab.components.rewire.scheduled import sample_nodes
from graphcollab.methods.declare import Training, Weights, fit, method
from graphcollab.methods.method import Method


@method(lr=0.01, epochs=1, batch_size=10, momentum=0.5)
def fedproto(
    *,
    lam: NonNegative = 1.0,
    predict: Literal["prototype", "head"] = "prototype",
    fraction: Share = 1.0,
    weights: Weights = "counts",
    incomplete: Incomplete = "refuse",
    **training: Unpack[Training],
) -> Method:
    r"""FedProto: nodes with models of any architecture share the mean latents of their classes.

    `FedProto: Federated Prototype Learning across Heterogeneous Clients (Tan et al., AAAI 2022)
    <https://arxiv.org/abs/2105.00243>`_. Every node minimizes, with :math:`z = f_i(x)` the latent of a sample,

    .. math::
        F_i + \lambda \, \mathbb{E}_{(x, y) \sim D_i} \Big[ \frac{1}{d_z} \lVert z - \bar c_y \rVert^2 \Big]

    then sends its own prototypes, the mean latents of its classes, to a server, which averages them to the
    :math:`\bar c` of the next round. A sample is given the class of the nearest prototype. In the first round there
    are none: nodes train alone. Models need latents of one size (`graphcollab.models.SplitModel` with the same
    ``latent``), and are never sent, so architectures may differ.

    Deviations: latents are of the model after the local update, in evaluation mode, of all training samples, as the
    paper's equation says; the authors' code collects them while the last local epoch goes on, from a model that moves.
    The paper's aggregation also divides by the number of nodes that have the class, which would shrink averages of
    equal prototypes; here weights sum to 1. The paper writes a sum, over classes, of distances between class means;
    this is the authors' code: one distance for every sample, as a mean over components. Losses are those of a softmax
    over negative squared distances, at temperature 1; accuracies can be compared with those of other methods, losses
    cannot. The authors take batches of 4 samples; these are of 10, as in the other methods here.

    Args:
        lam: λ. The authors have 1, and 0.1 for CIFAR-10.
        predict: ``"prototype"``: nodes are judged by the nearest prototype; ``"head"``: by their own heads.
        fraction: Share of the nodes at work in a round (client sampling); prototypes reach the others too.
        weights: ``"counts"``: a node's prototype of a class counts by its samples of that class, as in the paper;
            ``"uniform"``: nodes that have the class count alike, as in the authors' code.
    """
    return Method(
        "fedproto",
        local=fit(training, objective=PrototypeDistance(lam)),
        exchange=PrototypeAverage(ThroughServer(weights, incomplete=incomplete)),
        rewire=sample_nodes(fraction),
        judge=NearestPrototype() if predict == "prototype" else Judge(),
    )
