"""pFedSim: backbones of nodes with similar classifiers are averaged."""

from __future__ import annotations

from graphcollab.checks import check_whole
from graphcollab.engine import RowOptimizer, as_row_optimizer
from graphcollab.exchange import AtServer, Exchange, ThroughServer
from graphcollab.judge import JudgedBy
from graphcollab.local import Fit
from graphcollab.method import Method
from graphcollab.phases import Phases
from graphcollab.rewire.sample_nodes import sample_nodes
from graphcollab.transforms import WithSelfLoops
from graphcollab.weigh import HeadAffinity

__all__ = ["pfedsim"]


def pfedsim(
    warmup: int = 50,
    part: str = "backbone",
    head: str = "head",
    epochs: int = 5,
    lr: float = 0.01,
    weight_decay: float = 0.0,
    batch_size: int = 32,
    optimizer: str | RowOptimizer = "sgd",
    fraction: float = 1.0,
    buffers: str = "mix",
    cap: float = 0.9999,
    incomplete: str = "refuse",
) -> Method | Phases:
    r"""pFedSim: first FedAvg; then every node gets a backbone of its own, averaged by the similarity of classifiers.

    `pFedSim: Similarity-Aware Model Aggregation Towards Personalized Federated Learning
    <https://arxiv.org/abs/2305.15706>`_ (Tan et al., 2023). After the local steps of a round, a server takes

    .. math::
        \omega \leftarrow \sum_j \frac{n_j}{\sum_k n_k} \omega_j, \qquad
        \phi \leftarrow \sum_j \frac{n_j}{\sum_k n_k} \phi_j

    of backbones ω and classifiers φ in the first ``warmup`` rounds, and after them, with α from `HeadAffinity`,

    .. math::
        \omega_i \leftarrow \sum_j \alpha_{ij} \omega_j, \qquad
        \alpha_{ij} \propto -\log\big(1 - \max(0, \cos(\phi_i, \phi_j))\big)

    while classifiers stay with their nodes. A graph that is given says whose backbones a node may get; by default, all.
    The averages of the warm-up are then over connected components, whose nodes must all be allowed to hear each other.

    Where this is not the authors' code: similarities are capped for all pairs and not for a node with itself alone;
    under client sampling a mixture is of the nodes at work, not of what others sent long ago; a node's own classifier
    is not sent back to it. As there, nodes are judged by the models that they trained last, before mixing (`JudgedBy`).

    Args:
        warmup: Rounds of FedAvg. The paper plays half of all rounds so.
        part: What is mixed after them, ω. Parts of the model that are neither this nor the classifier are the node's
            own. Nodes of different architectures can mix parts that they have in common; ``"head"`` mixes the
            classifiers, by their own similarity.
        head: The classifier φ, a part that is one linear layer.
        epochs: Passes over a node's samples per round.
        lr: Step size; without meaning where an optimiser is given that has its own.
        weight_decay: Coefficient of the L2 penalty.
        batch_size: Samples per step.
        optimizer: ``"sgd"`` or ``"adam"``, or an optimiser of `graphcollab.local`. Its state starts afresh every round.
        fraction: Share of the nodes that works in a round (client sampling).
        buffers: ``"mix"``: running statistics are averaged with the backbones; ``"keep"``: they stay with the node.
        cap: The greatest similarity that counts.
        incomplete: ``"refuse"``, or ``"average"``: where edges are given, the warm-up averages
            nodes of a connected component although not all of them may hear each other.

    Raises:
        ValueError: If a setting is out of its range.

    Example:
        >>> method = pfedsim(warmup=20)
        >>> method.method.exchange.part, method.next.exchange.part
        ('backbone+head', 'backbone')
    """
    check_whole(minimum=0, warmup=warmup)
    if isinstance(optimizer, str):
        optimizer = as_row_optimizer(optimizer, lr=lr, weight_decay=weight_decay)
    personalised = Method(
        "pfedsim",
        local=Fit(epochs=epochs, batch_size=batch_size, optimizer=optimizer),
        weigh=HeadAffinity(part, head, cap),
        exchange=Exchange(part=part, buffers=buffers, route=AtServer()),
        rewire=sample_nodes(fraction),
        prepare=WithSelfLoops(),
        judge=JudgedBy("x_local"),
    )
    if warmup == 0:
        return personalised
    every = part if {"all", head} & {*part.split("+")} else f"{part}+{head}"
    average = Method(
        "pfedsim",
        local=personalised.local,
        exchange=Exchange(part=every, buffers=buffers, route=ThroughServer(incomplete=incomplete)),
        rewire=personalised.rewire,
        judge=JudgedBy("x_local"),
    )
    return Phases(average, warmup, personalised)
