"""Candidate peers of every node, and random draws among them without listing all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.keyed import keyed_uniform
from graphcollab.nn.functional.by_receiver import among_first, blocks, by_receiver, turns

_KNOWN_STREAM, _PLACE_STREAM, _TIME_STREAM = 115, 116, 117


@dataclass(frozen=True)
class Candidates:
    """Lists of nodes from which receivers may draw their peers, each in ascending order of ``node_id``.

    Receivers that may listen to the same nodes share a list, so "everybody" takes K numbers instead of K². A place is a
    position in a receiver's list; the receiver itself may be in it and is never drawn.

    Args:
        key: One number per entry, list · K + rank of the node by ``node_id``, ascending, [L].
        owner: The list that every receiver draws from, [K].
        ranked: The nodes in ascending order of ``node_id``, [K].
        rank: Position of every node in that order, [K].
        node_id: Identity of every node, which keys the draws, [K].
    """

    key: Tensor
    owner: Tensor
    ranked: Tensor
    rank: Tensor
    node_id: Tensor

    @classmethod
    def of(cls, data: Data, group: Tensor | None = None, hears: Tensor | None = None) -> Candidates:
        """Return the nodes that each node may listen to: by default all of its group, with all nodes in one group.

        The ``allowed`` edges bind if there are any. Isolated nodes are left out, as are nodes that have not joined yet
        or have left. ``group`` [K] is every node's group, and ``hears`` [K] the group that it may listen to.
        """
        count = data.num_nodes
        ranked = data.node_id.argsort()
        rank = ranked.argsort()
        group = torch.zeros_like(ranked) if group is None else group
        hears = group if hears is None else hears
        away = data.isolated | ~data.present if "present" in data else data.isolated
        if "allowed" in data:
            sender, receiver = data.allowed.edge_index
            fits = (group[sender] == hears[receiver]) & ~(away[sender] | away[receiver])
            key = receiver[fits] * count + rank[sender[fits]]
            hears = torch.arange(count)
        else:
            key = (group * count + rank)[~away]
        return cls(key.sort().values, hears, ranked, rank, data.node_id)

    @cached_property
    def begin(self) -> Tensor:
        """Start of every receiver's list in ``key``, [K]."""
        return torch.searchsorted(self.key, self.owner * len(self.rank))

    @cached_property
    def length(self) -> Tensor:
        """Number of nodes in every receiver's list, [K]."""
        return torch.searchsorted(self.key, (self.owner + 1) * len(self.rank)) - self.begin

    @cached_property
    def everybody(self) -> bool:
        """Whether there is one list with all nodes in it."""
        return len(self.key) == len(self.rank) and not bool(self.owner.any()) and int(self.key[-1]) == len(self.key) - 1

    @cached_property
    def peers(self) -> Tensor:
        """Number of nodes that every receiver may listen to, excluding itself, [K]."""
        node = torch.arange(len(self.rank))
        return self.length - (self.place(node, node) >= 0).long()

    def place(self, receiver: Tensor, sender: Tensor) -> Tensor:
        """Return the place of senders in their receivers' lists, [M]; -1 if they are not in them."""
        if self.everybody:
            return self.rank.index_select(0, sender)
        wanted = self.owner.index_select(0, receiver) * len(self.rank) + self.rank.index_select(0, sender)
        found = torch.searchsorted(self.key, wanted)
        there = torch.cat([self.key, self.key.new_full((1,), -1)])[found] == wanted
        return torch.where(there, found - self.begin[receiver], -1)

    def node(self, receiver: Tensor, place: Tensor) -> Tensor:
        """Return the nodes at given places of their receivers' lists, [M]."""
        return self.ranked[self.key[self.begin[receiver] + place] % len(self.rank)]


def draw_peers(
    candidates: Candidates,
    receiver: Tensor,
    count: int,
    keys: tuple[int, ...],
    known: Tensor | None = None,
    rate: Tensor | float = 0.0,
    rest: Tensor | float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Draw ``count`` distinct peers for every receiver [R], one after the other in proportion to their rates.

    The draw is a race (Efraimidis and Spirakis 2006): candidates arrive after exponential times, at rate 0 never. Pairs
    ``known``, sender and receiver, [2, M], each once, have their own rates, [M] or one; all other pairs share ``rest``,
    [K] or one, and only their first arrivals are drawn, never all pairs. Pairs of rate infinity come first. ``keys``
    key the randomness, with the node_ids. Return edges [2, D], by receiver and arrival, and the probability of each to
    be drawn first, [D].
    """
    many = len(candidates.rank)
    known = receiver.new_empty(2, 0) if known is None else known
    rate = torch.as_tensor(rate, dtype=torch.float64).expand(known.shape[1])
    rest = torch.as_tensor(rest, dtype=torch.float64).expand(many)
    if not bool((known[1].diff() >= 0).all()):
        order = known[1].argsort(stable=True)
        known, rate = known[:, order], rate[order]
    receiver = receiver.sort().values
    work = torch.bincount(known[1], minlength=many).index_add_(0, receiver, torch.full_like(receiver, count))
    cuts = blocks(work)
    places = torch.tensor(cuts)
    edges, shares = [], []
    for nodes, k, d in zip(
        pairwise(cuts),
        pairwise(torch.searchsorted(known[1].contiguous(), places).tolist()),
        pairwise(torch.searchsorted(receiver, places).tolist()),
        strict=True,
    ):
        edge_index, share = _race(
            candidates, slice(*nodes), receiver[slice(*d)], count, keys, known[:, slice(*k)], rate[slice(*k)], rest
        )
        edges.append(edge_index)
        shares.append(share)
    return torch.cat(edges, 1), torch.cat(shares)


def _race(
    candidates: Candidates,
    nodes: slice,
    receiver: Tensor,
    count: int,
    keys: tuple[int, ...],
    known: Tensor,
    rate: Tensor,
    rest: Tensor,
) -> tuple[Tensor, Tensor]:
    """Draw as `draw_peers` does, for those receivers that are among consecutive nodes."""
    node_id, first, many = candidates.node_id, nodes.start, nodes.stop - nodes.start
    draws = torch.zeros(many, dtype=torch.bool).index_fill_(0, receiver - first, True)
    sender, listener = known
    place = candidates.place(listener, sender)
    fits = ((place >= 0) & (sender != listener) & draws.index_select(0, listener - first)).nonzero().flatten()
    sender, listener, place, rate = (values.index_select(0, fits) for values in (sender, listener, place, rate))
    own = candidates.place(receiver, receiver)
    taken = torch.stack([torch.cat([listener, receiver[own >= 0]]) - first, torch.cat([place, own[own >= 0]])])
    excluded = torch.bincount(taken[0], minlength=many)
    free = candidates.length[nodes] - excluded  # [many]: candidates without a rate of their own
    who_draws, draws_made = node_id[receiver, None], torch.arange(count)
    place_draw, time_draw = (keyed_uniform(s, *keys, who_draws, draws_made) for s in (_PLACE_STREAM, _TIME_STREAM))
    number = _distinct(free[receiver - first], place_draw)  # [R, count] numbers below free, or -1
    total = torch.zeros(many, dtype=torch.float64).index_add_(0, listener - first, rate) + free * rest[nodes]
    late = _arrivals(free[receiver - first], rest[receiver], time_draw)  # [R, count]
    arrives = torch.isfinite(late)
    who = receiver[:, None].expand(-1, count)[arrives]
    at = _skip(number[arrives], who - first, taken, excluded, len(node_id))
    who_hears, who_speaks = node_id.index_select(0, listener), node_id.index_select(0, sender)
    wait = -torch.log1p(-keyed_uniform(_KNOWN_STREAM, *keys, who_hears, who_speaks)) / rate
    early = among_first(listener - first, count, wait)
    senders = torch.cat([sender[early], candidates.node(who, at)])
    listeners = torch.cat([listener[early], who])
    rates, times = torch.cat([rate[early], rest[who]]), torch.cat([wait[early], late[arrives]])
    order = by_receiver(listeners, times)
    order = order[(turns(listeners[order] - first, many) < count) & torch.isfinite(times[order])]
    share = rates[order] / total[listeners[order] - first]
    return torch.stack([senders[order], listeners[order]]), share


def _distinct(free: Tensor, uniform: Tensor) -> Tensor:
    """Return distinct numbers from 0 to ``free`` - 1 for every receiver [R, count], -1 if there are no more."""
    count = uniform.shape[1]
    number = torch.arange(count)
    left = (free[:, None] - number).clamp(min=0)
    # The k-th is one of those not drawn yet: with p_0 < p_1 < … drawn, the r-th of the others is r + #{m: p_m − m ≤ r}.
    pick = (uniform * left).long()
    large = torch.iinfo(torch.int64).max // 2
    drawn = pick[:, :1]
    for k in range(1, count):
        ahead = (drawn.sort(1).values - number[:k] <= pick[:, k, None]).sum(1, keepdim=True)
        drawn = torch.cat([drawn, torch.where(left[:, k, None] > 0, pick[:, k, None] + ahead, large)], 1)
    return drawn.masked_fill(left == 0, -1)


def _arrivals(free: Tensor, rest: Tensor, uniform: Tensor) -> Tensor:
    """Return the first arrival times [R, count] among ``free`` candidates of equal rate, infinite beyond their number.

    The k-th of n exponential waiting times follows the previous one after a waiting time of rate (n − k) · rate.
    """
    k = torch.arange(uniform.shape[1])
    left = (free[:, None] - k).clamp(min=0) * rest[:, None]
    return (-torch.log1p(-uniform) / left).nan_to_num(nan=torch.inf, posinf=torch.inf).cumsum(1)


def _skip(number: Tensor, receiver: Tensor, taken: Tensor, excluded: Tensor, longest: int) -> Tensor:
    """Return the place of a receiver's number-th candidate that is not taken, in a list shorter than ``longest``.

    With the taken places p_0 < p_1 < … of a receiver, the candidate number r has the place r + #{m: p_m − m ≤ r}.
    """
    key = (taken[0] * longest + taken[1]).sort().values
    listener, place = key // longest, key % longest
    before = place - turns(listener, len(excluded))
    ahead = torch.searchsorted(listener * (longest + 1) + before, receiver * (longest + 1) + number, right=True)
    return number + ahead - (excluded.cumsum(0) - excluded)[receiver]
