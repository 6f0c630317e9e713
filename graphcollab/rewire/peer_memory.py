"""What DAC's nodes remember of others, and tell of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from graphcollab.ops.by_receiver import blocks, by_receiver, turns
from graphcollab.relation import Relation

__all__ = ["shared_entries", "update_memory"]


def shared_entries(memory: Relation, share: str = "measured", tells: int | None = None) -> Relation:
    """Return what nodes tell others: what they measured or, by ``share``, ``"all"`` they know.

    Of more than ``tells`` entries of a node those count that it measured last, then those that it was told; of the same
    round, and of those told, the most similar, and of equally similar ones the first.
    """
    similarity, measured = memory.values.T
    may = measured > 0 if share == "measured" else torch.ones_like(measured, dtype=torch.bool)
    return memory.select(_first_entries(memory, may, tells, -measured, -similarity))


def update_memory(
    memory: Relation,
    told: Relation | None,
    edge_index: Tensor,
    score: Tensor,
    rank: Tensor,
    two_step: str | None = "most_similar",
    limit: int | None = None,
    now: int = 1,
) -> Relation:
    """Return the memory after round ``now``, from 1: what was measured, and what peers that were met told of others.

    A measurement replaces all that was known of a peer; an estimate replaces an earlier estimate, never a measurement.
    If several peers tell of the same node, the one that is most similar to the listener is believed (of equally similar
    ones that with the smallest ``node_id``).

    ``told`` is what nodes tell, as they knew it before the round; with None, or if ``two_step`` is None, nobody is
    believed. Who was met are edges j → i without self-loops, [2, E], with the scores that i measured, [E]; ``rank`` [K]
    is every node's place in the order of ``node_id``. Who is believed is said by ``two_step``: the ``"most_similar"``
    (the text), the ``"least_similar"`` (the published code), the most similar but no more than it is similar itself
    (``"bounded"``), or nobody (None). Without a bound a few nodes that have fallen for another cluster recommend that
    cluster to their own, highly and one node after the other.

    Of what it was told a node keeps ``limit`` entries at most: the most similar ones, of equal ones those with the
    smaller rank. Receivers are taken a block at a time, so sorting needs memory for a block only.
    """
    many = memory.size[0]
    memory = _in_order(memory, rank)
    told = memory.select(slice(0)) if told is None or two_step is None else _in_order(told, rank)
    met = _in_order(
        Relation(edge_index, torch.stack([score.double(), torch.full_like(score.double(), now)], 1), memory.size), rank
    )
    begin, have, heard = (_begins(one, many) for one in (told, memory, met))
    sender, receiver = met.edge_index
    work = have.diff().index_add(0, receiver, 1 + begin.diff()[sender])
    parts = []
    for first, last in pairwise(blocks(work)):
        new = met.select(slice(int(heard[first]), int(heard[last])))
        known = memory.select(slice(int(have[first]), int(have[last])))
        known = _with(_with(known, _heard(told, begin, new, rank, first, two_step), rank), new, rank)
        parts.append(known.select(_kept(known, limit)))
    edges, values = (
        torch.cat([getattr(part, name) for part in parts], axis) for name, axis in (("edge_index", 1), ("values", 0))
    )
    return replace(memory, edge_index=edges, values=values)


def _keys(relation: Relation, rank: Tensor) -> Tensor:
    """Return a number for every entry, [M], ascending by receiver and, of one receiver, by rank of the sender."""
    return relation.edge_index[1] * relation.size[0] + rank.index_select(0, relation.edge_index[0])


def _in_order(relation: Relation, rank: Tensor) -> Relation:
    """Return a relation with its entries in order of `_keys`."""
    key = _keys(relation, rank)
    return relation if bool((key.diff() > 0).all()) else relation.select(key.argsort())


def _with(known: Relation, news: Relation, rank: Tensor) -> Relation:
    """Return what nodes know with the news, both in order: only what was measured takes the place of measurements."""
    key, new = _keys(known, rank), _keys(news, rank)
    place = torch.searchsorted(key, new)
    here = torch.cat([key, key.new_full((1,), -1)])[place] == new
    over = here.nonzero().flatten()
    before = known.values[:, 1].index_select(0, place.index_select(0, over))
    over = over[(before == 0) | (news.values[:, 1].index_select(0, over) > 0)]
    taken = place.index_select(0, over)
    more = (~here).nonzero().flatten()
    place = place.index_select(0, more) + torch.arange(len(more))  # where these stand in the result
    old = torch.ones(len(key) + len(more), dtype=torch.bool).index_fill_(0, place, False).nonzero().flatten()
    values = known.values.new_empty(len(key) + len(more), known.values.shape[1])
    values.index_copy_(0, old, known.values.index_copy(0, taken, news.values.index_select(0, over)))
    values.index_copy_(0, place, news.values.index_select(0, more))
    edges = known.edge_index.new_empty(2, len(values))
    for all_, was, new in zip(edges, known.edge_index, news.edge_index, strict=True):
        all_.index_copy_(0, old, was).index_copy_(0, place, new.index_select(0, more))
    return Relation(edges, values, known.size)


def _kept(memory: Relation, limit: int | None) -> Tensor:
    """Tell which entries are kept, [M]: what was measured, and so many of the most similar of what a node was told.

    Of equally similar ones the first are kept. With None all are.
    """
    told = memory.values[:, 1] == 0
    return ~told | _first_entries(memory, told, limit, -memory.values[:, 0])


def _first_entries(memory: Relation, candidates: Tensor, count: int | None, *keys: Tensor) -> Tensor:
    """Tell which of some entries, a mask [M], are among so many first ones of their receiver, by keys [M]."""
    if count is None or not len(candidates):
        return candidates
    first, last = memory.edge_index[1].aminmax()
    receiver, many = memory.edge_index[1] - first, int(last - first) + 1  # of a block there are few
    some = candidates.nonzero().flatten()
    whose = receiver.index_select(0, some)
    crowded = torch.bincount(whose, minlength=many) > count
    some = some[crowded.index_select(0, whose)]
    whose, *own = (values.index_select(0, some) for values in (receiver, *keys))
    order = by_receiver(whose, *own)
    late = turns(whose.index_select(0, order), many) >= count
    late = some.index_select(0, order[late])
    return candidates.index_fill(0, late, False)


def _begins(relation: Relation, many: int) -> Tensor:
    """Return where every receiver's entries begin, and where the last one's end, [K + 1], given them in order."""
    count = torch.bincount(relation.edge_index[1], minlength=many)
    return torch.cat([count.new_zeros(1), count.cumsum(0)])


def _heard(told: Relation, begin: Tensor, met: Relation, rank: Tensor, first: int, two_step: str | None) -> Relation:
    """Return what receivers, from the first one on, hear of third nodes: of every pair one entry, [T, 2], in order.

    Given is what all nodes tell, in order, where every node's entries ``begin``, and whom the receivers met.
    """
    many = told.size[0]
    (sender, receiver), trust = met.edge_index, met.values[:, 0]
    begins, ends = begin.index_select(0, sender), begin.index_select(0, sender + 1)
    edge = torch.repeat_interleave(torch.arange(len(sender)), ends - begins)  # [T'] who told
    item = begins.index_select(0, edge) + turns(edge, len(sender))
    third, listener = told.edge_index[0].index_select(0, item), receiver.index_select(0, edge)
    # Of every pair the entry told over the first edge counts: the most trusted, then the smallest node_id who told.
    turn = rank[sender].argsort(stable=True)
    turn = turn[trust[turn].argsort(descending=two_step != "least_similar", stable=True)]
    place = torch.empty_like(turn)
    place[turn] = torch.arange(len(turn))
    pair = (listener - first) * many + rank.index_select(0, third)
    order = _first_of(pair, place.index_select(0, edge), len(sender), many)
    third, listener = third.index_select(0, order), listener.index_select(0, order)
    others = (third != listener).nonzero().flatten()
    order = order.index_select(0, others)
    edges = torch.stack([third.index_select(0, others), listener.index_select(0, others)])
    similarity = told.values[:, 0].index_select(0, item.index_select(0, order))
    if two_step == "bounded":
        similarity = torch.minimum(similarity, trust.index_select(0, edge.index_select(0, order)))
    return Relation(edges, torch.stack([similarity, torch.zeros_like(similarity)], 1), told.size)


def _first_of(pair: Tensor, turn: Tensor, turns: int, many: int) -> Tensor:
    """Return which entry of every pair (a number below K², [N]) has the smallest turn, in ascending order of pairs.

    Turns are below ``turns``, and different within a pair.
    """
    if len(pair) < many * many // 4:
        order = (pair * turns + turn).argsort()
        first = torch.ones_like(pair, dtype=torch.bool)
        ordered = pair.index_select(0, order)
        first[1:] = ordered[1:] != ordered[:-1]
        return order[first]
    # There are about as many entries as pairs: a table of all pairs is no larger, and much faster than sorting.
    none = torch.iinfo(torch.int64).max
    table = torch.full((many * many,), none)
    table.scatter_reduce_(0, pair, turn * len(pair) + torch.arange(len(pair)), "amin")
    return table[table != none] % len(pair)
