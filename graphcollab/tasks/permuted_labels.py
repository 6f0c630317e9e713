"""Clusters of nodes with the same samples, in each of which labels are permuted in another way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphcollab.keyed import keyed_order
from graphcollab.settings import Count, Natural, Seed, Share, checked
from graphcollab.tasks._deal import assemble, check_clusters, clusters_of, deal, draw_tests
from graphcollab.tasks.partition import Labelled, num_classes
from graphcollab.tasks.pool import Pool
from graphcollab.tasks.tasks import Tasks

__all__ = ["label_permutations", "permuted_labels"]

_LABEL_STREAM, _FRACTION_STREAM = 131, 132


@checked
def label_permutations(classes: Count, clusters: Count, distinct: bool = True, seed: Seed = 0) -> Tensor:
    r"""Draw a permutation of the labels for every cluster.

    With ``distinct``, no class has the same label in two clusters: cluster m gives class c the label
    :math:`\tau((\sigma(c) + s_m) \bmod C)`, where :math:`\sigma` and :math:`\tau` are random permutations and
    :math:`s_m` different random shifts. Each cluster's permutation by itself is then uniformly random, and it does not
    depend on how many other clusters there are.

    Args:
        classes: C.
        clusters: M; with ``distinct`` at most C.
        distinct: False: permutations are drawn independently, so that two clusters agree on one class on average.
        seed: Seed of the draw.

    Shapes:
        Output: [M, C]; entry (m, c) is the label that class c has in cluster m.

    Raises:
        ValueError: If there are more clusters than classes, which cannot all have different labels.

    Example:
        >>> labels = label_permutations(classes=4, clusters=3)
        >>> [sorted(row) for row in labels.tolist()]
        [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]]
        >>> [len(set(column)) for column in labels.T.tolist()]
        [3, 3, 3, 3]
    """
    label = torch.arange(classes)
    if not distinct:
        return keyed_order(seed, _LABEL_STREAM, 3, torch.arange(clusters)[:, None], label)
    if clusters > classes:
        raise ValueError(
            f"{clusters} clusters cannot give each of {classes} classes different labels: use at most {classes} "
            "clusters, or label_permutations(…, distinct=False)"
        )
    sigma, tau, shift = (keyed_order(seed, _LABEL_STREAM, kind, label) for kind in range(3))
    return tau[(sigma + shift[:clusters, None]) % classes]  # [M, C]


@checked
def permuted_labels(
    data: Labelled,
    nodes: Sequence[Count] = (2, 2, 2, 2),
    train: Count | None = None,
    val: Natural = 100,
    test: Natural | None = None,
    fraction: Share = 1.0,
    permutations: Tensor | None = None,
    seed: Seed = 0,
    **kwargs: Any,
) -> Tasks:
    """Give every cluster of nodes the whole dataset, with its labels permuted in the cluster's own way.

    The cross-silo task of section 4.1 of `CoBo: Collaborative Learning via Bilevel Optimization
    <https://arxiv.org/abs/2409.05539>`_ (Hashemi et al., NeurIPS 2024): a model for all is poor, since clusters
    contradict each other in every class; nodes of a cluster gain from each other's samples. A cluster's nodes share out
    the samples at random, anew in every cluster. The article's setting is the default, on CIFAR-100 and without
    validation samples (``val=0``); its Fig. 2(a) varies ``fraction``, the number of clusters
    (``nodes=(2,) * clusters``) and their size (``nodes=(size,) * 4``). It wants unique labels for each class throughout
    all clusters, which permutations from different random seeds alone do not give; `label_permutations` does.

    Inputs are copied for every cluster, those of training and validation only where they are dealt.

    Args:
        data: A dataset with training and test samples.
        nodes: Nodes of every cluster. Nodes are ordered cluster by cluster.
        train: Training samples of a node. Default: all are dealt out, in shares that differ by at most one.
        val: Validation samples of a node, from its share.
        test: Test samples of a node, drawn from all test samples. Default: all of them.
        fraction: Share of the dataset's training samples that is used, the same samples in every cluster. Those of a
            smaller fraction are among those of a larger one.
        permutations: Label of every class in every cluster, [clusters, classes]. Default:
            `label_permutations`, with which every class has different labels in all clusters.
        seed: Seed of permutations and draws.
        kwargs: ``names``, ``loss``, ``metric`` and other fields of `Tasks`.

    Raises:
        ValueError: If there are too few samples, more clusters than classes, or ``permutations`` does not hold one
            permutation of all labels for every cluster.

    Example:
        >>> from types import SimpleNamespace
        >>> x, y = torch.arange(6.0).view(6, 1), torch.arange(6) % 3
        >>> data = SimpleNamespace(train_inputs=x, train_targets=y, test_inputs=x[:3], test_targets=y[:3])
        >>> turned = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> tasks = permuted_labels(data, nodes=(1, 2), val=0, permutations=turned)
        >>> tasks.sizes("train").tolist(), tasks.pools["test"].targets.tolist()
        ([6, 3, 3], [0, 1, 2, 1, 2, 0])
    """
    classes = num_classes(data)
    labels = _permutations(classes, len(nodes), permutations, seed)
    check_clusters(nodes, len(labels), "label permutations")
    used = keyed_order(seed, _FRACTION_STREAM, torch.arange(len(data.train_targets)))
    used = used[: round(fraction * len(used))]
    own: list[Tensor] = []
    held: list[Tensor] = []
    tests: list[Tensor] = []
    judged = torch.arange(len(nodes) * len(data.test_targets)).view(len(nodes), -1)
    for c, many in enumerate(nodes):
        shares = deal(used, many, train, val, seed, f"cluster {c}", c)
        own += shares[0]
        held += shares[1]
        tests += draw_tests(judged[c], c, many, test, seed, f"cluster {c}")
    cluster, pools, samples = clusters_of(nodes), {}, {}
    for name, lists in (("train", own), ("val", held)):
        index, sizes = torch.cat(lists), torch.tensor([len(share) for share in lists])
        targets = labels[cluster.repeat_interleave(sizes), data.train_targets[index]]
        pools[name] = Pool(data.train_inputs[index], targets)
        samples[name] = (name, list(torch.arange(len(index)).split(sizes.tolist())))
    repeats = (len(nodes),) + (1,) * (data.test_inputs.dim() - 1)
    pools["test"] = Pool(data.test_inputs.repeat(repeats), labels[:, data.test_targets].flatten())
    return assemble(pools, {**samples, "test": ("test", tests)}, cluster, **kwargs)


def _permutations(classes: int, clusters: int, given: Tensor | None, seed: int) -> Tensor:
    """Return the permutation of every cluster, [clusters, classes]: those given, once checked, or drawn ones."""
    if given is None:
        return label_permutations(classes, clusters, seed=seed) if clusters else torch.empty(0, classes)
    if given.dim() != 2 or not torch.equal(given.sort(1).values, torch.arange(classes).expand(len(given), -1)):
        raise ValueError(
            f"permutations must be [clusters, classes], with each of the labels 0 .. {classes - 1} once in every row, "
            f"got {given.tolist() if given.numel() <= 100 else f'shape {tuple(given.shape)}'}"
        )
    return given
