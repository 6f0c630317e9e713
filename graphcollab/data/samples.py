"""Samples stored once (`Pool`), their assignment to nodes (`Split`), and held-out samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.utils import cumsum, lexsort

from graphcollab._base.errors import MismatchError, NotFiniteError, RangeError, ShapeError, UnknownError
from graphcollab._base.keyed import keyed_bits

ELSEWHERE = -(2**62)
"""Position of a sample that is in another process, not in the pool. Reading it raises an IndexError."""
_SPLIT_STREAM, _TEST_SPLIT_STREAM = 101, 109


def not_finite(values: Tensor) -> Tensor:
    """Return the positions of samples with NaN or infinity; a single sum suffices if there are none."""
    if not values.is_floating_point() or bool(torch.isfinite(values.sum())):
        return torch.empty(0, dtype=torch.int64)
    return (~torch.isfinite(values)).reshape(len(values), -1).any(1).nonzero().flatten()


def refuse_not_finite(
    what: str, values: Tensor, at: Callable[[int], str] = "sample {}".format, hint: str = "clean it or drop it"
) -> None:
    """Reject inputs or targets with NaN or infinity; the message names the first such sample, formatted by ``at``."""
    bad = not_finite(values)
    if len(bad):
        more = f", as in {len(bad) - 1} more rows" if len(bad) > 1 else ""
        raise NotFiniteError(what, f"{at(int(bad[0]))} has NaN or infinity in its {what}{more}: {hint}")


def refuse_bad_weights(weight: Tensor, at: Callable[[int], str] = "sample {}".format, where: str = "") -> None:
    """Reject negative or non-finite weights [N]; the message names the first such sample, formatted by ``at``."""
    bad = (~(torch.isfinite(weight) & (weight >= 0))).nonzero().flatten()
    if len(bad):
        raise RangeError(
            "weight",
            f"{at(int(bad[0]))} has the weight {float(weight[bad[0]]):g}{where}: give it a finite one from 0 on",
        )


@dataclass(frozen=True)
class Pool:
    """The samples of a dataset, all finite, stored once even if several nodes use them.

    Inputs are [N, ...]; targets are class labels [N] or real values [N] or [N, D]. ``weight`` [N], finite and
    nonnegative, weights means over a node's samples, where only ratios matter; None: equal weights. ``group`` [N] are
    integers; samples of a node with the same group are never divided between splits; None: no groups. ``row`` [N] are
    the row numbers in the source table; None: unknown.
    """

    inputs: Tensor
    targets: Tensor
    weight: Tensor | None = None
    group: Tensor | None = None
    row: Tensor | None = None

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.targets):
            raise MismatchError(
                "inputs", f"{len(self.inputs)} inputs have {len(self.targets)} targets: each input needs one target"
            )
        refuse_not_finite("inputs", self.inputs)
        refuse_not_finite("targets", self.targets)
        if self.weight is not None:
            if self.weight.shape != (len(self),) or not self.weight.is_floating_point():
                raise ShapeError(
                    "weight",
                    f"weights must be floating point, [{len(self)}], got {self.weight.dtype} {list(self.weight.shape)}",
                )
            refuse_bad_weights(self.weight)
        if self.group is not None and (self.group.shape != (len(self),) or self.group.is_floating_point()):
            raise ShapeError(
                "group", f"{len(self)} samples need a whole number each as group, got {list(self.group.shape)}"
            )

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, index: Tensor) -> Pool:
        """Return a copy of the samples at the given positions, with groups renumbered."""
        group = None if self.group is None else self.group[index.cpu()].unique(return_inverse=True)[1]
        index = index.to(self.inputs.device)
        weight = None if self.weight is None else self.weight[index]
        return Pool(self.inputs[index], self.targets[index], weight, group)

    def to(self, device: torch.device | str) -> Pool:
        """Move the samples to a device; groups and row numbers stay on the CPU."""
        weight = None if self.weight is None else self.weight.to(device)
        return Pool(self.inputs.to(device), self.targets.to(device), weight, self.group, self.row)

    @classmethod
    def joined(cls, pools: Sequence[Pool]) -> Pool:
        """Concatenate the samples of pools; if only some pools have weights, samples of the others get weight 1.

        If only some pools have groups, each sample of the others is its own group.
        """
        if len(pools) == 1:
            return pools[0]
        inputs, targets = torch.cat([pool.inputs for pool in pools]), torch.cat([pool.targets for pool in pools])
        group = _joined_groups(pools)
        if all(pool.weight is None for pool in pools):
            return cls(inputs, targets, group=group)
        ones = (inputs.new_ones(len(pool), dtype=torch.float64) for pool in pools)
        weight = torch.cat([one if p.weight is None else p.weight for p, one in zip(pools, ones, strict=True)])
        return cls(inputs, targets, weight, group)


def _joined_groups(pools: Sequence[Pool]) -> Tensor | None:
    """Return the groups of all samples of the pools, if any pool has groups; equal numbers are the same group."""
    if all(pool.group is None for pool in pools):
        return None
    start = 1 + max(int(pool.group.max()) for pool in pools if pool.group is not None and len(pool))
    parts = []
    for pool in pools:
        parts.append(start + torch.arange(len(pool)) if pool.group is None else pool.group)
        start += len(pool)
    return torch.cat(parts)


@dataclass(frozen=True)
class Split:
    """The samples of a pool that every node uses, as one index with pointers.

    Args:
        pool: Name of the pool.
        index: Positions in the pool, node after node, [total].
        ptr: Node k owns ``index[ptr[k]:ptr[k + 1]]``, [K + 1].
    """

    pool: str
    index: Tensor
    ptr: Tensor

    @classmethod
    def from_lists(cls, pool: str, lists: Sequence[Tensor]) -> Split:
        """Build a split from one index tensor per node."""
        sizes = torch.tensor([len(part) for part in lists], dtype=torch.int64)
        return cls(pool, torch.cat([torch.empty(0, dtype=torch.int64), *lists]), cumsum(sizes))

    @property
    def num_nodes(self) -> int:
        """The number of nodes, K."""
        return len(self.ptr) - 1

    @property
    def here(self) -> Tensor:
        """Positions of the samples in this process."""
        return self.index[self.index != ELSEWHERE]

    @cached_property
    def elsewhere(self) -> Tensor:
        """Mask of the nodes with samples in other processes, [K]."""
        first = self.index[self.ptr[:-1].clamp(max=len(self.index) - 1)] if len(self.index) else self.ptr[:-1]
        return (self.sizes > 0) & (first == ELSEWHERE)

    @cached_property
    def sizes(self) -> Tensor:
        """Number of samples of every node, [K]."""
        return self.ptr.diff()

    @property
    def owner(self) -> Tensor:
        """The node of every sample, [N]."""
        return torch.repeat_interleave(torch.arange(self.num_nodes), self.sizes)

    def of(self, node: int) -> Tensor:
        """Return the pool positions of one node's samples."""
        return self.index[int(self.ptr[node]) : int(self.ptr[node + 1])]

    def gather(self, nodes: Tensor, position: Tensor) -> Tensor:
        """Return the pool positions, [R, ...], of samples ``position`` [R, ...] within nodes [R].

        Positions are clamped to the node's last sample. A node without samples gets a sample of another node.
        """
        shape, sizes, begin = (-1,) + (1,) * (position.dim() - 1), self.sizes[nodes], self.ptr[nodes]
        if bool((sizes == 0).any()):
            begin = begin.where(sizes > 0, begin[sizes.argmax()])
        place = begin.view(shape) + torch.minimum(position, (sizes - 1).clamp(min=0).view(shape))
        return self.index[place]

    def totals(self, values: Tensor) -> Tensor:
        """Return sums of pool ``values`` [N] over every node's samples, [K]; NaN for samples in other processes."""
        here = self.index != ELSEWHERE
        sums = values.new_zeros(self.num_nodes).index_add(0, self.owner[here], values[self.index[here]])
        return sums.masked_fill(self.elsewhere, torch.nan)

    def select(self, nodes: Tensor) -> Split:
        """Return the split of the given nodes, in the given order."""
        sizes = self.sizes[nodes]
        ptr = cumsum(sizes)
        first = torch.repeat_interleave(self.ptr[nodes] - ptr[:-1], sizes)
        return Split(self.pool, self.index[first + torch.arange(len(first))], ptr)


def check_splits(splits: Mapping[str, Split], pools: Mapping[str, Pool]) -> None:
    """Check that splits have as many nodes as the training split, and that their samples exist."""
    count = splits["train"].num_nodes
    for name, split in splits.items():
        subject = f"split {name!r}"
        if split.num_nodes != count:
            raise MismatchError(subject, f"{subject} is for {split.num_nodes} nodes, split 'train' for {count}")
        if split.pool not in pools:
            raise UnknownError(subject, f"{subject} uses pool {split.pool!r}, the pools are {sorted(pools)}")
        size = len(pools[split.pool])
        if bool(split.elsewhere.any()):
            split = split.select((~split.elsewhere).nonzero().flatten())
        if len(split.index) and not 0 <= int(split.index.min()) <= int(split.index.max()) < size:
            raise RangeError(
                subject,
                f"{subject} has sample indices from {int(split.index.min())} to {int(split.index.max())}, "
                f"its pool {split.pool!r} holds 0 to {size - 1}",
            )


def hold_out(
    split: Split,
    ids: Tensor,
    fraction: float,
    seed: int,
    labels: Tensor | None = None,
    into: str = "val",
    group: Tensor | None = None,
) -> tuple[Split, Split]:
    """Split every node's samples into kept and held-out ones; of n samples, max(round(fraction n), 1) are held out.

    The draw is keyed by seed and node (``ids`` [K]), and independent for ``into`` ``"val"`` and ``"test"``. With
    ``labels`` [total], it is stratified by largest remainders: first one sample of every class of which a node has
    several, and the last sample of a class only if nothing else is left. With ``group`` [total], whole groups are drawn
    instead of samples, each with the class of its first sample. A group shared by several nodes is held out by all of
    them or by none: such groups are drawn first, ignoring classes, and fractions are met as closely as possible.
    """
    if group is None:
        return _hold_out(split, ids, _shares(split.sizes, fraction), seed, labels, into)
    owner = split.owner
    found, unit = torch.stack([owner, group], 1).unique(dim=0, return_inverse=True)  # node after node
    first = torch.full((len(found),), len(owner)).scatter_reduce(0, unit, torch.arange(len(owner)), "amin")
    total = _shares(found[:, 0].bincount(minlength=split.num_nodes), fraction)
    _, code, many = found[:, 1].unique(return_inverse=True, return_counts=True)
    out = _drawn_of_several(found, many[code] > 1, total, seed, into)
    single = (many[code] == 1).nonzero().flatten()
    units = Split(split.pool, single, cumsum(found[single, 0].bincount(minlength=split.num_nodes)))
    total = (total - found[out, 0].bincount(minlength=split.num_nodes)).clamp(min=0).minimum(units.sizes)
    out[_hold_out(units, ids, total, seed, None if labels is None else labels[first[single]], into)[1].index] = True
    kept, gone = (
        Split(split.pool, split.index[mask], cumsum(owner[mask].bincount(minlength=split.num_nodes)))
        for mask in (~out[unit], out[unit])
    )
    return kept, gone


def _shares(sizes: Tensor, fraction: float) -> Tensor:
    """Return the number of held-out samples, or groups, of every node, [K]: never all of them."""
    return (fraction * sizes.double()).round().long().clamp(min=1).minimum(sizes - 1).clamp(min=0) * (fraction > 0)


def _drawn_of_several(found: Tensor, several: Tensor, total: Tensor, seed: int, into: str) -> Tensor:
    """Return a mask over (node, group) pairs [U, 2] of those whose group is in ``several`` nodes and is held out, [U].

    Groups are visited in random order, but those of nodes with few groups first. A group is held out if that brings its
    nodes closer to their ``total`` [K], in squared distance; a node that would exceed its total keeps two groups.
    """
    left, kept = total.tolist(), found[:, 0].bincount(minlength=len(total)).tolist()
    out, nodes_of = torch.zeros_like(several), defaultdict[int, list[int]](list)
    node, group = found[several].T
    for k, one in zip(node.tolist(), group.tolist(), strict=True):
        nodes_of[one].append(k)
    stream = _TEST_SPLIT_STREAM if into == "test" else _SPLIT_STREAM
    order = lexsort([keyed_bits(seed, stream, group), total[node]])
    taken = set()
    for one in group[order].tolist():
        nodes = nodes_of[one]
        if one in taken or 2 * sum(left[k] for k in nodes) <= len(nodes):
            continue
        if all(left[k] > 0 or kept[k] > 2 for k in nodes):
            taken.add(one)
            for k in nodes:
                left[k], kept[k] = left[k] - 1, kept[k] - 1
    out[several] = torch.tensor([one in taken for one in group.tolist()], dtype=torch.bool)
    return out


def _hold_out(
    split: Split, ids: Tensor, total: Tensor, seed: int, labels: Tensor | None, into: str
) -> tuple[Split, Split]:
    """Hold out ``total`` [K] of every node's samples, or groups, independently per node."""
    owner = split.owner
    place = torch.arange(len(owner)) - split.ptr[owner]
    stream = _TEST_SPLIT_STREAM if into == "test" else _SPLIT_STREAM
    shuffled = lexsort([keyed_bits(seed, stream, ids[owner], place), owner])  # each node's samples stay together
    rank = place
    if labels is not None:
        tier, owed = _merits(owner, labels[shuffled], split.sizes, total)
        first = lexsort([-owed, 3 * owner + tier])
        rank = torch.empty_like(place).index_copy_(0, first, place)
    out = rank < total[owner]
    return (
        Split(split.pool, split.index[shuffled[~out]], cumsum(split.sizes - total)),
        Split(split.pool, split.index[shuffled[out]], cumsum(total)),
    )


def _merits(owner: Tensor, labels: Tensor, sizes: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """Return the keys that order samples for holding out: a tier, ascending, and within it what is owed, descending.

    The k-th sample of a class with c of a node's n samples is owed h c / n - (k - 1) of the h to be held out. Sorting
    by that gives classes their integer parts first and then the rest by largest remainders.
    """
    if not len(labels):
        return owner, owner
    low, high = int(labels.min()), int(labels.max())
    kind = labels - low if high - low < len(labels) else labels.unique(return_inverse=True)[1]
    key = owner * (int(kind.max()) + 1) + kind
    order = key.argsort(stable=True)  # in shuffled order within a class of a node
    _, group, many = key[order].unique_consecutive(return_inverse=True, return_counts=True)
    within = torch.arange(len(group)) - (many.cumsum(0) - many)[group]
    k = torch.empty_like(group).index_copy_(0, order, within)  # from 0
    count = torch.empty_like(group).index_copy_(0, order, many[group])
    owed = total[owner] * count - k * sizes[owner]  # times n
    tier = torch.where(k == count - 1, 2, torch.where(k == 0, 0, 1))
    return tier, owed
