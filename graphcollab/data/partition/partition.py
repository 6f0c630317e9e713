"""Partitions of a dataset: the procedure of L2C's Fig. 2, and equal groups that share a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Unpack

import torch
from torch import Tensor

from graphcollab._base.errors import ConflictError, DuplicateError, TooFewError
from graphcollab._base.keyed import keyed_order
from graphcollab._base.settings import Count, Natural, Real, Seed
from graphcollab.data._builders import TaskFields
from graphcollab.data.datasets.labeled_arrays import LabeledArrays
from graphcollab.data.partition._deal import builder, require
from graphcollab.data.samples import Split
from graphcollab.data.tasks import Tasks

_SHARD_STREAM, _GROUP_STREAM = 102, 103


def class_shards(
    targets: Tensor, classes: Sequence[int], shards: int, seed: int = 0, size: int | None = None
) -> list[list[Tensor]]:
    """Cut the samples of every class, labels [N], at random into shards of (almost) equal size, or of ``size``."""
    if len(set(classes)) < len(classes):
        raise DuplicateError("classes", f"each class can be named once, got {list(classes)}")
    out = []
    for c in classes:
        index, need = (targets == c).nonzero().flatten(), shards * (size or 1)
        require(index, need, f"class {c}", f"training samples; {shards} shards of {size or 'at least 1'}")
        index = index[keyed_order(seed, _SHARD_STREAM, c, torch.arange(len(index)))]
        out.append(list(index[:need].split(size)) if size else list(index.tensor_split(shards)))
    return out


@builder
def shard_tasks(
    data: LabeledArrays,
    shards: Count = 20,
    classes_per_node: Count = 2,
    seed: Seed = 0,
    *,
    classes: Sequence[Natural] | None = None,
    shard_size: Count | None = None,
    val_fraction: Annotated[float, Real(least=0, below=1)] = 0.2,
    stratify: bool = True,
    **kwargs: Unpack[TaskFields],
) -> Tasks:
    """Draw K = M P / N non-IID tasks, each with samples of N of M classes.

    The procedure is that of Fig. 2 of *Learning to Collaborate in Decentralized Learning of Personalized Models* (Li et
    al., CVPR 2022).

    (a) The samples of each of the M classes are cut into P shards; (b) one random shard of every class forms a group, P
    groups in all; (c) every group is shuffled and dealt from left to right, N shards to a node. A node's test
    data are all test samples of its classes, stored once.

    Args:
        shards: P.
        classes_per_node: N. It must divide M, or a node could get a class twice.
        classes: The M classes used. Default: all classes that occur.
        shard_size: Samples of a shard. Default: all samples are dealt out.
    """
    classes = list(classes) if classes is not None else data.train.targets.unique().tolist()
    many = len(classes)
    if many % classes_per_node:
        raise ConflictError(
            "classes_per_node", f"classes_per_node must divide the number of classes, {many}, got {classes_per_node}"
        )
    cut = class_shards(data.train.targets, classes, shards, seed, shard_size)
    row, place = torch.arange(many)[:, None], torch.arange(shards)[None]
    shard_of_group = keyed_order(seed, _GROUP_STREAM, row, place, 0)  # [M, P]: group p takes this shard of class m
    order = keyed_order(seed, _GROUP_STREAM, place.T, row.T, 1)  # [P, M]: classes of group p from left to right
    dealt = []
    for p in range(shards):
        for left in range(0, many, classes_per_node):
            members = order[p, left : left + classes_per_node].tolist()
            dealt.append((members, torch.cat([cut[m][int(shard_of_group[m, p])] for m in members])))
    labels = [[classes[m] for m in members] for members, _ in dealt]
    held = val_fraction, seed, stratify
    return _with_tests(data, labels, [index for _, index in dealt], held, **kwargs)


@builder
def grouped_tasks(
    data: LabeledArrays,
    groups: Count = 5,
    nodes_per_group: Count = 3,
    seed: Seed = 0,
    *,
    classes: Sequence[Natural] | None = None,
    shard_size: Count | None = None,
    val_fraction: Annotated[float, Real(least=0, below=1)] = 0.2,
    stratify: bool = True,
    **kwargs: Unpack[TaskFields],
) -> Tasks:
    """Split the classes at random into groups and give every group's task to several nodes (Fig. 4 of L2C).

    The nodes of a group each get an equal share of its samples; ``cluster`` holds the true group.

    Args:
        groups: Number of tasks; must divide the number of classes.
        nodes_per_group: Nodes that share a task.
        classes: The classes used. Default: all classes that occur.
        shard_size: Samples of one class at one node. Default: all samples are dealt out.
    """
    classes = list(classes) if classes is not None else data.train.targets.unique().tolist()
    if len(classes) % groups:
        raise ConflictError("groups", f"{len(classes)} classes cannot be split evenly into {groups} groups")
    cut = class_shards(data.train.targets, classes, nodes_per_group, seed, shard_size)
    order = keyed_order(seed, _GROUP_STREAM, torch.arange(len(classes)), 2)
    members = [chunk.tolist() for chunk in order.view(groups, -1)]
    index = [torch.cat([cut[m][k] for m in group]) for group in members for k in range(nodes_per_group)]
    labels = [[classes[m] for m in group] for group in members for _ in range(nodes_per_group)]
    cluster = torch.arange(groups).repeat_interleave(nodes_per_group)
    return _with_tests(data, labels, index, (val_fraction, seed, stratify), cluster=cluster, **kwargs)


def _with_tests(
    data: LabeledArrays, labels: list[list[int]], index: list[Tensor], held: tuple[float, int, bool], **kwargs: Any
) -> Tasks:
    of_class = {c: (data.test.targets == c).nonzero().flatten() for group in labels for c in group}
    lacking = sorted(c for c, where in of_class.items() if not len(where))
    if lacking:
        raise TooFewError(
            "classes", f"classes {lacking} have no test samples: models of their nodes could not be judged"
        )
    tests = [torch.cat([of_class[c] for c in sorted(group)]) for group in labels]
    splits = {"train": Split.from_lists("train", index), "test": Split.from_lists("test", tests)}
    return Tasks({"train": data.train, "test": data.test}, splits, **kwargs).hold_out(*held)
