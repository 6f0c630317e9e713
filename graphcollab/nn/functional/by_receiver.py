"""Operations on the edges of each receiver: order, sum, and existence."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import scatter


def by_receiver(receiver: Tensor, *keys: Tensor) -> Tensor:
    """Return the order of edges by receiver, and by ascending keys for each receiver, the first key first, [E]."""
    order, there = _table(receiver)
    if order is None:
        order = receiver.argsort(stable=True)
        for key in (*reversed(keys), receiver):
            order = order.index_select(0, key.index_select(0, order).argsort(stable=True))
        return order
    table = torch.full(there.shape, -1, device=receiver.device).masked_scatter(there, order)
    for key in reversed(keys):
        own = key.index_select(0, table.masked_select(there))
        place = _spread(own, there).sort(dim=1, stable=True).indices
        table = table.gather(1, place)
        there = table >= 0
    return table.masked_select(there)


def among_first(receiver: Tensor, count: int, *keys: Tensor) -> Tensor:
    """Return a mask [E] of the edges with the ``count`` smallest keys of their receiver, in the order of `by_receiver`.

    It runs on the CPU. With one key, edges are not sorted, which takes a twentieth of the time: the first edges of a
    receiver are those below its ``count``-th smallest key, followed by those equal to it.
    """
    order, there = _table(receiver)
    first = torch.ones_like(receiver, dtype=torch.bool)
    if there.shape[1] <= count:
        return first
    if order is None or len(keys) != 1 or bool(keys[0].isnan().any()):
        order = by_receiver(receiver, *keys)
        late = turns(receiver.index_select(0, order), int(receiver.max()) + 1) >= count
        return first.index_fill_(0, order[late], False)
    key = keys[0].index_select(0, order)
    table = _spread(key, there)
    least = torch.from_numpy(np.partition(table.numpy(), count - 1, axis=1)[:, count - 1 : count])
    below, same = table < least, table == least
    below |= same & (same.cumsum(1) <= count - below.sum(1, keepdim=True))
    return first.index_copy_(0, order, below.masked_select(there))


def _table(receiver: Tensor) -> tuple[Tensor | None, Tensor]:
    """Return the order of edges by receiver, and the occupied places of a table with one row for each, [R, most].

    Sorting short rows of a table takes a quarter of the time of sorting all edges. The order is None if the table would
    be much larger than the number of edges, because a few receivers have far more than others.
    """
    in_order = bool((receiver.diff() >= 0).all())
    order = torch.arange(len(receiver), device=receiver.device) if in_order else receiver.argsort(stable=True)
    count = receiver.index_select(0, order).unique_consecutive(return_counts=True)[1]
    width = int(count.max()) if len(order) else 0
    there = torch.arange(width, device=receiver.device) < count[:, None]
    return (None if there.numel() > 4 * len(order) else order), there


def _spread(key: Tensor, there: Tensor) -> Tensor:
    """Return the keys of edges at their places in a table, row by row; empty places come last."""
    last = torch.inf if key.is_floating_point() else torch.iinfo(key.dtype).max
    return key.new_full(there.shape, last).masked_scatter(there, key)


def turns(receiver: Tensor, count: int) -> Tensor:
    """Return the position of every edge among its receiver's edges, [E], for edges sorted by their K receivers."""
    degree = torch.bincount(receiver, minlength=count)
    return torch.arange(len(receiver), device=receiver.device) - (degree.cumsum(0) - degree).index_select(0, receiver)


def blocks(work: Tensor, most: int = 2**17) -> list[int]:
    """Cut nodes into blocks of consecutive nodes with about as much ``work`` [K] each; return the block boundaries.

    A block has at most ``most`` entries, or a single node, such that its data stay in the cache, where sorting and
    look-ups take a third of the time.
    """
    total, cuts = work.cumsum(0), [0]
    while cuts[-1] < len(work):
        before = total[cuts[-1] - 1] if cuts[-1] else total.new_zeros(())
        cuts.append(max(int(torch.searchsorted(total, before + most, right=True)), cuts[-1] + 1))
    return cuts


def receives(edges: Tensor, receiver: Tensor, count: int) -> Tensor:
    """Return a mask of the K nodes that receive along the edges in a mask [E], [K]."""
    return torch.bincount(receiver[edges], minlength=count) > 0


def shares(values: Tensor, receiver: Tensor, count: int) -> Tensor:
    """Return the share of every edge's value in the sum over its receiver's edges, [E]."""
    return values / scatter(values, receiver, dim_size=count)[receiver]
