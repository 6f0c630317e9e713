"""Shared parts of task builders: common arguments, dealing samples to nodes, drawing test samples, assembling tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from graphcollab._base.documentation import checked_with
from graphcollab._base.errors import EmptyError, MismatchError, TooFewError
from graphcollab._base.keyed import keyed_order
from graphcollab.data.datasets.labeled_arrays import LabeledArrays
from graphcollab.data.samples import Pool, Split
from graphcollab.data.tasks import Tasks

Shares = tuple[list[Tensor], list[Tensor]]
"""Training samples and validation samples of every node."""

_DEAL_STREAM, _TEST_STREAM = 110, 111

builder = checked_with(
    {
        "data": "A dataset with training and test samples.",
        "nodes": "Nodes of every cluster. Nodes are ordered cluster by cluster.",
        "train": "Training samples of a node. None: all, dealt out in shares that differ by at most one in a cluster.",
        "val": "Validation samples of a node, from the dataset's training samples.",
        "test": "Test samples of a node, drawn from all those of its cluster. None: all of them.",
        "seed": "Seed of the draws.",
        "val_fraction": "Share of a node's samples set aside for validation.",
        "stratify": "Whether some of every class are; see `Tasks.hold_out`.",
        "kwargs": "``names``, ``loss``, ``metric`` and ``node_id`` of `Tasks`.",
    }
)
"""Decorator of task builders: it checks their arguments and documents the common ones."""


def check_clusters(nodes: Sequence[int], clusters: int, what: str) -> None:
    """Check that the list of node counts has one entry per cluster; each cluster has one of ``what``."""
    if not nodes:
        raise EmptyError("nodes", "there must be at least one cluster of nodes, got nodes=()")
    if len(nodes) != clusters:
        raise MismatchError(
            "nodes", f"each cluster needs one of the {what} and a number of nodes, got {clusters} and {len(nodes)}"
        )


def clusters_of(nodes: Sequence[int]) -> Tensor:
    """Return the cluster of every node, for nodes ordered cluster by cluster."""
    return torch.arange(len(nodes)).repeat_interleave(torch.tensor(list(nodes)))


def require(index: Tensor, need: int, who: str, what: str) -> None:
    """Check that ``who`` has as many samples as are needed; ``what``: their split, and what they are for."""
    if len(index) < need:
        raise TooFewError(who, f"{who} has {len(index)} {what} need {need}: use fewer nodes or samples, or other data")


def deal(index: Tensor, nodes: int, train: int | None, val: int, seed: int, who: str, *keys: int) -> Shares:
    """Deal the samples ``index`` [n] out to nodes, in a keyed order in which a share does not depend on later nodes."""
    fewest = 1 if train is None else train
    need = nodes * (fewest + val)
    each = f"{'at least ' * (train is None)}{fewest} for training and {val} for validation"
    require(index, need, who, f"training samples; {nodes} nodes with {each}")
    order = index[keyed_order(seed, _DEAL_STREAM, *keys, index)]
    shares = order.tensor_split(nodes) if train is None else order[:need].tensor_split(nodes)
    return [share[: len(share) - val] for share in shares], [share[len(share) - val :] for share in shares]


def draw_tests(index: Tensor, cluster: int, nodes: int, test: int | None, seed: int, who: str) -> list[Tensor]:
    """Return the test samples of a cluster's nodes: all of the cluster's, or ``test`` for each, drawn independently."""
    if test != 0:
        require(index, test or 1, who, "test samples; its nodes")
    if test is None:
        return [index] * nodes
    order = keyed_order(seed, _TEST_STREAM, cluster, torch.arange(nodes)[:, None], index)  # [nodes, n]
    return list(index[order[:, :test]])


def deal_counts(
    data: LabeledArrays, train: Tensor, val: Tensor, test: Tensor, cluster: Tensor, seed: int, **kwargs: Any
) -> Tasks:
    """Build tasks in which node k has ``train[k, c]``, ``val[k, c]`` and ``test[k, c]`` samples of class c."""
    dealt, drawn = [], []
    for c in range(train.shape[1]):
        index, wanted = (data.train.targets == c).nonzero().flatten(), (train + val)[:, c]
        need = int(wanted.sum())
        require(index, need, f"class {c}", f"training samples; the {int((wanted > 0).sum())} nodes with it")
        sizes = torch.stack([train[:, c], val[:, c]], 1).flatten().tolist()
        dealt.append(index[keyed_order(seed, _DEAL_STREAM, index)][:need].split(sizes))
    for c in range(test.shape[1]):
        index = (data.test.targets == c).nonzero().flatten()
        require(index, int(test[:, c].max()), f"class {c}", "test samples; its nodes")
        many = enumerate(test[:, c].tolist())
        drawn.append([index[keyed_order(seed, _TEST_STREAM, k, index)[:n]] for k, n in many])
    own, held = ([torch.cat([pieces[2 * k + i] for pieces in dealt]) for k in range(len(train))] for i in (0, 1))
    tests = [torch.cat([pieces[k] for pieces in drawn]) for k in range(len(test))]
    return stored_once(data, (own, held), tests, cluster, **kwargs)


def stored_once(data: LabeledArrays, shares: Shares, tests: Sequence[Tensor], cluster: Tensor, **kwargs: Any) -> Tasks:
    """Build tasks that share a dataset by index."""
    samples = {"train": ("train", shares[0]), "val": ("train", shares[1]), "test": ("test", tests)}
    return assemble({"train": data.train, "test": data.test}, samples, cluster, **kwargs)


def stored_apart(
    sources: Sequence[LabeledArrays],
    shares: Sequence[Shares],
    change: Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]],
    test: int | None,
    seed: int,
    **kwargs: Any,
) -> Tasks:
    """Build tasks from copies of the dealt samples, node after node, transformed by ``change`` for each cluster."""
    nodes = [len(own) for own, _ in shares]
    pools, samples = {}, {}
    for place, name in enumerate(("train", "val")):
        lists = [share[place] for share in shares]
        indices = zip(sources, map(torch.cat, lists), strict=True)
        pools[name] = _pool([change(c, d.train.inputs[i], d.train.targets[i]) for c, (d, i) in enumerate(indices)])
        sizes = [len(index) for own in lists for index in own]
        samples[name] = (name, list(torch.arange(len(pools[name])).split(sizes)))
    pools["test"] = _pool([change(c, source.test.inputs, source.test.targets) for c, source in enumerate(sources)])
    ranges = torch.arange(len(pools["test"])).split([len(source.test.targets) for source in sources])
    drawn = [draw_tests(one, c, nodes[c], test, seed, f"cluster {c}") for c, one in enumerate(ranges)]
    samples["test"] = ("test", [index for of_cluster in drawn for index in of_cluster])
    return assemble(pools, samples, clusters_of(nodes), **kwargs)


def _pool(pairs: Sequence[tuple[Tensor, Tensor]]) -> Pool:
    return Pool(torch.cat([inputs for inputs, _ in pairs]), torch.cat([targets for _, targets in pairs]))


def assemble(
    pools: Mapping[str, Pool], samples: Mapping[str, tuple[str, Sequence[Tensor]]], cluster: Tensor, **kwargs: Any
) -> Tasks:
    """Build tasks with true clusters [K] from pools and, by split, one index tensor per node; omit empty splits."""
    names = tuple(f"cluster {c}, node {k}" for k, c in enumerate(cluster.tolist()))
    splits = {name: Split.from_lists(pool, lists) for name, (pool, lists) in samples.items() if any(map(len, lists))}
    used = {split.pool for split in splits.values()}
    pools = {name: pool for name, pool in pools.items() if name in used}
    return Tasks(pools, splits, **{"names": names, "cluster": cluster, **kwargs})
