"""Federated averaging, of all nodes or inside true clusters."""

from __future__ import annotations

from graphcollab.engine import SGD
from graphcollab.exchange import Exchange, ThroughServer
from graphcollab.local import Fit
from graphcollab.method import Method
from graphcollab.rewire.sample_nodes import sample_nodes

__all__ = ["fedavg"]


def fedavg(
    epochs: int = 5,
    lr: float = 0.01,
    weight_decay: float = 5e-4,
    batch_size: int = 10,
    momentum: float = 0.0,
    fraction: float = 1.0,
    part: str = "all",
    buffers: str = "mix",
    steps: int | None = None,
    weights: str = "counts",
    within: str | None = None,
    incomplete: str = "refuse",
) -> Method:
    r"""FedAvg: average all models, weighted by sample counts.

    `Communication-Efficient Learning of Deep Networks from Decentralized Data (McMahan et al., AISTATS 2017)
    <https://arxiv.org/abs/1602.05629>`_.

    .. math::
        x \leftarrow \sum_{k \in S} \frac{n_k}{\sum_{l \in S} n_l} x_k

    over the nodes S at work, through a server node; every node then holds the average and is judged by it. Where edges
    are given, every connected component has a server, and its nodes must all be allowed to hear each other; a node
    without neighbours trains alone. Inside true
    clusters (``within="cluster"``) every cluster has a server of its own, and the method is named
    ``fedavg_in_clusters``: what a method that finds the clusters could reach (the oracle that CoBo, NeurIPS 2024, is
    measured against).

    Args:
        epochs: Passes over a node's samples per round.
        lr: Step size of SGD.
        weight_decay: Coefficient of the L2 penalty.
        batch_size: Samples per step.
        momentum: Momentum of SGD.
        fraction: Share of the nodes that works in a round (client sampling).
        part: Part of the model that is averaged.
        buffers: ``"mix"`` or ``"keep"`` running statistics.
        steps: Local steps per round, instead of ``epochs``.
        weights: ``"counts"``, or ``"uniform"``: all nodes count alike.
        within: ``"cluster"``: average inside the true clusters, which the tasks must know; None: over all nodes.
        incomplete: ``"refuse"``, or ``"average"``: where edges are given, nodes of a connected component are averaged
            although not all of them may hear each other.

    Example:
        >>> fedavg(fraction=0.1).rewire
        SampleNodes(fraction=0.1)
        >>> fedavg(within="cluster").name
        'fedavg_in_clusters'
    """
    optimizer = SGD(lr=lr, weight_decay=weight_decay, momentum=momentum)
    return Method(
        "fedavg_in_clusters" if within == "cluster" else "fedavg",
        local=Fit(epochs=epochs, steps=steps, batch_size=batch_size, optimizer=optimizer),
        exchange=Exchange(part=part, buffers=buffers, route=ThroughServer(weights, within, incomplete)),
        rewire=sample_nodes(fraction),
    )
