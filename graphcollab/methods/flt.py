"""FLT: one look at all tasks says who shares with whom, then federated averaging."""

from __future__ import annotations

from graphcollab.engine import SGD
from graphcollab.exchange import Exchange, NeighborhoodMeans
from graphcollab.local import Fit
from graphcollab.method import Method
from graphcollab.peers import Encoder, Reduce
from graphcollab.rewire import TaskPeers
from graphcollab.rewire.sample_nodes import sample_nodes
from graphcollab.weigh import SampleCounts, Uniform

__all__ = ["flt"]


def flt(
    epochs: int = 5,
    steps: int | None = None,
    lr: float = 0.01,
    momentum: float = 0.5,
    weight_decay: float = 0.0,
    batch_size: int = 10,
    encoder: Encoder | None = None,
    centers: int | None = None,
    reduce: Reduce | None = None,
    threshold: float | None = None,
    window: tuple[float, float] = (0.55, 0.85),
    groups: int | None = None,
    fraction: float = 1.0,
    weights: str = "counts",
    part: str = "all",
    buffers: str = "mix",
) -> Method:
    r"""FLT: connect nodes whose encoded samples are alike, once; then average with those, by FedAvg.

    `Federated Learning With Taskonomy for Non-IID Data (Jamali-Rad, Abdizadeh, Singh, IEEE TNNLS 2022)
    <https://arxiv.org/abs/2103.15947>`_.

    .. math::
        x_i \leftarrow \frac{\sum_j A_{ij} n_j x_j}{\sum_j A_{ij} n_j}

    over the nodes at work, through a server, with A from `graphcollab.rewire.TaskPeers`: before the first round nodes
    send cluster centres of their samples' codes, and those whose centres match are connected. Settings of training are
    the authors' for CIFAR-10, where a fifth of the nodes works in a round (``fraction=0.2``).

    All averages are of the models that were sent. The authors' code replaces models one by one, so that later nodes
    average what earlier ones have averaged; nodes of one group then end up with different models. It also averages what
    nodes at rest sent in earlier rounds; here, as in FedAvg, they are left out.

    How near is near depends on the codes. The default looks for a gap between the distances, and of clusters with
    classes of their own it makes blocks in most cases; ``groups``, where their number is known, is surer.
    ``flt().rewire.distances(tasks)`` shows what a ``threshold`` would cut.

    Args:
        epochs: Passes over a node's samples per round.
        steps: Local steps per round, instead of ``epochs``.
        lr: Step size of SGD.
        momentum: Momentum of SGD.
        weight_decay: Coefficient of the L2 penalty.
        batch_size: Samples per step.
        encoder: A module or function from samples to codes. Default: samples are their own codes.
        centers: Centres per node. Default: the number of its classes, or 2.
        reduce: What the server makes of the centres before it compares them: ``"pca"``, or a function such as UMAP's
            ``fit_transform``. Default: nothing.
        threshold: Nodes at a distance below it are connected. Default: the widest gap in ``window``.
        window: Where that gap is looked for, in distances between a node's own centres.
        groups: Number of disjoint groups, instead of a threshold.
        fraction: Share of the nodes that works in a round (client sampling).
        weights: ``"counts"``, or ``"uniform"``: all nodes count alike.
        part: Part of the model that is averaged.
        buffers: ``"mix"`` or ``"keep"`` running statistics.

    Raises:
        TypeError: If the encoder is no function.
        ValueError: If a setting is out of its range.

    Example:
        >>> flt(groups=2, fraction=0.2).rewire.also
        SampleNodes(fraction=0.2)
    """
    weighers = {"counts": SampleCounts, "uniform": Uniform}
    if weights not in weighers:
        raise ValueError(f"weights must be one of {sorted(weighers)}, got {weights!r}")
    optimizer = SGD(lr=lr, weight_decay=weight_decay, momentum=momentum)
    return Method(
        "flt",
        local=Fit(epochs=epochs, steps=steps, batch_size=batch_size, optimizer=optimizer),
        weigh=weighers[weights](),
        exchange=Exchange(part=part, buffers=buffers, route=NeighborhoodMeans()),
        rewire=TaskPeers(encoder, centers, reduce, threshold, window, groups, sample_nodes(fraction)),
    )
