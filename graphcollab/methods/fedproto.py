"""FedProto: nodes share only class prototypes."""

from __future__ import annotations

from typing import Literal, Unpack

from graphcollab._base.settings import Incomplete, NonNegative, Share
from graphcollab.components import PrototypeAverage, PrototypeDistance, ThroughServer, sample_nodes
from graphcollab.components.judge import Judge, NearestPrototype
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
    :math:`\bar c` of the next round. The predicted class of a sample is that of the nearest prototype. The first round
    has no prototypes: nodes train alone. Models are never sent, so architectures may differ; they only need latents of
    the same size (`graphcollab.models.SplitModel` with the same ``latent``).

    Deviations: latents are computed from the model after the local update, in evaluation mode, over all training
    samples, as in the paper's equation; the authors' code collects them during the last local epoch, while the model
    still changes. The paper's aggregation also divides by the number of nodes that have the class, which would shrink
    averages of equal prototypes; here weights sum to 1. The paper writes a sum, over classes, of distances between
    class means; this implementation follows the authors' code: one distance for every sample, as a mean over
    components. Losses are those of a softmax over negative squared distances at temperature 1; accuracies are
    comparable with those of other methods, losses are not. The authors use batches of 4 samples; the default here is
    10, as in the other methods.

    Args:
        lam: λ. The authors use 1, and 0.1 for CIFAR-10.
        predict: ``"prototype"``: nodes are evaluated by the nearest prototype; ``"head"``: by their own heads.
        fraction: Share of the nodes that take part in a round (client sampling); prototypes reach all nodes.
        weights: ``"counts"``: a node's prototype of a class is weighted by its samples of that class, as in the paper;
            ``"uniform"``: all nodes that have the class have equal weights, as in the authors' code.
    """
    return Method(
        "fedproto",
        local=fit(training, objective=PrototypeDistance(lam)),
        exchange=PrototypeAverage(ThroughServer(weights, incomplete=incomplete)),
        rewire=sample_nodes(fraction),
        judge=NearestPrototype() if predict == "prototype" else Judge(),
    )
