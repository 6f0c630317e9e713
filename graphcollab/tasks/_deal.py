"""What all data shifts share: dealing disjoint samples to nodes, drawing their test samples, and putting tasks up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from graphcollab.keyed import keyed_order
from graphcollab.tasks.pool import Pool, Split
from graphcollab.tasks.tasks import Tasks

__all__ = [
    "assemble",
    "check_clusters",
    "clusters_of",
    "deal",
    "deal_by_class",
    "draw_tests",
    "draw_tests_by_class",
    "shuffled",
]

_DEAL_STREAM, _TEST_STREAM = 110, 111


def check_clusters(nodes: Sequence[int], clusters: int, what: str) -> None:
    """Check that there are as many numbers of nodes as clusters.

    Args:
        nodes: Nodes of every cluster.
        clusters: How many clusters there should be.
        what: What there is one of for every cluster, in the plural.

    Raises:
        ValueError: If there is no cluster, or another number of them.
    """
    if not nodes:
        raise ValueError("there must be at least one cluster of nodes, got nodes=()")
    if len(nodes) != clusters:
        raise ValueError(f"each cluster needs one of the {what} and a number of nodes, got {clusters} and {len(nodes)}")


def shuffled(index: Tensor, seed: int, *keys: int) -> Tensor:
    """Return samples [n] in a random order in which any two stand the same way whatever the others are."""
    return index[keyed_order(seed, _DEAL_STREAM, *keys, index)]


def deal(
    index: Tensor, nodes: int, train: int | None, val: int, seed: int, who: str, *keys: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Deal different samples to every node.

    Args:
        index: Samples to deal from, [n].
        nodes: Number of nodes.
        train: Training samples of a node; what a node gets then does not depend on the nodes behind it. None: all
            samples are dealt out, in shares whose sizes differ by at most one (the first nodes have the larger ones).
        val: Validation samples of a node, from its share.
        seed: Seed of the order.
        who: Whose samples they are, for the message.
        keys: What else the order depends on.

    Returns:
        Training samples and validation samples of every node.

    Raises:
        ValueError: If there are too few samples.
    """
    fewest = 1 if train is None else train
    need = nodes * (fewest + val)
    if len(index) < need:
        raise ValueError(
            f"{who} has {len(index)} training samples; {nodes} nodes with {'at least ' * (train is None)}{fewest} for "
            f"training and {val} for validation need {need}: use fewer nodes or samples"
        )
    order = shuffled(index, seed, *keys)
    shares = order.tensor_split(nodes) if train is None else order[:need].tensor_split(nodes)
    return [share[: len(share) - val] for share in shares], [share[len(share) - val :] for share in shares]


def deal_by_class(targets: Tensor, train: Tensor, val: Tensor, seed: int) -> tuple[list[Tensor], list[Tensor]]:
    """Deal every class's samples to the nodes in turn, as many as each is to have of it; no sample is dealt twice.

    What a node gets depends on the seed and the nodes before it, not on those behind.

    Args:
        targets: Class labels, [N].
        train: Training samples of every node and class, [K, C].
        val: Validation samples of every node and class, [K, C].
        seed: Seed of the order.

    Returns:
        Training samples and validation samples of every node, class after class.

    Raises:
        ValueError: If a class has too few samples.
    """
    own: list[list[Tensor]] = [[] for _ in train]
    held: list[list[Tensor]] = [[] for _ in train]
    for c in range(train.shape[1]):
        index, wanted = (targets == c).nonzero().flatten(), (train + val)[:, c]
        need = int(wanted.sum())
        if len(index) < need:
            raise ValueError(
                f"class {c} has {len(index)} training samples; the {int((wanted > 0).sum())} nodes with it need {need} "
                "for training and validation: use fewer nodes, or fewer samples for each"
            )
        sizes = torch.stack([train[:, c], val[:, c]], 1).flatten().tolist()
        pieces = shuffled(index, seed)[:need].split(sizes)
        for k in range(len(train)):
            own[k].append(pieces[2 * k])
            held[k].append(pieces[2 * k + 1])
    return [torch.cat(many) for many in own], [torch.cat(many) for many in held]


def draw_tests(index: Tensor, cluster: int, nodes: int, test: int | None, seed: int, who: str) -> list[Tensor]:
    """Return the test samples of a cluster's nodes: all of the cluster's, or a number drawn for every node.

    Nodes draw independently, so two nodes may draw the same sample.

    Raises:
        ValueError: If there are none, or fewer than asked for.
    """
    if test != 0 and len(index) < (test or 1):
        asked = "" if test is None else f", {test} per node are asked for"
        raise ValueError(f"{who} has {len(index)} test samples{asked}: use data with more, or test=0")
    if test is None:
        return [index] * nodes
    order = keyed_order(seed, _TEST_STREAM, cluster, torch.arange(nodes)[:, None], index)  # [nodes, n]
    return list(index[order[:, :test]])


def draw_tests_by_class(targets: Tensor, counts: Tensor, seed: int) -> list[Tensor]:
    """Draw test samples [K, C] of every class for every node, on its own: two nodes may draw the same sample.

    Raises:
        ValueError: If a class has too few samples.
    """
    out: list[list[Tensor]] = [[] for _ in counts]
    for c in range(counts.shape[1]):
        index, most = (targets == c).nonzero().flatten(), int(counts[:, c].max())
        if len(index) < most:
            raise ValueError(f"class {c} has {len(index)} test samples, a node needs {most}: use fewer test samples")
        for k, many in enumerate(counts[:, c].tolist()):
            out[k].append(index[keyed_order(seed, _TEST_STREAM, k, index)[:many]])
    return [torch.cat(many) for many in out]


def clusters_of(nodes: Sequence[int]) -> Tensor:
    """Return the cluster of every node where nodes are ordered cluster by cluster.

    Example:
        >>> clusters_of([2, 1]).tolist()
        [0, 0, 1]
    """
    return torch.arange(len(nodes)).repeat_interleave(torch.tensor(list(nodes)))


def assemble(
    pools: Mapping[str, Pool], samples: Mapping[str, tuple[str, Sequence[Tensor]]], cluster: Tensor, **kwargs: Any
) -> Tasks:
    """Build tasks with the true clusters attached and nodes named after them.

    Args:
        pools: Samples.
        samples: For every split, its pool and one index tensor per node. A split in which nobody has samples is left
            out.
        cluster: True cluster of every node, [K].
        kwargs: Fields of `Tasks`.
    """
    names = tuple(f"cluster {c}, node {k}" for k, c in enumerate(cluster.tolist()))
    splits = {name: Split.from_lists(pool, lists) for name, (pool, lists) in samples.items() if any(map(len, lists))}
    used = {split.pool for split in splits.values()}
    pools = {name: pool for name, pool in pools.items() if name in used}
    return Tasks(pools, splits, **{"names": names, "cluster": cluster, **kwargs})
