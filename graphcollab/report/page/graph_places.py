"""Groups of nodes that listen to each other, and where nodes are drawn: the groups apart, each as a disc."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

__all__ = ["Groups", "groups_of", "places_of"]

IN_A_CIRCLE = 8  # nodes at most
GOLDEN = math.pi * (3 - math.sqrt(5))  # angle by which points fill a disc evenly
APART = 1.2  # distance of two discs that would touch at 1
SEED = 0


@dataclass(frozen=True)
class Groups:
    """Nodes by the group they are in.

    Args:
        of: Number of each node's group, from 0, the largest first, [n].
        sizes: Nodes of every group.
        modularity: How far they are apart: 0 is as by chance, 0.3 and more are clear groups.
    """

    of: Sequence[int]
    sizes: Sequence[int]
    modularity: float


def groups_of(weights: Tensor) -> Groups:
    """Return groups whose nodes listen to each other more than to others, by the method of Louvain; weights [n, n]."""
    import networkx

    both = (weights + weights.T) / 2
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(weights)))
    pairs = torch.triu(both, 1).nonzero().tolist()
    graph.add_weighted_edges_from((i, j, float(both[i, j])) for i, j in pairs)
    found = networkx.community.louvain_communities(graph, seed=SEED)
    some = sorted(found, key=lambda group: (-len(group), min(group)))
    of = {k: g for g, group in enumerate(some) for k in group}
    apart = networkx.community.modularity(graph, some) if pairs else 0.0
    return Groups([of[k] for k in range(len(weights))], [len(group) for group in some], apart)


def places_of(groups: Groups, heard: Sequence[float]) -> list[tuple[float, float]]:
    """Return where nodes are drawn, in [-1, 1]; in the middle of its group is the node that is listened to most.

    Few nodes are on a circle, where no line between two is hidden by a third.
    """
    count = len(groups.of)
    if count <= IN_A_CIRCLE:
        turns = [2 * math.pi * (k + 0.5) / count for k in range(count)]
        return [(math.sin(turn), math.cos(turn)) for turn in turns]
    centres, place = _centres([math.sqrt(size) for size in groups.sizes]), [(0.0, 0.0)] * count
    for g, (x, y) in enumerate(centres):
        inside = sorted((k for k in range(count) if groups.of[k] == g), key=lambda k: (-heard[k], k))
        for n, k in enumerate(inside):
            far = math.sqrt(n + 0.5) if len(inside) > 1 else 0.0
            place[k] = (x + far * math.cos(n * GOLDEN), y + far * math.sin(n * GOLDEN))
    lows, highs = ([f(one[axis] for one in place) for axis in (0, 1)] for f in (min, max))
    middle = [(low + high) / 2 for low, high in zip(lows, highs, strict=True)]
    half = [max((high - low) / 2, 1e-9) for low, high in zip(lows, highs, strict=True)]
    return [((x - middle[0]) / half[0], (y - middle[1]) / half[1]) for x, y in place]


def _centres(radii: Sequence[float]) -> list[tuple[float, float]]:
    """Return the centres of discs on a ring, none of which touches the next."""
    if len(radii) == 1:
        return [(0.0, 0.0)]
    after = [*radii[1:], radii[0]]
    gaps = [one + other for one, other in zip(radii, after, strict=True)]
    turns = [2 * math.pi * gap / sum(gaps) for gap in gaps]
    ring = APART * max(gap / (2 * math.sin(min(turn, math.pi) / 2)) for gap, turn in zip(gaps, turns, strict=True))
    angles = [0.0, *accumulate(turns[:-1])]
    return [(ring * math.sin(angle), ring * math.cos(angle)) for angle in angles]
