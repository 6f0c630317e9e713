"""Memory of DAC's nodes about other nodes, and their reports from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from graphcollab.comm.relation import Relation
from graphcollab.nn.functional.by_receiver import among_first, blocks, turns


def shared_entries(memory: Relation, share: str = "measured", tells: int | None = None) -> Relation:
    """Return the entries that nodes report: those they measured or, with ``share="all"``, all they know.

    If there are more than ``tells``, those measured last come first, then reported ones; within the same round, and
    among reported ones, the most similar, and among these the first.
    """
    similarity, measured = memory.values.T
    may = measured > 0 if share == "measured" else torch.ones_like(measured, dtype=torch.bool)
    return memory.select(_first_entries(memory.edge_index[1], may, tells, -measured, -similarity))


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
    """Return the memory after round ``now``, from 1: measurements, and reports of met peers about other nodes.

    A measurement replaces everything known of a peer; an estimate replaces an earlier estimate, never a measurement.
    Edges j → i without self-loops, [2, E], were met, with the scores that i measured, [E]; ``told`` is what nodes knew
    before the round. Of several reports on a node, ``two_step`` believes the peer that is ``"most_similar"`` to the
    listener (the text), the ``"least_similar"`` (the published code), the most similar, but at most as similar as that
    peer itself (``"bounded"``), or none (None); ties go to the first by ``rank`` [K], the order of ``node_id``. Without
    a bound, a few nodes that wrongly trust another cluster recommend it highly to their own, one after the other. Of
    the reports a node keeps the ``limit`` most similar entries; ties go to the smaller rank. Receivers are processed in
    blocks.
    """
    many, bits = memory.size[0], (memory.size[0] - 1).bit_length()
    told = memory.select(slice(0)) if told is None or two_step is None else told
    met = Relation(edge_index, torch.stack([score.double(), torch.full_like(score.double(), now)], 1), memory.size)
    memory, told, met = (_by_receiver(one) for one in (memory, told, met))
    have, begin, heard = (_begins(one, many) for one in (memory, told, met))
    whispers = _Whispers(told.values[:, 0], rank.index_select(0, told.edge_index[0]), begin, rank.argsort(), bits)
    sender, receiver = met.edge_index
    work = have.diff().index_add(0, receiver, 1 + begin.diff()[sender])
    parts = []
    for first, last in pairwise(blocks(work)):
        nodes = rank[first:last]
        known, new = (
            _entries(one.select(slice(int(of[first]), int(of[last]))), first, rank, bits)
            for one, of in ((memory, have), (met, heard))
        )
        known = _with(_with(known, whispers.to(nodes, new, two_step)), new)
        known = known.take(_kept(known, limit, bits).nonzero().flatten())
        sender = whispers.ranked.index_select(0, known.key & (2**bits - 1))
        edges = torch.stack([sender, (known.key >> bits) + first])
        parts.append((edges, torch.stack([known.similarity, known.measured], 1)))
    edges, values = (torch.cat(pieces, axis) for pieces, axis in zip(zip(*parts, strict=True), (1, 0), strict=True))
    return replace(memory, edge_index=edges, values=values)


@dataclass(frozen=True)
class _Entries:
    """Knowledge of consecutive nodes: the similarity of other nodes, and when it was measured, [M] each.

    Keys, [M], ascending, hold the receiver, counted from the first of these nodes, in the upper bits, and the sender's
    rank in the lower ones.
    """

    key: Tensor
    similarity: Tensor
    measured: Tensor

    def take(self, which: Tensor) -> _Entries:
        return _Entries(*(each.index_select(0, which) for each in (self.key, self.similarity, self.measured)))


def _entries(relation: Relation, first: int, rank: Tensor, bits: int) -> _Entries:
    """Return the entries of receivers from the first one on, ordered by key."""
    sender, receiver = relation.edge_index
    key = (receiver - first << bits) + rank.index_select(0, sender)
    found = _Entries(key, *relation.values.T)
    return found if bool((key.diff() > 0).all()) else found.take(key.argsort())


def _by_receiver(relation: Relation) -> Relation:
    receiver = relation.edge_index[1]
    return relation if bool((receiver.diff() >= 0).all()) else relation.select(receiver.argsort(stable=True))


def _with(known: _Entries, news: _Entries) -> _Entries:
    """Merge entries; only measurements replace measurements."""
    place = torch.searchsorted(known.key, news.key)
    here = torch.cat([known.key, known.key.new_full((1,), -1)]).index_select(0, place) == news.key
    over = here.nonzero().flatten()
    before = known.measured.index_select(0, place.index_select(0, over))
    over = over[(before == 0) | (news.measured.index_select(0, over) > 0)]
    taken, more = place.index_select(0, over), (~here).nonzero().flatten()
    place = place.index_select(0, more) + torch.arange(len(more))  # their positions in the result
    count = len(known.key) + len(more)
    old = torch.ones(count, dtype=torch.bool).index_fill_(0, place, False).nonzero().flatten()

    def merged(was: Tensor, new: Tensor) -> Tensor:
        both = was.new_empty(count).index_copy_(0, old, was.index_copy(0, taken, new.index_select(0, over)))
        return both.index_copy_(0, place, new.index_select(0, more))

    pairs = ((known.key, news.key), (known.similarity, news.similarity), (known.measured, news.measured))
    return _Entries(*(merged(was, new) for was, new in pairs))


def _kept(known: _Entries, limit: int | None, bits: int) -> Tensor:
    """Return which entries are kept, [M]: measurements, and the ``limit`` most similar reported ones of a node."""
    told = known.measured == 0
    return ~told | _first_entries(known.key >> bits, told, limit, -known.similarity)


def _first_entries(receiver: Tensor, candidates: Tensor, count: int | None, *keys: Tensor) -> Tensor:
    """Return which entries of a mask [M] are among the first ``count`` of their receiver, by keys [M]."""
    if count is None or not len(candidates):
        return candidates
    first, last = receiver.aminmax()
    receiver, many = receiver - first, int(last - first) + 1  # of a block there are few
    some = candidates.nonzero().flatten()
    whose = receiver.index_select(0, some)
    crowded = torch.bincount(whose, minlength=many) > count
    some = some[crowded.index_select(0, whose)]
    if not len(some):
        return candidates
    whose, *own = (values.index_select(0, some) for values in (receiver, *keys))
    return candidates.index_fill(0, some[~among_first(whose, count, *own)], False)


def _begins(relation: Relation, many: int) -> Tensor:
    """Return the start of every receiver's entries, and the end of the last one's, [K + 1], for entries by receiver."""
    count = torch.bincount(relation.edge_index[1], minlength=many)
    return torch.cat([count.new_zeros(1), count.cumsum(0)])


@dataclass(frozen=True)
class _Whispers:
    """Reports of all nodes: similarities and ranks of other nodes, [T]; the start of every node's entries, [K + 1].

    ``ranked`` has the nodes by rank, [K]; ``bits`` is the number of key bits for ranks.
    """

    similarity: Tensor
    rank: Tensor
    begin: Tensor
    ranked: Tensor
    bits: int

    def to(self, own: Tensor, met: _Entries, two_step: str | None) -> _Entries:
        """Return what consecutive nodes of ranks ``own`` hear about third nodes from met peers, each pair once."""
        receiver, told_by, trust = met.key >> self.bits, met.key & (2**self.bits - 1), met.similarity
        sender = self.ranked.index_select(0, told_by)
        begins, ends = self.begin.index_select(0, sender), self.begin.index_select(0, sender + 1)
        edge = torch.repeat_interleave(torch.arange(len(sender)), ends - begins)  # [T'] the reporting peer
        item = begins.index_select(0, edge) + turns(edge, len(sender))
        pair = (receiver << self.bits).index_select(0, edge) + self.rank.index_select(0, item)
        # For every pair the entry over the first edge counts: from the most trusted, then the smallest node_id.
        turn = told_by.argsort(stable=True)
        turn = turn[trust[turn].argsort(descending=two_step != "least_similar", stable=True)]
        place = torch.empty_like(turn)
        place[turn] = torch.arange(len(turn))
        order = _first_of(pair, place.index_select(0, edge), len(sender), len(own) << self.bits)
        pair = pair.index_select(0, order)
        others = (pair & (2**self.bits - 1) != own.index_select(0, pair >> self.bits)).nonzero().flatten()
        pair, order = pair.index_select(0, others), order.index_select(0, others)
        similarity = self.similarity.index_select(0, item.index_select(0, order))
        if two_step == "bounded":
            similarity = torch.minimum(similarity, trust.index_select(0, edge.index_select(0, order)))
        return _Entries(pair, similarity, torch.zeros_like(similarity))


def _first_of(pair: Tensor, turn: Tensor, turns: int, pairs: int) -> Tensor:
    """Return the entry of every pair, a number below ``pairs``, [N], with the smallest turn, in ascending order.

    Turns are below ``turns``, and distinct within a pair.
    """
    if len(pair) < pairs // 4:
        order = (pair * turns + turn).argsort()
        first = torch.ones_like(pair, dtype=torch.bool)
        ordered = pair.index_select(0, order)
        first[1:] = ordered[1:] != ordered[:-1]
        return order[first]
    # There are about as many entries as pairs: a table of all pairs is no larger, and much faster than sorting.
    none = torch.iinfo(torch.int64).max
    table = torch.full((pairs,), none)
    table.scatter_reduce_(0, pair, turn * len(pair) + torch.arange(len(pair)), "amin")
    return table[table != none] % len(pair)
