"""IFCA: as many models as there are clusters, and every node takes the one that fits its data best."""

from __future__ import annotations

from torch import Tensor

from graphcollab.engine import SGD
from graphcollab.exchange import Exchange, ThroughCenters
from graphcollab.local import Fit
from graphcollab.method import Method
from graphcollab.rewire import ChooseCenter
from graphcollab.rewire.sample_nodes import sample_nodes

__all__ = ["ifca"]


def ifca(
    clusters: int = 2,
    epochs: int = 1,
    steps: int | None = None,
    lr: float = 0.1,
    weight_decay: float = 0.0,
    batch_size: int = 10,
    momentum: float = 0.0,
    fraction: float = 1.0,
    divide: str = "cluster",
    part: str = "all",
    buffers: str = "mix",
    weights: str = "uniform",
    centers: Tensor | None = None,
    samples: int | None = None,
    redraws: int = 0,
    least_share: float | None = None,
    patience: int = 5,
    incomplete: str = "refuse",
) -> Method:
    r"""IFCA: choose a cluster's model by its loss, train it, and average with those who chose the same.

    `An Efficient Framework for Clustered Federated Learning (Ghosh et al., NeurIPS 2020)
    <https://arxiv.org/abs/2006.04088>`_, algorithm 1.

    .. math::
        \hat\jmath_i = \arg\min_j F_i(\theta_j), \qquad
        \theta_j \leftarrow \frac{1}{|S_j|} \sum_{i \in S_j} x_i, \qquad S_j = \{i : \hat\jmath_i = j\}

    with :math:`x_i` what node i makes of its centre in some local steps (model averaging). Between rounds nodes are
    judged by the centre that fits their training data best by then. A run says, once, when centres are out of use.

    Gradient averaging, :math:`\theta_j \leftarrow \theta_j - (\gamma / m) \sum_{i \in S_j} g_i` with m nodes at work in
    all, is ``ifca(divide="all", steps=1)``. Model averaging is the default, as in the authors' experiments with
    networks: the other one slows every centre down to the share of the nodes that chose it.

    The paper draws every centre anew; here the first is the initial model, and the others are that with every parameter
    tensor in another order (`graphcollab.rewire.ChooseCenter`).

    Args:
        clusters: C, the number of models.
        epochs: Passes over a node's samples per round.
        steps: Local steps per round, instead of ``epochs``; the authors take 10 on MNIST.
        lr: Step size of SGD.
        weight_decay: Coefficient of the L2 penalty.
        batch_size: Samples per step.
        momentum: Momentum of SGD.
        fraction: Share of the nodes that works in a round (client sampling).
        divide: ``"cluster"``: model averaging; ``"all"``: gradient averaging.
        part: Part of the model that there is one of per cluster; the rest is the node's own.
        buffers: ``"mix"``: each centre has running statistics; ``"keep"``: they stay with the node.
        weights: ``"uniform"``, or ``"counts"``: nodes count by their training samples.
        centers: Centres to start from, [C, P_part], all different.
        samples: Training samples that a node looks at to choose; with few local steps a round, looking at all of them
            costs more than training. Default: all.
        redraws: How often other centres may be drawn at the start, until every one gets ``least_share`` of the nodes.
        least_share: Default: half of an equal share.
        patience: Rounds after which a centre that nobody chooses is reported.
        incomplete: ``"refuse"``, or ``"average"``: where edges are given, nodes of a connected component are averaged
            although not all of them may hear each other.

    Raises:
        TypeError: If the centres given are no tensor.
        ValueError: If a setting is out of its range, or centres are given and redraws asked for.

    Example:
        >>> ifca(clusters=4, divide="all", steps=1).exchange.route.divide
        'all'
    """
    optimizer = SGD(lr=lr, weight_decay=weight_decay, momentum=momentum)
    return Method(
        "ifca",
        local=Fit(epochs=epochs, steps=steps, batch_size=batch_size, optimizer=optimizer),
        exchange=Exchange(part=part, buffers=buffers, route=ThroughCenters(weights, divide)),
        rewire=ChooseCenter(
            clusters,
            part,
            buffers,
            centers,
            samples,
            redraws,
            least_share,
            patience,
            sample_nodes(fraction),
            incomplete,
        ),
    )
