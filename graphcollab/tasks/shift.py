"""Nodes in clusters whose data differ in one known way: in their labels, their inputs, or what labels mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from graphcollab.settings import Count, Finite, Natural, Seed, checked
from graphcollab.tasks._deal import assemble, check_clusters, clusters_of, deal, draw_tests
from graphcollab.tasks.partition import Labelled, label_ranges
from graphcollab.tasks.pool import Pool
from graphcollab.tasks.rotate import rotate
from graphcollab.tasks.tasks import Tasks

__all__ = ["concept_shift", "covariate_shift", "label_shift", "rotation_shift"]


@checked
def label_shift(
    data: Labelled,
    groups: Sequence[Sequence[Natural]],
    nodes: Sequence[Count],
    train: Count | None = 400,
    val: Natural = 100,
    test: Natural | None = None,
    seed: Seed = 0,
    **kwargs: Any,
) -> Tasks:
    """Give every cluster of nodes samples of its own classes only.

    Sections 3.1.1, 3.1.2 and 3.1.6 of `With a Little Help from My Friends: A Comparative Study of Decentralized Deep
    Learning Strategies` (Hagander and Ihre-Thomason, Lund University, 2024); the groups are in
    :mod:`graphcollab.tasks.class_groups`.

    A node's samples are drawn at random from those of its cluster's classes, without regard to the class, and belong to
    no other node. Labels stay what they are: a node does not know which classes it has. Samples are stored once and
    shared by index. What the m-th node of a cluster gets depends on the seed, the cluster's classes and m alone.

    Args:
        data: A dataset with training and test samples.
        groups: Classes of every cluster; no class may be in two.
        nodes: Nodes of every cluster. Nodes are ordered cluster by cluster.
        train: Training samples of a node, or None to deal all out evenly.
        val: Validation samples of a node, from the dataset's training samples.
        test: Test samples of a node, drawn from all those of its cluster's classes. Default: all of them.
        seed: Seed of the draws.
        kwargs: ``names``, ``loss``, ``metric`` and other fields of `Tasks`.

    Raises:
        ValueError: If a class is in two groups or a cluster has too few samples.

    Example:
        >>> from types import SimpleNamespace
        >>> x, y = torch.zeros(40, 1), torch.arange(40) % 4
        >>> data = SimpleNamespace(train_inputs=x, train_targets=y, test_inputs=x, test_targets=y)
        >>> tasks = label_shift(data, groups=[(0, 1, 2), (3,)], nodes=[2, 1], train=8, val=2)
        >>> tasks.cluster.tolist(), tasks.names[2], tasks.classes[2].tolist()
        ([0, 0, 1], 'cluster 1, node 2', [False, False, False, True])
    """
    check_clusters(nodes, len(groups), "groups of classes")
    _check_groups(groups)
    own: list[Tensor] = []
    held: list[Tensor] = []
    tests: list[Tensor] = []
    for c, (group, many) in enumerate(zip(groups, nodes, strict=True)):
        who = f"cluster {c} (classes {', '.join(map(str, group))})"
        classes = torch.tensor(list(group))
        _check_classes(data.train_targets, classes, c)
        there, judged = (torch.isin(t, classes).nonzero().flatten() for t in (data.train_targets, data.test_targets))
        shares = deal(there, many, train, val, seed, who)
        own += shares[0]
        held += shares[1]
        tests += draw_tests(judged, c, many, test, seed, who)
    pools = {"train": Pool(data.train_inputs, data.train_targets), "test": Pool(data.test_inputs, data.test_targets)}
    samples = {"train": ("train", own), "val": ("train", held), "test": ("test", tests)}
    return assemble(pools, samples, clusters_of(nodes), **kwargs)


@checked
def covariate_shift(
    data: Labelled,
    transforms: Sequence[Callable[[Tensor], Tensor]],
    nodes: Sequence[Count],
    train: Count | None = 500,
    val: Natural = 100,
    test: Natural | None = None,
    seed: Seed = 0,
    **kwargs: Any,
) -> Tasks:
    """Change the inputs of every cluster of nodes in its own way; labels stay what they are.

    Samples are drawn at random from the whole dataset and belong to one node each; which ones the k-th node gets
    depends on the seed and k alone. Only samples that are dealt are transformed; a cluster's test samples are
    transformed once, all of them, and shared by its nodes.

    Args:
        data: A dataset with training and test samples.
        transforms: What is done to the inputs of every cluster: functions of many inputs [N, ...] at once that return
            as many of the same shape.
        nodes: Nodes of every cluster. Nodes are ordered cluster by cluster.
        train: Training samples of a node, or None to deal all out evenly.
        val: Validation samples of a node, from the dataset's training samples.
        test: Test samples of a node, drawn from its cluster's. Default: all of them.
        seed: Seed of the draws.
        kwargs: ``names``, ``loss``, ``metric`` and other fields of `Tasks`.

    Raises:
        ValueError: If there are too few samples, or a transform changes the shape.

    Example:
        >>> from types import SimpleNamespace
        >>> x, y = torch.ones(8, 1), torch.arange(8) % 2
        >>> data = SimpleNamespace(train_inputs=x, train_targets=y, test_inputs=x[:2], test_targets=y[:2])
        >>> tasks = covariate_shift(data, [torch.clone, torch.neg], nodes=[1, 1], train=3, val=1)
        >>> tasks.pools["train"].inputs.flatten().tolist(), tasks.pools["test"].inputs.flatten().tolist()
        ([1.0, 1.0, 1.0, -1.0, -1.0, -1.0], [1.0, 1.0, -1.0, -1.0])
    """
    check_clusters(nodes, len(transforms), "transforms")
    own, held = deal(torch.arange(len(data.train_targets)), sum(nodes), train, val, seed, "the dataset")
    parts, first = [], 0
    for c, (transform, many) in enumerate(zip(transforms, nodes, strict=True)):
        share = slice(first, first + many)
        parts.append(_Part(c, data, own[share], held[share], transform))
        first += many
    return _stored_apart(parts, test, seed, **kwargs)


@checked
def rotation_shift(
    data: Labelled,
    angles: Sequence[Finite] = (0, 180, 10, 350),
    nodes: Sequence[Count] = (70, 20, 5, 5),
    train: Count | None = 500,
    val: Natural = 100,
    test: Natural | None = None,
    seed: Seed = 0,
    fill: Finite | None = None,
    **kwargs: Any,
) -> Tasks:
    """Rotate the images of every cluster of nodes by its own angle, counter-clockwise; see `covariate_shift`.

    Section 3.1.4 of `With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies`
    (Hagander and Ihre-Thomason, Lund University, 2024), whose setting is the default: Fashion-MNIST at 0, 180, 10 and
    350 degrees with 70, 20, 5 and 5 nodes. The text gives neither direction nor interpolation; see `rotate` for those
    chosen.

    Args:
        data: Images [N, C, H, W] with labels.
        angles: Degrees of every cluster. Multiples of 90 lose nothing, others interpolate.
        nodes: Nodes of every cluster. Nodes are ordered cluster by cluster.
        train: Training samples of a node, or None to deal all out evenly.
        val: Validation samples of a node, from the dataset's training samples.
        test: Test samples of a node, drawn from its cluster's. Default: all of them.
        seed: Seed of the draws.
        fill: Value of corners that a rotation uncovers. Default: the smallest value of every channel among the training
            images, which is black also where images have been standardised (0 would be grey there).
        kwargs: ``names``, ``loss``, ``metric`` and other fields of `Tasks`.

    Raises:
        ValueError: If the inputs are not images or there are too few.
    """
    if data.train_inputs.dim() != 4:
        raise ValueError(f"rotation needs images [N, C, H, W], got inputs of shape {tuple(data.train_inputs.shape)}")
    black = data.train_inputs.amin((0, 2, 3))[:, None, None] if fill is None else fill
    turns = [partial(rotate, angle=angle, fill=black) for angle in angles]
    return covariate_shift(data, turns, nodes, train, val, test, seed, **kwargs)


@checked
def concept_shift(
    sources: Sequence[Labelled],
    nodes: Sequence[Count],
    train: Count | None = 400,
    val: Natural = 100,
    test: Natural | None = None,
    seed: Seed = 0,
    **kwargs: Any,
) -> Tasks:
    """Give every cluster of nodes a dataset of its own, with labels of its own.

    Section 3.1.5 of `With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies`
    (Hagander and Ihre-Thomason, Lund University, 2024): ``sources=(mnist, fashion_mnist)`` with 50 nodes each gives 20
    labels, MNIST's own and Fashion-MNIST's shifted up by 10. All nodes need a model with an output for every label of
    every source, since they do not know whose they are.

    What the m-th node of a cluster gets depends on the seed, the source and m alone. Only samples that are dealt are
    copied.

    Args:
        sources: The dataset of every cluster, all with inputs of one shape. Labels of a source are shifted up by the
            classes of those before it: its ``num_classes``, or, where it has no such field, one more than its largest
            label.
        nodes: Nodes of every cluster. Nodes are ordered cluster by cluster.
        train: Training samples of a node, or None to deal all out evenly.
        val: Validation samples of a node, from its source's training samples.
        test: Test samples of a node, drawn from its source's. Default: all of them.
        seed: Seed of the draws.
        kwargs: ``names``, ``loss``, ``metric`` and other fields of `Tasks`.

    Raises:
        ValueError: If shapes of inputs differ or a source has too few samples.

    Example:
        >>> from types import SimpleNamespace
        >>> x, y = torch.zeros(6, 1), torch.arange(6) % 2
        >>> data = SimpleNamespace(train_inputs=x, train_targets=y, test_inputs=x, test_targets=y)
        >>> tasks = concept_shift([data, data], nodes=[1, 1], train=4, val=2)
        >>> tasks.pools["test"].targets.tolist()
        [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3]
    """
    check_clusters(nodes, len(sources), "sources")
    parts = []
    for c, (source, many, labels) in enumerate(zip(sources, nodes, label_ranges(sources), strict=True)):
        own, held = deal(torch.arange(len(source.train_targets)), many, train, val, seed, f"source {c}")
        parts.append(_Part(c, source, own, held, shift=labels.start))
    return _stored_apart(parts, test, seed, **kwargs)


@dataclass(frozen=True)
class _Part:
    """A cluster's share: training and validation samples of its nodes, and what is done to them."""

    cluster: int
    data: Labelled
    own: Sequence[Tensor]
    held: Sequence[Tensor]
    transform: Callable[[Tensor], Tensor] | None = None
    shift: int = 0

    def pair(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cluster's form of some samples."""
        new = inputs if self.transform is None or not len(inputs) else self.transform(inputs)
        if new.shape != inputs.shape:
            raise ValueError(
                f"the transform of cluster {self.cluster} turned inputs {tuple(inputs.shape)} into {tuple(new.shape)}: "
                "it must keep their number and shape"
            )
        return new, targets + self.shift

    def dealt(self, lists: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return some samples of every node, node after node."""
        index = torch.cat(list(lists))
        return self.pair(self.data.train_inputs[index], self.data.train_targets[index])


def _stored_apart(parts: Sequence[_Part], test: int | None, seed: int, **kwargs: Any) -> Tasks:
    """Build tasks whose samples are copies of the dealt ones, node after node."""
    nodes = [len(part.own) for part in parts]
    pools, samples = {}, {}
    for name, lists in (("train", [part.own for part in parts]), ("val", [part.held for part in parts])):
        pools[name] = _pool([part.dealt(own) for part, own in zip(parts, lists, strict=True)])
        sizes = [len(index) for own in lists for index in own]
        samples[name] = (name, list(torch.arange(len(pools[name])).split(sizes)))
    pools["test"] = _pool([part.pair(part.data.test_inputs, part.data.test_targets) for part in parts])
    ranges = torch.arange(len(pools["test"])).split([len(part.data.test_targets) for part in parts])
    tests: list[Tensor] = []
    for part, index, many in zip(parts, ranges, nodes, strict=True):
        tests += draw_tests(index, part.cluster, many, test, seed, f"cluster {part.cluster}")
    return assemble(pools, {**samples, "test": ("test", tests)}, clusters_of(nodes), **kwargs)


def _pool(pairs: Sequence[tuple[Tensor, Tensor]]) -> Pool:
    return Pool(torch.cat([inputs for inputs, _ in pairs]), torch.cat([targets for _, targets in pairs]))


def _check_groups(groups: Sequence[Sequence[int]]) -> None:
    seen: dict[int, int] = {}
    for c, group in enumerate(groups):
        if not len(group):
            raise ValueError(f"cluster {c} has no classes: name at least one")
        for label in group:
            if label in seen:
                raise ValueError(f"class {label} is in clusters {seen[label]} and {c}: each class can be in one only")
            seen[label] = c


def _check_classes(targets: Tensor, classes: Tensor, cluster: int) -> None:
    lacking = classes[~torch.isin(classes, targets)].tolist()
    if lacking:
        raise ValueError(
            f"class {lacking[0]} of cluster {cluster} has no training samples: leave it out, or use data that has it"
        )
