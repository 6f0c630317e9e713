"""Federated averaging, of all nodes or inside true clusters."""

from __future__ import annotations

from typing import Literal, Unpack

from graphcollab.exchange import Exchange, ThroughServer
from graphcollab.method import Method
from graphcollab.methods._method import Training, Weights, fit, method
from graphcollab.rewire import sample_nodes
from graphcollab.settings import Buffers, Incomplete, Share

__all__ = ["fedavg"]


@method(lr=0.01, epochs=5, batch_size=10, weight_decay=5e-4)
def fedavg(
    *,
    fraction: Share = 1.0,
    weights: Weights = "counts",
    within: Literal["cluster"] | None = None,
    incomplete: Incomplete = "refuse",
    part: str = "all",
    buffers: Buffers = "average",
    **training: Unpack[Training],
) -> Method:
    r"""FedAvg: all nodes take the average of their models, weighted by sample counts.

    `Communication-Efficient Learning of Deep Networks from Decentralized Data (McMahan et al., AISTATS 2017)
    <https://arxiv.org/abs/1602.05629>`_.

    .. math::
        x \leftarrow \sum_{k \in S} \frac{n_k}{\sum_{l \in S} n_l} x_k

    over the nodes S at work, through a server node. Every node then has the average as its model. Where edges are
    given, every connected component has a server, and its nodes must all be allowed to hear each other; a node without
    neighbours trains alone. Inside true clusters (``within="cluster"``) every cluster has a server of its own, and the
    method is named ``fedavg_in_clusters``: what a method that finds the clusters could reach (the oracle that CoBo,
    NeurIPS 2024, is measured against).

    Args:
        within: ``"cluster"``: average inside the true clusters, which the tasks must know; None: over all nodes.
    """
    return Method(
        "fedavg_in_clusters" if within else "fedavg",
        local=fit(training),
        exchange=Exchange(part=part, buffers=buffers, route=ThroughServer(weights, within, incomplete)),
        rewire=sample_nodes(fraction),
    )
