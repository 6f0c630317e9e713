"""pFedSim: backbones of nodes with similar classifiers are averaged."""

from __future__ import annotations

from typing import Annotated, Unpack

from graphcollab._base.settings import Buffers, Incomplete, Natural, Real, Share
from graphcollab.components import AtServer, Exchange, HeadAffinity, ThroughServer, sample_nodes
from graphcollab.components.judge import Judge
from graphcollab.methods.declare import Training, fit, method
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.transforms import WithSelfLoops


@method(HeadAffinity, lr=0.01, epochs=5, batch_size=32)
def pfedsim(
    *,
    warmup: Natural = 50,
    head: str = "head",
    cap: Annotated[float, Real(above=0, below=1)] = 0.9999,
    fraction: Share = 1.0,
    incomplete: Incomplete = "refuse",
    part: str = "backbone",
    buffers: Buffers = "average",
    **training: Unpack[Training],
) -> Method | Phases:
    r"""pFedSim: after a FedAvg warm-up, each node gets its own backbone, averaged by classifier similarity.

    `pFedSim: Similarity-Aware Model Aggregation Towards Personalized Federated Learning
    <https://arxiv.org/abs/2305.15706>`_ (Tan et al., 2023). After the local steps of a round, a server takes

    .. math::
        \omega \leftarrow \sum_j \frac{n_j}{\sum_k n_k} \omega_j, \qquad
        \phi \leftarrow \sum_j \frac{n_j}{\sum_k n_k} \phi_j

    of backbones ω and classifiers φ in the first ``warmup`` rounds, and after them, with α from `HeadAffinity`,

    .. math::
        \omega_i \leftarrow \sum_j \alpha_{ij} \omega_j, \qquad
        \alpha_{ij} \propto -\log\big(1 - \max(0, \cos(\phi_i, \phi_j))\big)

    while classifiers stay with their nodes. A given graph defines whose backbones a node may get; by default, all. The
    averages of the warm-up are then over connected components, whose nodes must all be allowed to hear each other.

    Differences from the authors' code: similarities are capped (at 0.9999) for all pairs, not only for a node with
    itself, so equal classifiers get the same weight as the node's own; under client sampling a mixture is over the
    participating nodes, not over models that other nodes sent long ago; a node's own classifier is not sent back to it.
    As in that code, nodes are evaluated with the models they trained last, before mixing (`Judge`).

    Args:
        warmup: Rounds of FedAvg; half of all rounds in the paper.
        cap: The largest similarity that counts.
        part: The part mixed after the warm-up, ω: parts that all architectures share; ``"head"`` mixes classifiers, by
            their own similarity. Parts that are neither this nor the classifier stay with the node.
    """
    personalized = Method(
        "pfedsim",
        local=fit(training),
        weigh=HeadAffinity(part, head, cap),
        exchange=Exchange(part=part, buffers=buffers, route=AtServer()),
        rewire=sample_nodes(fraction),
        prepare=WithSelfLoops(),
        judge=Judge(field="x_local"),
    )
    if warmup == 0:
        return personalized
    every = part if {"all", head} & {*part.split("+")} else f"{part}+{head}"
    average = Method(
        "pfedsim",
        local=personalized.local,
        exchange=Exchange(part=every, buffers=buffers, route=ThroughServer(incomplete=incomplete)),
        rewire=personalized.rewire,
        judge=personalized.judge,
    )
    return Phases(average, warmup, personalized)
