"""Which of every node's samples are set aside for validation."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab.keyed import keyed_bits
from graphcollab.tasks.pool import Split

__all__ = ["hold_out"]

_SPLIT_STREAM = 101


def hold_out(
    split: Split, ids: Tensor, fraction: float, seed: int, labels: Tensor | None = None
) -> tuple[Split, Split]:
    """Divide every node's samples into those it keeps and those held out, max(round(fraction n), 1) of n.

    Samples are shuffled, keyed by seed and node. Without labels the first ones are held out. With them every class is
    held out in proportion to its share, by largest remainders, but first, as far as the total allows it, one sample of
    every class of which a node has several, and last, only if nothing else is left, the last sample of a class.

    Args:
        split: All samples.
        ids: Identity of every node.
        fraction: Share that is held out.
        seed: Seed of the draw.
        labels: Class of every sample of the split, in its order, where samples have classes.

    Shapes:
        ids: [K]; labels: [total].

    Returns:
        Who keeps which samples, and whose are held out.
    """
    sizes = split.sizes
    held = [min(max(round(fraction * n), 1), n - 1) if n > 1 and fraction > 0 else 0 for n in sizes.tolist()]
    total = torch.tensor(held, dtype=torch.int64, device=sizes.device)
    owner = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
    place = torch.arange(len(owner), device=sizes.device) - split.ptr[owner]
    shuffled = _sorted_by(owner, keyed_bits(seed, _SPLIT_STREAM, ids[owner], place))  # owners stay where they were
    rank = place
    if labels is not None:
        first = _sorted_by(owner, *_merits(owner, labels[shuffled], sizes, total))
        rank = torch.empty_like(place).index_copy_(0, first, place)
    out = rank < total[owner]
    return (
        Split(split.pool, split.index[shuffled[~out]], _pointers(sizes - total)),
        Split(split.pool, split.index[shuffled[out]], _pointers(total)),
    )


def _merits(owner: Tensor, labels: Tensor, sizes: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """Return by what samples are held out, the smallest first: what comes before all else, and how little is owed.

    The k-th sample of a class of c among a node's n is owed h c / n - (k - 1) of the h to be held out; in order of
    that, classes get their whole parts first and then by the largest remainders.
    """
    kind = labels.unique(return_inverse=True)[1]
    classes = int(kind.max()) + 1 if len(kind) else 1
    _, group, many = (owner * classes + kind).unique(return_inverse=True, return_counts=True)
    order = group.argsort(stable=True)
    within = torch.arange(len(group), device=group.device) - (many.cumsum(0) - many)[group[order]]
    k = torch.empty_like(group).index_copy_(0, order, within)  # from 0, in shuffled order
    count = many[group]
    owed = total[owner] * count - k * sizes[owner]  # times n
    tier = torch.where(k == count - 1, 2, torch.where(k == 0, 0, 1))
    return tier, -owed


def _sorted_by(*keys: Tensor) -> Tensor:
    """Return the order by the first key, equal ones by the second, and so on; equal ones stay in order."""
    order = torch.arange(len(keys[0]), device=keys[0].device)
    for key in reversed(keys):
        order = order[key[order].argsort(stable=True)]
    return order


def _pointers(sizes: Tensor) -> Tensor:
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
