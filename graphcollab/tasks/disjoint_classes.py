"""Clusters of nodes of different sizes, each with classes of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphcollab.keyed import keyed_order
from graphcollab.settings import Count, Natural, Seed, checked
from graphcollab.tasks.partition import Labelled
from graphcollab.tasks.shift import label_shift
from graphcollab.tasks.tasks import Tasks

__all__ = ["disjoint_classes"]

_CLASS_STREAM = 133


@checked
def disjoint_classes(
    data: Labelled,
    nodes: Sequence[Count] = (6, 6, 7, 7, 8, 8, 9, 9, 10, 10),
    classes_per_cluster: Count | None = None,
    train: Count | None = None,
    val: Natural = 100,
    test: Natural | None = None,
    seed: Seed = 0,
    **kwargs: Any,
) -> Tasks:
    """Draw classes for every cluster of nodes and deal all their samples to its nodes: a `label_shift` at random.

    The cross-device task of section 4.2 of `CoBo: Collaborative Learning via Bilevel Optimization
    <https://arxiv.org/abs/2409.05539>`_ (Hashemi et al., NeurIPS 2024), whose setting is the default: on CIFAR-100, 10
    clusters of 10 classes with 6, 6, 7, 7, …, 10, 10 nodes, 80 in all; it has no validation samples (``val=0``). A
    cluster's samples are dealt out at random, so nodes of larger clusters have fewer. For clusters of two classes,
    :func:`graphcollab.datasets.join_datasets` makes 20 classes of MNIST and Fashion-MNIST.

    Args:
        data: A dataset with training and test samples.
        nodes: Nodes of every cluster. Nodes are ordered cluster by cluster.
        classes_per_cluster: Classes of every cluster. Default: as many as there are for all clusters alike; classes
            that remain are left out.
        train: Training samples of a node, at most; every node needs as many. Default: all samples are dealt out, in
            shares that differ by at most one inside a cluster.
        val: Validation samples of a node, from its share.
        test: Test samples of a node, drawn from all those of its cluster's classes. Default: all of them.
        seed: Seed of classes and draws.
        kwargs: ``names``, ``loss``, ``metric`` and other fields of `Tasks`.

    Raises:
        ValueError: If there are too few classes for the clusters, or too few samples for the nodes.

    Example:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> x, y = torch.zeros(60, 1), torch.arange(60) % 5
        >>> data = SimpleNamespace(train_inputs=x, train_targets=y, test_inputs=x, test_targets=y)
        >>> tasks = disjoint_classes(data, nodes=(2, 3), val=0)
        >>> tasks.sizes("train").tolist(), tasks.classes.sum(1).tolist()
        ([12, 12, 8, 8, 8], [2, 2, 2, 2, 2])
    """
    classes = data.train_targets.unique()
    each = len(classes) // max(len(nodes), 1) if classes_per_cluster is None else classes_per_cluster
    if each < 1 or each * len(nodes) > len(classes):
        asked = "at least one" if classes_per_cluster is None else f"{classes_per_cluster}"
        raise ValueError(
            f"{len(nodes)} clusters with {asked} of {len(classes)} classes each are not possible: use fewer clusters "
            "or classes, or join datasets by graphcollab.datasets.join_datasets"
        )
    drawn = classes[keyed_order(seed, _CLASS_STREAM, classes)][: each * len(nodes)].view(len(nodes), each)
    groups = drawn.sort(1).values.tolist()
    return label_shift(data, groups, nodes, train, val, test, seed, **kwargs)
