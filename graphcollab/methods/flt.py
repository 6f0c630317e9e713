"""FLT: a single comparison of all tasks determines which nodes share models, followed by federated averaging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Unpack

from graphcollab._base.settings import Buffers, Count, Positive, Real, Share
from graphcollab.components import Encoder, Exchange, NeighborhoodMeans, SampleCounts, TaskPeers, Uniform, sample_nodes
from graphcollab.methods.declare import Training, Weights, fit, method
from graphcollab.methods.method import Method


@method(TaskPeers, lr=0.01, epochs=5, batch_size=10, momentum=0.5)
def flt(
    *,
    encoder: Encoder | None = None,
    centers: Count | None = None,
    reduce: Literal["pca"] | Callable[[Any], Any] | None = None,
    threshold: Annotated[float, Real(above=0, infinite=True)] | None = None,
    window: tuple[Positive, Positive] = (0.55, 0.85),
    groups: Count | None = None,
    fraction: Share = 1.0,
    weights: Weights = "counts",
    part: str = "all",
    buffers: Buffers = "average",
    **training: Unpack[Training],
) -> Method:
    r"""FLT: nodes with similar encoded samples are connected once and then average their models as in FedAvg.

    `Federated Learning With Taskonomy for Non-IID Data (Jamali-Rad, Abdizadeh, Singh, IEEE TNNLS 2022)
    <https://arxiv.org/abs/2103.15947>`_.

    .. math::
        x_i \leftarrow \frac{\sum_j A_{ij} n_j x_j}{\sum_j A_{ij} n_j}

    over the participating nodes, through a server, with A from `TaskPeers`: before the first round, nodes send cluster
    centers of their samples' codes, and nodes with matching centers are connected. Training settings are the authors'
    for CIFAR-10, where a fifth of the nodes takes part in a round (``fraction=0.2``).

    All averages are over the models that were sent. The authors' code replaces models one by one, so later nodes
    average models that earlier nodes have already averaged; nodes of one group then end up with different models. It
    also averages models that nodes at rest sent in earlier rounds; here, as in FedAvg, these are left out.

    The right threshold depends on the codes. For clusters with disjoint classes, the default yields blocks in most
    cases; ``groups`` is more reliable. ``flt().rewire.distances(tasks)`` shows where a ``threshold`` would cut.

    Args:
        threshold: Nodes at a distance below it are connected. Default: the widest gap in ``window``.
        window: Range in which that gap is searched, in distances between a node's own centers.
    """
    return Method(
        "flt",
        local=fit(training),
        weigh=SampleCounts() if weights == "counts" else Uniform(),
        exchange=Exchange(part=part, buffers=buffers, route=NeighborhoodMeans()),
        rewire=TaskPeers(encoder, centers, reduce, threshold, window, groups, sample_nodes(fraction)),
    )
