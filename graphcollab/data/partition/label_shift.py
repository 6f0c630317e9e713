"""Clusters of nodes with disjoint classes, and the published groups of classes.

The thesis is *With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies*
(Hagander and Ihre-Thomason, Lund University, 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor

from graphcollab._base.errors import DuplicateError, EmptyError, TooFewError
from graphcollab._base.keyed import keyed_order
from graphcollab._base.settings import Count, Natural, Seed
from graphcollab.data._builders import TaskFields
from graphcollab.data.datasets.labeled_arrays import LabeledArrays
from graphcollab.data.partition._deal import (
    builder,
    check_clusters,
    clusters_of,
    deal,
    draw_tests,
    require,
    stored_once,
)
from graphcollab.data.tasks import Tasks

_CLASS_STREAM = 133

ANIMALS_VEHICLES: tuple[tuple[int, ...], ...] = ((2, 3, 4, 5, 6, 7), (0, 1, 8, 9))
"""CIFAR-10's animals (60 nodes) and vehicles (40 nodes), table A.1."""

FIVE_PAIRS: tuple[tuple[int, ...], ...] = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))
"""Five clusters of two of ten classes, 20 nodes each (section 3.1.2).

The thesis does not say which classes are paired; pairing neighboring labels is a choice of this package.
"""


@builder
def label_shift(
    data: LabeledArrays,
    groups: Sequence[Sequence[Natural]],
    nodes: Sequence[Count],
    train: Count | None = 400,
    val: Natural = 100,
    test: Natural | None = None,
    seed: Seed = 0,
    **kwargs: Unpack[TaskFields],
) -> Tasks:
    """Give every cluster of nodes samples of its own classes only.

    Sections 3.1.1, 3.1.2 and 3.1.6 of the thesis of Hagander and Ihre-Thomason (2024); `ANIMALS_VEHICLES` and
    `FIVE_PAIRS` are its groups of ten classes.

    A node's samples are drawn at random from those of its cluster's classes, ignoring the class, and belong to no other
    node. Labels are unchanged. The samples of the m-th node of a cluster depend on the seed, the cluster's classes and
    m alone; samples are stored once.

    Args:
        groups: Classes of every cluster; no class may be in two clusters.

    Example:
        >>> from graphcollab.data.datasets import from_arrays
        >>> x, y = torch.zeros(40, 1), torch.arange(40) % 4
        >>> data = from_arrays(x, y, x, y)
        >>> tasks = label_shift(data, groups=[(0, 1, 2), (3,)], nodes=[2, 1], train=8, val=2)
        >>> tasks.cluster.tolist(), tasks.names[2], tasks.classes[2].tolist()
        ([0, 0, 1], 'cluster 1, node 2', [False, False, False, True])
    """
    check_clusters(nodes, len(groups), "groups of classes")
    seen: dict[int, int] = {}
    for c, group in enumerate(groups):
        if not len(group):
            raise EmptyError(f"cluster {c}", f"cluster {c} has no classes: name at least one")
        for label in group:
            if label in seen:
                raise DuplicateError(
                    f"class {label}",
                    f"class {label} is in clusters {seen[label]} and {c}: each class can be in one only",
                )
            seen[label] = c
    own: list[Tensor] = []
    held: list[Tensor] = []
    tests: list[Tensor] = []
    for c, (group, many) in enumerate(zip(groups, nodes, strict=True)):
        who = f"cluster {c} (classes {', '.join(map(str, group))})"
        classes = torch.tensor(list(group))
        for label in group:
            require((data.train.targets == label).nonzero(), 1, f"class {label}", "training samples; its nodes")
        there, judged = (torch.isin(t, classes).nonzero().flatten() for t in (data.train.targets, data.test.targets))
        shares = deal(there, many, train, val, seed, who)
        own += shares[0]
        held += shares[1]
        tests += draw_tests(judged, c, many, test, seed, who)
    return stored_once(data, (own, held), tests, clusters_of(nodes), **kwargs)


@builder
def disjoint_classes(
    data: LabeledArrays,
    nodes: Sequence[Count] = (6, 6, 7, 7, 8, 8, 9, 9, 10, 10),
    train: Count | None = None,
    val: Natural = 100,
    test: Natural | None = None,
    seed: Seed = 0,
    **kwargs: Unpack[TaskFields],
) -> Tasks:
    """Draw classes for every cluster of nodes and deal all their samples to its nodes: a random `label_shift`.

    The cross-device task of section 4.2 of `CoBo: Collaborative Learning via Bilevel Optimization
    <https://arxiv.org/abs/2409.05539>`_ (Hashemi et al., NeurIPS 2024), whose setting is the default: on CIFAR-100, 10
    clusters of 10 classes with 6, 6, 7, 7, …, 10, 10 nodes, 80 in all; it has no validation samples (``val=0``). A
    cluster's samples are dealt out at random, so nodes of larger clusters have fewer. For clusters of two classes,
    :func:`graphcollab.data.datasets.join_datasets` makes 20 classes from MNIST and Fashion-MNIST.

    Clusters get equally many classes, as many as possible; remaining classes are omitted.
    """
    classes = data.train.targets.unique()
    each = len(classes) // max(len(nodes), 1)
    if each < 1:
        raise TooFewError(
            "classes", f"{len(nodes)} clusters need a class each, and there are {len(classes)}: use fewer clusters"
        )
    drawn = classes[keyed_order(seed, _CLASS_STREAM, classes)][: each * len(nodes)].view(len(nodes), each)
    groups = drawn.sort(1).values.tolist()
    return label_shift(data, groups, nodes, train, val, test, seed, **kwargs)
