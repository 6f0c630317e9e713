"""Nodes with a given number of samples per class: majority classes, and MAPL's clusters of classes.

Training and validation samples belong to one node each, and depend on the seed and the previous nodes, not on later
ones. Test samples are drawn independently for every node, so nodes may share some.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Unpack

import torch

from graphcollab._base.errors import ConflictError, MismatchError, RangeError, TooFewError
from graphcollab._base.keyed import keyed_uniform
from graphcollab._base.settings import Count, Fraction, Natural, Seed, SettingError
from graphcollab.data._builders import TaskFields
from graphcollab.data.datasets.labeled_arrays import LabeledArrays
from graphcollab.data.partition._deal import builder, clusters_of, deal_counts
from graphcollab.data.tasks import Tasks

PER_CLASS = "at least 1, or (low, high) with 1 <= low < high"

_COUNT_STREAM = 151


def majority_counts(size: int, majority: Sequence[int], p: float, classes: int = 10) -> list[int]:
    """Return the class counts of ``size`` samples, of which the share ``p`` is of the majority classes."""
    chosen = sorted(set(majority))
    if not chosen or len(chosen) < len(majority) or not 0 <= chosen[0] <= chosen[-1] < classes:
        raise RangeError(
            "majority", f"a majority must be one or more different classes of 0 .. {classes - 1}, got {list(majority)}"
        )
    if len(chosen) == classes and p != 1:
        raise ConflictError("p", f"p must be 1 where all {classes} classes are in the majority, got {p}")
    out = [0] * classes
    many = math.floor(size * p + 0.5)
    for group, total in ((chosen, many), ([c for c in range(classes) if c not in chosen], size - many)):
        for place, c in enumerate(group):
            out[c] = total // len(group) + (place < total % len(group))
    return out


@builder
def majority_tasks(
    data: LabeledArrays,
    majorities: Sequence[Sequence[Natural]],
    p: Fraction = 0.7,
    train: Count | Sequence[Count] = 1000,
    val: Natural = 200,
    test: Natural = 300,
    seed: Seed = 0,
    **kwargs: Unpack[TaskFields],
) -> Tasks:
    """Give every node most of its samples from its majority classes and few from the other classes.

    Section 5.1 of *Learning Directed Collaboration Graphs for Peer-to-Peer Personalized Learning* (Zheng, Ohio State
    University, 2021): of N samples, N p / n are of each of a node's n majority classes, N (1 - p) / (10 - n) of each
    other class; p = n / 10 makes all nodes alike, in training, validation and testing; the thesis has no validation
    samples (``val=0``). N p is rounded to the nearest integer (half up), and classes with the smallest labels get one
    more sample if a division leaves a remainder. ``cluster`` groups nodes with the same majority classes, numbered
    in order of appearance.

    Args:
        majorities: Majority classes of every node.
        p: Share of samples from the majority classes.
        train: N, training samples of a node; one number for all or one per node.
        test: Test samples of a node.
    """
    nodes = len(majorities)
    sizes = [train] * nodes if isinstance(train, int) else list(train)
    if not nodes or len(sizes) != nodes:
        raise MismatchError(
            "majority", f"each node needs majority classes and a number of samples, got {nodes} and {len(sizes)}"
        )
    classes = data.num_classes
    counts = {
        name: torch.tensor([majority_counts(n, m, p, classes) for n, m in zip(many, majorities, strict=True)])
        for name, many in (("train", sizes), ("val", [val] * nodes), ("test", [test] * nodes))
    }  # [K, C] each
    numbers: dict[frozenset[int], int] = {}
    cluster = torch.tensor([numbers.setdefault(frozenset(m), len(numbers)) for m in majorities])
    return deal_counts(data, **counts, cluster=cluster, seed=seed, **kwargs)


def class_windows(classes: int, clusters: int, overlap: int = 0) -> list[range]:
    """Return consecutive classes for every cluster, such that all occur and neighboring clusters share ``overlap``."""
    if classes - overlap < clusters:
        raise TooFewError(
            "clusters",
            f"{clusters} clusters that share {overlap} classes need {clusters + overlap} classes, there are {classes}",
        )
    pieces = torch.arange(classes - overlap).tensor_split(clusters)
    return [range(int(piece[0]), int(piece[-1]) + 1 + overlap) for piece in pieces]


@builder
def class_clusters(
    data: LabeledArrays,
    nodes: Count = 20,
    clusters: Count = 2,
    per_class: Annotated[Count | tuple[Count, Count], PER_CLASS] = 300,
    overlap: Natural = 0,
    val: Natural = 0,
    test: Natural = 15,
    seed: Seed = 0,
    **kwargs: Unpack[TaskFields],
) -> Tasks:
    """Assign classes to every cluster of nodes, and give every node a number of samples of each of them.

    Scenarios 1 to 4 of section 5 of `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_
    (Mukherjee, Simonetto and Jamali-Rad, 2024), which has 10 and 20 nodes in 2 clusters:

    ========  ==================  =================  ===========
    scenario  classes             ``per_class``      ``overlap``
    ========  ==================  =================  ===========
    1         disjoint            300                0
    2         overlapping         300                4
    3         disjoint            (100, 300)         0
    4         overlapping         (100, 300)         4
    ========  ==================  =================  ===========

    Classes are assigned to clusters in the order of their labels: the first C - overlap classes are cut into pieces
    whose lengths differ by at most one, and every piece is extended by the next ``overlap`` classes. The authors'
    configuration has 4 of 10 classes in common (0 … 6 and 3 … 9), a figure in their appendix 2 (0 … 5 and 4 … 9).
    Numbers are drawn from [100, 300] in the text, excluding the upper bound in the code, as here. Unlike here, their
    code gives two nodes with consecutive numbers 100 samples of each class in common.

    Args:
        nodes: K. Nodes are ordered cluster by cluster; cluster sizes differ by at most one.
        clusters: Number of clusters.
        per_class: A node's samples of each of its classes: a number, or ``(low, high)`` to draw from low, …, high - 1
            for every node and class. Small datasets need fewer than the default.
        overlap: Number of classes that neighboring clusters share.
        val: Number of a node's samples of each class set aside for validation. The paper has none.
        test: Test samples of a node for each of its classes.
    """
    if nodes < clusters:
        raise RangeError("nodes", f"nodes must be at least clusters={clusters}, got {nodes}")
    low, high = (per_class, per_class + 1) if isinstance(per_class, int) else per_class
    if low >= high:
        raise SettingError("per_class", PER_CLASS, per_class)
    if val >= low:
        raise TooFewError(
            "val", f"val={val} leaves none of a node's {low} samples of a class for training: use a smaller val"
        )
    labels = data.train.targets.unique()
    windows = class_windows(len(labels), clusters, overlap)
    cluster = clusters_of([len(part) for part in torch.arange(nodes).tensor_split(clusters)])
    count = data.num_classes
    has = torch.zeros(clusters, count, dtype=torch.bool)
    for c, window in enumerate(windows):
        has[c, labels[list(window)]] = True
    # [K, C]: an integer from low, …, high - 1 for every node and each of its classes
    drawn = keyed_uniform(seed, _COUNT_STREAM, torch.arange(nodes)[:, None], torch.arange(count))
    own = has[cluster]
    numbers = low + ((high - low) * drawn).long() - val
    return deal_counts(data, numbers * own, val * own, test * own, cluster, seed, **kwargs)
