"""DAC's sampler: nodes meet those who seem similar, and hear from them of others."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab.ops.by_receiver import by_receiver, turns
from graphcollab.piece import Field, Readers
from graphcollab.relation import Relation
from graphcollab.rewire.draw import Candidates
from graphcollab.rewire.sampler import PeerSampler, nothing_known
from graphcollab.settings import Count, Positive, Share
from graphcollab.typing import Env

__all__ = ["AdaptivePeers", "forget", "priors", "update_memory"]


@dataclass(frozen=True)
class AdaptivePeers(PeerSampler):
    r"""Nodes meet peers in proportion to how similar they are known, or said, to be.

    Sampling of decentralized adaptive clustering: `Decentralized adaptive clustering of deep nets is beneficial for
    client collaboration (Listo Zec et al., 2022) <https://arxiv.org/abs/2206.08839>`_, as in *With a Little Help from
    My Friends* (Hagander, Ihre-Thomason, Lund University 2024), section 2.4.2.

    After a round a node knows the similarities it measured, and by two steps those of its peers' peers. The next peers
    are drawn without replacement with the probabilities of `priors`, to which ε is added for everybody who may be met.
    Only pairs that know of each other are stored: with the default two steps, in round t (from 0) at most
    samples + samples² · t more per node, since each of its peers tells of all it has measured; with a ``limit`` no more
    than that many.

    Args:
        samples: Peers that a node meets in a round.
        tau: τ, which multiplies similarities (an inverse temperature).
        scale: ``"minmax"`` brings what a node knows to [0, 1] first; None takes similarities as they are.
        growth: b of a τ that grows over rounds t = 0, 1, …, τ_t = 2 τ / (1 + exp(−b t)) − τ + 1 (DAC-var; the paper's b
            is 0.2). None: τ stays.
        unknown: Others are met with probability ``"epsilon"`` (the text), or as if their similarity were ``"zero"``
            (the authors' code), which explores more.
        epsilon: ε, the least probability.
        two_step: Whom of several informants to believe, see `update_memory`; None: only what a node measured counts.
        share: What nodes tell: what they ``"measured"`` (the thesis' code), so an estimate is two steps away, or
            ``"all"`` they know, as the text says if read literally. An estimate can come from far away then, and
            everybody soon knows everybody.
        limit: Peers that a node remembers at most, the most similar ones; None: all it knows of.

    Shapes:
        Keeps ``memory``, a `Relation` with an edge j → i for every peer j that i knows and two values, [M, 2]: the
        similarity, and 1 where i measured it itself or 0 where it was told; and ``edge_prior`` [E].
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("memory", "relation", "similarities that were measured or told", "run", "receiver"),
        Field("edge_prior", "per_edge", "probability with which the edge was drawn first", known_to="receiver"),
    )
    travels: ClassVar[str] = "similarities that a peer knows, two floats each, to those who met it"
    told: ClassVar[Readers] = {
        "listeners": "similarities that it knows",
        "everybody": "whom it hears in the next round",
    }

    tau: Positive = 30.0
    scale: Literal["minmax"] | None = None
    growth: Positive | None = None
    unknown: Literal["epsilon", "zero"] = "epsilon"
    epsilon: Share = 1e-6
    two_step: Literal["most_similar", "least_similar", "bounded"] | None = "most_similar"
    share: Literal["measured", "all"] = "measured"
    limit: Count | None = None

    def prepare(self, data: Data, env: Env) -> Data:
        """Start with a memory in which nobody knows anybody."""
        if "memory" not in data:
            data = copy.copy(data)
            data.memory = nothing_known(data, 2)
        return data

    def digest(self, data: Data, env: Env) -> Data:
        """Take in the round's similarities, and what the peers told; their maps are charged 2 floats an entry."""
        if "scores" not in data:
            raise ValueError(
                "adaptive sampling needs similarities, and the weigher measures none: use PeerWeights(metric)"
            )
        met, told = data.scores, data.memory
        if self.two_step is not None:
            told = env.plane.told_by(told, _is_shared(told, self.share), data.edge_index)
            entries = torch.bincount(told.edge_index[1, _is_shared(told, self.share)], minlength=data.num_nodes)
            sender, receiver = met.edge_index
            data = env.plane.charge(data, sender, 2.0 * entries[sender], at=receiver)
        data = copy.copy(data)
        rank = Candidates.of(data).rank
        known = update_memory(told, met.edge_index, met.values, rank, self.two_step, self.share)
        data.memory = known.select(env.plane.known(known.edge_index[1]))
        if self.limit is not None:
            data.memory = forget(data.memory, self.limit, rank)
        return data

    def temperature(self, elapsed: int) -> float:
        """Return τ after so many rounds.

        Example:
            >>> [round(AdaptivePeers(tau=30, growth=0.2).temperature(t), 3) for t in (0, 1, 5)]
            [1.0, 3.99, 14.864]
        """
        if self.growth is None:
            return self.tau
        return self.tau * math.tanh(self.growth * elapsed / 2) + 1  # the same, and no overflow

    def propose(self, data: Data, env: Env, round_: int) -> Data:
        """Draw peers by their priors; nodes that know nobody draw at random."""
        memory = data.memory
        elapsed = max(round_ - data.phase_start - 1, 0)
        prior, zero = priors(memory, self.temperature(elapsed), self.scale)
        rest = zero + self.epsilon if self.unknown == "zero" else torch.full_like(zero, self.epsilon)
        edge_index, share = self.draw(data, env, round_, None, memory.edge_index, prior + self.epsilon, rest)
        return self.meet(data, env, edge_index, prior=share)


def update_memory(
    memory: Relation,
    edge_index: Tensor,
    score: Tensor,
    rank: Tensor,
    two_step: str | None = "most_similar",
    share: str = "measured",
) -> Relation:
    """Return the memory after a round: what was measured, and what the peers that were met told of others.

    A measurement replaces all that was known of a peer; an estimate replaces an earlier estimate, never a measurement.
    If several peers tell of the same node, the one that is most similar to the listener is believed (of equally similar
    ones that with the smallest ``node_id``).

    Nodes tell what they knew before the round. Who was met are edges j → i without self-loops, [2, E], with the scores
    that i measured, [E]; ``rank`` [K] is every node's place in the order of ``node_id``. Who is believed is said by
    ``two_step``: the ``"most_similar"`` (the text), the ``"least_similar"`` (the published code), the most similar but
    no more than it is similar itself (``"bounded"``), or nobody (None). Without a bound a few nodes that have fallen
    for another cluster recommend that cluster to their own, highly and one node after the other.
    """
    many = memory.size[0]
    measured = torch.stack([score.double(), torch.ones_like(score, dtype=torch.float64)], 1)
    edges, values = [edge_index, memory.edge_index], [measured, memory.values]
    if two_step is not None:
        shared = memory.select(_is_shared(memory, share))
        told = _told(shared, edge_index, score.double(), rank, two_step)
        edges.append(told[0])
        values.append(told[1])
    index, value = torch.cat(edges, 1), torch.cat(values)
    # Of several entries for a pair: this round's measurement, an old one, this round's estimate, an old one.
    age = torch.cat([torch.full((part.shape[1],), n) for n, part in enumerate(edges)])
    age = torch.where((age == 1) & (value[:, 1] == 0), 3, age)
    keep = _first_of(index[1] * many + rank[index[0]], age, 4, many)
    return Relation(index, value, memory.size).select(keep)


def forget(memory: Relation, limit: int, rank: Tensor) -> Relation:
    """Return a memory of the most similar peers that nodes know of, of equal ones those with the smaller rank [K]."""
    sender, receiver = memory.edge_index
    order = by_receiver(receiver, -memory.values[:, 0], rank[sender])
    return memory.select(order[turns(receiver[order], memory.size[1]) < limit].sort().values)


def _is_shared(memory: Relation, share: str) -> Tensor:
    """Tell which entries nodes tell others, [M]: what they measured, or all they know."""
    measured = memory.values[:, 1] > 0
    return torch.ones_like(measured) if share == "all" else measured


def _told(known: Relation, edge_index: Tensor, trust: Tensor, rank: Tensor, two_step: str) -> tuple[Tensor, Tensor]:
    """Return what receivers hear of third nodes: pairs [2, T], each once, and values [T, 2]."""
    many = known.size[0]
    sender, receiver = edge_index
    order = known.edge_index[1].argsort(stable=True)
    about, value = known.edge_index[0, order], known.values[order, 0]
    degree = torch.bincount(known.edge_index[1], minlength=many)
    begin = degree.cumsum(0) - degree
    length = degree[sender]
    edge = torch.repeat_interleave(torch.arange(len(sender)), length)  # [T'] who told
    item = begin[sender[edge]] + turns(edge, len(sender))
    third, listener = about[item], receiver[edge]
    # Of every pair the entry told over the first edge counts: the most trusted, then the smallest node_id who told.
    turn = rank[sender].argsort(stable=True)
    turn = turn[trust[turn].argsort(descending=two_step != "least_similar", stable=True)]
    place = torch.empty_like(turn)
    place[turn] = torch.arange(len(turn))
    order = _first_of(listener * many + third, place[edge], len(sender), many)
    order = order[third[order] != listener[order]]
    similarity = value[item[order]]
    if two_step == "bounded":
        similarity = torch.minimum(similarity, trust[edge[order]])
    return torch.stack([third[order], listener[order]]), torch.stack([similarity, torch.zeros_like(similarity)], 1)


def _first_of(pair: Tensor, turn: Tensor, turns: int, many: int) -> Tensor:
    """Return which entry of every pair (a number below K², [N]) has the smallest turn, in ascending order of pairs.

    Turns are below ``turns``, and different within a pair.
    """
    if len(pair) < many * many // 4:
        order = (pair * turns + turn).argsort()
        first = torch.ones_like(pair, dtype=torch.bool)
        first[1:] = pair[order[1:]] != pair[order[:-1]]
        return order[first]
    # There are about as many entries as pairs: a table of all pairs is no larger, and much faster than sorting.
    none = torch.iinfo(torch.int64).max
    table = torch.full((many * many,), none)
    table.scatter_reduce_(0, pair, turn * len(pair) + torch.arange(len(pair)), "amin")
    return table[table != none] % len(pair)


def priors(memory: Relation, tau: float, scale: str | None = None) -> tuple[Tensor, Tensor]:
    r"""Return how much more likely every known peer is drawn than others, eq. 2.9 and 2.10 of the thesis.

    .. math::
        p_i(j) = \frac{e^{\tau s_i(j)}}{\sum_l e^{\tau s_i(l)}}

    over the peers l that i knows. The largest similarity is subtracted first, which changes nothing and cannot
    overflow, whatever τ is (the text subtracts the smallest, which can).

    By the ``scale`` ``"minmax"``, similarities that are all equal become 0.

    Returns:
        p of every entry of the memory, [M], and for every node the probability a peer of similarity 0 would have had,
        in the same measure, [K] (0 for nodes that know nobody).
    """
    receiver, similarity, many = memory.edge_index[1], memory.values[:, 0], memory.size[1]
    zero = torch.zeros(many, dtype=similarity.dtype)
    low, high = (zero.scatter_reduce(0, receiver, similarity, how, include_self=False) for how in ("amin", "amax"))
    if scale == "minmax":
        width = (high - low)[receiver]
        similarity = torch.where(width > 0, (similarity - low[receiver]) / width.where(width > 0, 1.0), 0.0)
        low, high = zero, (high > low).to(zero.dtype)
    weight = torch.exp(tau * (similarity - high[receiver]))
    total = scatter(weight, receiver, dim_size=many)
    known = total > 0
    none = torch.where(known, torch.exp((tau * (0 - high)).clamp(max=700)) / total.where(known, 1.0), 0.0)
    return weight / total[receiver], none
