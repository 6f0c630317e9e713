"""Copies of sites in groups that collaborate independently in one run, which then answers a whole question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphcollab._base.keyed import keyed_order

LIMIT = 30  # maximum number of sites for which all pairs are tried
_PAIR_STREAM, _LEFT_STREAM = 171, 172


@dataclass(frozen=True)
class Layout:
    """Copies of K sites, N nodes in all, in groups without edges between them: nodes' ``site`` and ``group``, [N].

    Tables hold the node of site i ``alone`` [K], ``together`` with all [K], in its pair with site j (``pairs`` [K, K]),
    and in the group of all but site k (``without`` [K, K]); -1 if not tried.
    """

    site: Tensor
    group: Tensor
    alone: Tensor
    together: Tensor
    pairs: Tensor
    without: Tensor

    @classmethod
    def of(cls, count: int, limit: int = LIMIT, seed: int = 0) -> Layout:
        """Lay out every site alone, all together, pairs, and all but one.

        With more than ``limit`` sites, only ``limit`` of them are left out, and only as many pairs are drawn as
        ``limit`` sites have, evenly over sites.
        """
        nodes = torch.arange(count)
        pairs = _pairs(count, limit, seed)
        left = nodes if count <= limit else keyed_order(seed, _LEFT_STREAM, nodes)[:limit].sort().values
        left = left if count > 2 else left[:0]  # without one of two sites, the other is alone
        others = (nodes != left[:, None]).nonzero()[:, 1]  # [|left| (K - 1)]
        site = torch.cat([nodes, nodes, pairs.flatten(), others])
        sizes = torch.tensor([1] * count + [count] + [2] * len(pairs) + [count - 1] * len(left))
        group = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        start, end = 2 * count, 2 * count + pairs.numel()
        paired = torch.full((count, count), -1)
        paired[pairs, pairs.flip(1)] = torch.arange(start, end).view(-1, 2)
        without = torch.full((count, count), -1)
        without[others, left.repeat_interleave(count - 1)] = torch.arange(end, len(site))
        return cls(site, group, nodes, nodes + count, paired, without)

    def nodes(self, way: str) -> Tensor:
        """Return the existing nodes of a way to train, [n]."""
        table: Tensor = getattr(self, way)
        return table[table >= 0]

    def names(self, sites: Sequence[str]) -> tuple[str, ...]:
        """Return a name for every node that states its site and its partners, [N]."""
        told = [f"{sites[k]} alone" for k in self.site[self.alone]]
        told += [f"{sites[k]} with all" for k in self.site[self.together]]
        named: dict[int, str] = dict(enumerate(told))
        for table, word in ((self.pairs, "with"), (self.without, "without")):
            for i, k in (table >= 0).nonzero().tolist():
                named[int(table[i, k])] = f"{sites[i]} {word} {sites[k]}"
        return tuple(named[n] for n in range(len(self.site)))

    @property
    def edge_index(self) -> Tensor:
        """Edges between all nodes of a group, [2, E]."""
        sizes = torch.bincount(self.group)
        first = (sizes.cumsum(0) - sizes)[self.group]  # nodes of a group are contiguous
        many = sizes[self.group]
        receiver = torch.repeat_interleave(torch.arange(len(self.group)), many)
        place = torch.arange(len(receiver)) - (many.cumsum(0) - many)[receiver]
        edges = torch.stack([first[receiver] + place, receiver])
        return edges[:, edges[0] != edges[1]]

    def outside(self) -> tuple[Tensor, Tensor]:
        """Return the sites that are left out, [k], and for each a node of the group of all others, [k]."""
        tried = (self.without >= 0).any(0).nonzero().flatten()
        return tried, self.without[:, tried].max(0).values


def _pairs(count: int, limit: int, seed: int) -> Tensor:
    """Return the pairs to try, i < j if there are few sites, [M, 2]."""
    if count <= limit:
        return torch.combinations(torch.arange(count), 2)
    order = keyed_order(seed, _PAIR_STREAM, torch.arange(count))
    far = max(1, limit * (limit - 1) // 2 // count)  # neighbors on a circle, on either side
    rings = [torch.stack([order, order.roll(-step)], 1) for step in range(1, far + 1)]
    return torch.cat(rings).sort(1).values
