"""Random pairs of nodes in which every node occurs equally often."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab.keyed import keyed_order

_PAIRING = 2  # what random numbers are for


def regular_pairs(count: int, degree: int, seed: int) -> Tensor:
    """Return different pairs of K nodes, every node ``degree`` < K times (K degree even), [2, K degree / 2]."""
    rest, attempt, edges = count - 1 - degree, 0, None
    while edges is None:
        edges, attempt = _pair_ends(count, min(degree, rest), seed, attempt), attempt + 1
    if rest < degree:
        every = torch.triu_indices(count, count, 1)
        edges = every[:, ~torch.isin(every[0] * count + every[1], edges[0] * count + edges[1])]
    return edges


def _pair_ends(count: int, degree: int, seed: int, attempt: int) -> Tensor | None:
    """Return edges [2, K degree / 2] between K nodes; None if the ends that are left cannot be paired."""
    ends, found, turn = torch.arange(count).repeat_interleave(degree), torch.zeros(0, dtype=torch.int64), 0
    while len(ends):
        order = keyed_order(seed, _PAIRING, attempt, turn, torch.arange(len(ends)))
        pairs = ends[order].view(-1, 2).sort(1).values
        key = pairs[:, 0] * count + pairs[:, 1]
        fits = (pairs[:, 0] < pairs[:, 1]) & ~torch.isin(key, found)
        fits[fits.nonzero().flatten()[~_first(key[fits])]] = False
        found, ends = torch.cat([found, key[fits]]), pairs[~fits].flatten()
        if not bool(fits.any()) and not _can_pair(ends, found, count):
            return None
        turn += 1
    return torch.stack([found // count, found % count])


def _first(key: Tensor) -> Tensor:
    """Tell of every number whether it occurs for the first time, [N]."""
    order = key.argsort(stable=True)
    first = torch.ones_like(key, dtype=torch.bool)
    first[order[1:]] = key[order[1:]] != key[order[:-1]]
    return first


def _can_pair(ends: Tensor, found: Tensor, count: int) -> bool:
    """Tell whether two of the nodes to which ends are left have no edge yet."""
    nodes = ends.unique()
    one, other = torch.combinations(nodes).T
    return bool((~torch.isin(one * count + other, found)).any())
