"""Nodes that have some classes in the majority and the others in the minority."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from graphcollab.settings import Count, Fraction, Natural, Seed, checked
from graphcollab.tasks._deal import assemble, deal_by_class, draw_tests_by_class
from graphcollab.tasks.partition import Labelled
from graphcollab.tasks.pool import Pool
from graphcollab.tasks.tasks import Tasks

__all__ = ["majority_counts", "majority_tasks"]


@checked
def majority_counts(size: Natural, majority: Sequence[Natural], p: Fraction, classes: Count = 10) -> list[int]:
    """Return how many of N samples are of each class: N p / n of n majority classes, N (1 - p) / (C - n) of others.

    Where these are not whole numbers: the majority has N p samples, rounded to the nearest whole number (half up), the
    minority the rest, and inside each the classes with the smallest labels get one more where it does not divide
    evenly. So exactly N come out.

    Args:
        size: N.
        majority: The n majority classes.
        p: Their share of the samples.
        classes: C.

    Raises:
        ValueError: If the majority is empty, names a class twice or one that does not exist, or all classes are in the
            majority and p is not 1.

    Example:
        >>> majority_counts(10, [0, 3], p=0.7, classes=4)
        [4, 2, 1, 3]
    """
    chosen = sorted(set(majority))
    if not chosen or len(chosen) < len(majority) or not 0 <= chosen[0] <= chosen[-1] < classes:
        raise ValueError(
            f"a majority must be one or more different classes of 0 .. {classes - 1}, got {list(majority)}"
        )
    if len(chosen) == classes and p != 1:
        raise ValueError(f"p must be 1 where all {classes} classes are in the majority, got {p}")
    out = [0] * classes
    many = math.floor(size * p + 0.5)
    for group, total in ((chosen, many), ([c for c in range(classes) if c not in chosen], size - many)):
        for place, c in enumerate(group):
            out[c] = total // len(group) + (place < total % len(group))
    return out


@checked
def majority_tasks(
    data: Labelled,
    majorities: Sequence[Sequence[Natural]],
    p: Fraction = 0.7,
    train: Count | Sequence[Count] = 1000,
    val: Natural = 200,
    test: Natural = 300,
    seed: Seed = 0,
    **kwargs: Any,
) -> Tasks:
    """Give every node most of its samples from its majority classes and few from the others.

    Section 5.1 of `Learning Directed Collaboration Graphs for Peer-to-Peer Personalized Learning` (Zheng, Ohio State
    University, 2021): of N samples, N p / n are of each of a node's n majority classes, N (1 - p) / (10 - n) of each
    other class; p = n / 10 makes all nodes alike. `majority_counts` says how this is rounded. Training, validation and
    test samples follow the same proportions; the thesis has no validation samples, use ``val=0`` for its setting.

    Training and validation samples belong to one node each, and what a node gets depends on the seed and the nodes
    before it, not on those behind. Test samples are drawn for every node on its own, so nodes may share some.

    Args:
        data: A dataset with training and test samples.
        majorities: Majority classes of every node.
        p: Share of majority classes.
        train: N, training samples of a node; one number for all or one per node.
        val: Validation samples of a node, from the dataset's training samples.
        test: Test samples of a node.
        seed: Seed of the draws.
        kwargs: ``names``, ``loss``, ``metric`` and other fields of `Tasks`.

    Returns:
        Tasks whose ``cluster`` says which nodes have the same majority classes, numbered as they come.

    Raises:
        ValueError: If a class has too few samples, sizes are not one per node, or a majority is not possible.

    Example:
        >>> from types import SimpleNamespace
        >>> x, y = torch.zeros(40, 1), torch.arange(40) % 4
        >>> data = SimpleNamespace(train_inputs=x, train_targets=y, test_inputs=x, test_targets=y)
        >>> tasks = majority_tasks(data, [[0], [1], [0]], p=0.4, train=[5, 10, 5], val=0, test=10)
        >>> tasks.cluster.tolist(), y[tasks.splits["train"].of(1)].bincount().tolist()
        ([0, 1, 0], [2, 4, 2, 2])
    """
    nodes = len(majorities)
    sizes = [train] * nodes if isinstance(train, int) else list(train)
    if not nodes or len(sizes) != nodes:
        raise ValueError(f"each node needs majority classes and a number of samples, got {nodes} and {len(sizes)}")
    classes = 1 + int(torch.cat([data.train_targets, data.test_targets]).max())
    counts = {
        name: torch.tensor([majority_counts(n, m, p, classes) for n, m in zip(many, majorities, strict=True)])
        for name, many in (("train", sizes), ("val", [val] * nodes), ("test", [test] * nodes))
    }  # [K, C] each
    own, held = deal_by_class(data.train_targets, counts["train"], counts["val"], seed)
    tests = draw_tests_by_class(data.test_targets, counts["test"], seed)
    numbers: dict[frozenset[int], int] = {}
    cluster = torch.tensor([numbers.setdefault(frozenset(m), len(numbers)) for m in majorities])
    pools = {"train": Pool(data.train_inputs, data.train_targets), "test": Pool(data.test_inputs, data.test_targets)}
    samples = {"train": ("train", own), "val": ("train", held), "test": ("test", tests)}
    return assemble(pools, samples, cluster, **kwargs)
