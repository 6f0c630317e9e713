"""Clusters of nodes that have some classes each, a number of samples of every class (MAPL's scenarios)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from graphcollab.keyed import keyed_uniform
from graphcollab.settings import Count, Natural, Seed, SettingError, checked
from graphcollab.tasks._deal import assemble, clusters_of, deal_by_class, draw_tests_by_class
from graphcollab.tasks.partition import Labelled
from graphcollab.tasks.pool import Pool
from graphcollab.tasks.tasks import Tasks

PER_CLASS = "at least 1, or (low, high) with 1 <= low < high"

__all__ = ["class_clusters", "class_windows"]

_COUNT_STREAM = 151
_SAME, _DRAWN = 300, (100, 300)  # samples of a class, in scenarios 1 and 2, and in 3 and 4


@checked
def class_windows(classes: Count, clusters: Count, overlap: Natural = 0) -> list[range]:
    """Return consecutive classes for every cluster, so that all occur and neighbouring clusters share ``overlap``.

    The first C - overlap classes are cut into pieces whose lengths differ by at most one (the first are longer), and
    every piece is lengthened by the next ``overlap`` classes. Where that is longer than a piece, clusters that are not
    neighbours share classes too.

    Args:
        classes: C, number of classes.
        clusters: Number of clusters.
        overlap: Classes that neighbouring clusters share.

    Raises:
        ValueError: If there are too few classes.

    Example:
        >>> class_windows(10, 2, overlap=4), class_windows(10, 3)
        ([range(0, 7), range(3, 10)], [range(0, 4), range(4, 7), range(7, 10)])
    """
    if classes - overlap < clusters:
        raise ValueError(
            f"{clusters} clusters that share {overlap} classes with their neighbours need at least "
            f"{clusters + overlap} classes, there are {classes}: use fewer clusters or a smaller overlap"
        )
    pieces = torch.arange(classes - overlap).tensor_split(clusters)
    return [range(int(piece[0]), int(piece[-1]) + 1 + overlap) for piece in pieces]


@checked
def class_clusters(
    data: Labelled,
    scenario: Literal[1, 2, 3, 4] = 1,
    nodes: Count = 20,
    clusters: Count = 2,
    per_class: Annotated[Count | tuple[Count, Count] | None, PER_CLASS] = None,
    overlap: Natural = 4,
    val: Natural = 0,
    test: Natural = 15,
    seed: Seed = 0,
    **kwargs: Any,
) -> Tasks:
    """Give every cluster of nodes some of the classes, and every node a number of samples of each of them.

    Scenarios 1 to 4 of section 5 of `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_
    (Mukherjee, Simonetto and Jamali-Rad, 2024), which has 10 and 20 nodes in 2 clusters:

    ========  ==================  ===========================
    scenario  classes of          samples of a class that a
              clusters            node has
    ========  ==================  ===========================
    1         disjoint            300
    2         overlapping         300
    3         disjoint            drawn from 100, …, 299
    4         overlapping         drawn from 100, …, 299
    ========  ==================  ===========================

    Classes go to clusters in the order of their labels, see `class_windows`. A training or validation sample belongs to
    one node; what a node gets depends on the seed and the nodes before it, not on those behind. Test samples are drawn
    for every node on its own, so nodes may share some.

    Where clusters overlap, the authors' configuration has 4 of 10 classes in common (0 … 6 and 3 … 9), which is the
    default; a figure in their appendix has 2 (0 … 5 and 4 … 9). Numbers are drawn from [100, 300] in the text and
    without the end in the code, as here. One thing is different: their code gives two nodes of consecutive numbers 100
    samples of each class in common.

    Args:
        data: A dataset with training and test samples.
        scenario: 1, 2, 3 or 4.
        nodes: K. Nodes are ordered cluster by cluster; sizes of clusters differ by at most one.
        clusters: Number of clusters.
        per_class: Samples of each of its classes that a node has: a number in scenarios 1 and 2, ``(low, high)`` in
            scenarios 3 and 4, from which numbers low, …, high - 1 are drawn for every node and class on its own.
            Default: the scenario's, as above. Small datasets need fewer.
        overlap: Classes that neighbouring clusters share in scenarios 2 and 4.
        val: How many of a node's samples of each class are set aside for validation. The paper has none.
        test: Test samples of a node for each of its classes.
        seed: Seed of the draws.
        kwargs: ``names``, ``loss``, ``metric`` and other fields of `Tasks`.

    Raises:
        ValueError: If ``per_class`` is not as the scenario asks, there are too few nodes or classes for the clusters,
            or a class has too few samples.

    Example:
        >>> from types import SimpleNamespace
        >>> x, y = torch.zeros(60, 1), torch.arange(60) % 5
        >>> data = SimpleNamespace(train_inputs=x, train_targets=y, test_inputs=x, test_targets=y)
        >>> tasks = class_clusters(data, scenario=2, nodes=3, per_class=4, overlap=1, val=1, test=2)
        >>> tasks.cluster.tolist(), tasks.classes.sum(1).tolist(), tasks.sizes("train").tolist()
        ([0, 0, 1], [3, 3, 3], [9, 9, 9])
    """
    if nodes < clusters:
        raise ValueError(f"nodes must be at least clusters={clusters}, got {nodes}")
    low, high = _bounds(scenario, per_class)
    if val >= low:
        raise ValueError(
            f"a node may have no more than {low} samples of a class, and val={val} leaves none for training: use a "
            "smaller val or a larger per_class"
        )
    labels = data.train_targets.unique()
    windows = class_windows(len(labels), clusters, overlap if scenario in (2, 4) else 0)
    cluster = clusters_of([len(part) for part in torch.arange(nodes).tensor_split(clusters)])
    count = 1 + int(torch.cat([data.train_targets, data.test_targets]).max())
    has = torch.zeros(clusters, count, dtype=torch.bool)
    for c, window in enumerate(windows):
        has[c, labels[list(window)]] = True
    numbers = _numbers(nodes, count, low, high, seed) * has[cluster]  # [K, C]
    own, held = deal_by_class(data.train_targets, numbers - val * has[cluster], val * has[cluster], seed)
    tests = draw_tests_by_class(data.test_targets, test * has[cluster], seed)
    pools = {"train": Pool(data.train_inputs, data.train_targets), "test": Pool(data.test_inputs, data.test_targets)}
    samples = {"train": ("train", own), "val": ("train", held), "test": ("test", tests)}
    return assemble(pools, samples, cluster, **kwargs)


def _bounds(scenario: int, per_class: int | tuple[int, int] | None) -> tuple[int, int]:
    """Return the smallest number of samples of a class, and one more than the largest."""
    drawn = scenario in (3, 4)
    if per_class is None:
        per_class = _DRAWN if drawn else _SAME
    if isinstance(per_class, int) == drawn:
        asked = "draws numbers: give (low, high)" if drawn else "has one number for all: give it"
        raise ValueError(f"scenario {scenario} {asked} as per_class, got {per_class!r}")
    low, high = (per_class, per_class + 1) if isinstance(per_class, int) else per_class
    if not 1 <= low < high:
        raise SettingError("per_class", PER_CLASS, per_class)
    return low, high


def _numbers(nodes: int, classes: int, low: int, high: int, seed: int) -> Tensor:
    """Draw a whole number from low, …, high - 1 for every node and class, [K, C]."""
    place = torch.arange(nodes)[:, None], torch.arange(classes)
    return low + ((high - low) * keyed_uniform(seed, _COUNT_STREAM, *place)).long()
