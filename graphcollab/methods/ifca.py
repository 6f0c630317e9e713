"""IFCA: one model per cluster; every node uses the one that fits its data best."""

from __future__ import annotations

from typing import Literal, Unpack

from torch import Tensor

from graphcollab._base.settings import Buffers, Count, Incomplete, Natural, Share
from graphcollab.components import ChooseCenter, Exchange, ThroughCenters, sample_nodes
from graphcollab.methods.declare import Training, Weights, fit, method
from graphcollab.methods.method import Method


@method(ChooseCenter, lr=0.1, epochs=1, batch_size=10)
def ifca(
    *,
    clusters: Count = 2,
    divide: Literal["cluster", "all"] = "cluster",
    centers: Tensor | None = None,
    samples: Count | None = None,
    redraws: Natural = 0,
    least_share: Share | None = None,
    patience: Count = 5,
    fraction: Share = 1.0,
    weights: Weights = "uniform",
    incomplete: Incomplete = "refuse",
    part: str = "all",
    buffers: Buffers = "average",
    **training: Unpack[Training],
) -> Method:
    r"""IFCA: every node trains the cluster model with the lowest loss on its data and averages within that cluster.

    `An Efficient Framework for Clustered Federated Learning (Ghosh et al., NeurIPS 2020)
    <https://arxiv.org/abs/2006.04088>`_, algorithm 1.

    .. math::
        \hat\jmath_i = \arg\min_j F_i(\theta_j), \qquad
        \theta_j \leftarrow \frac{1}{|S_j|} \sum_{i \in S_j} x_i, \qquad S_j = \{i : \hat\jmath_i = j\}

    with :math:`x_i` the result of local steps of node i from its center (model averaging). Between rounds, nodes are
    evaluated with the center that fits their training data best at that time. A run warns, once, about unused centers.

    Gradient averaging, :math:`\theta_j \leftarrow \theta_j - (\gamma / m) \sum_{i \in S_j} g_i` with m participating
    nodes in total, is ``ifca(divide="all", steps=1)``. Model averaging is the default, as in the authors' experiments
    with networks: gradient averaging slows every center down to the share of the nodes that chose it.

    The paper draws every center independently; here the first is the initial model, and the others are copies of it
    with the entries of every parameter tensor permuted (`ChooseCenter`).

    Args:
        steps: Local steps per round, instead of ``epochs``; the authors take 10 on MNIST.
        clusters: C, the number of models.
        divide: ``"cluster"``: model averaging; ``"all"``: gradient averaging.
        least_share: At most an equal share, 1 / C. Default: half of it.
        part: Part of the model that exists once per cluster; the rest is the node's own.
        buffers: ``"average"``: each center has running statistics; ``"keep"``: they stay with the node.
    """
    also = sample_nodes(fraction)
    choose = ChooseCenter(clusters, part, buffers, centers, samples, redraws, least_share, patience, also, incomplete)
    return Method(
        "ifca",
        local=fit(training),
        exchange=Exchange(part=part, buffers=buffers, route=ThroughCenters(weights, divide)),
        rewire=choose,
    )
