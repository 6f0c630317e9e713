"""DAC's sampler: nodes meet those who seem similar, and hear from them of others."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch_geometric.data import Data

from graphcollab.peers.candidates import Candidates
from graphcollab.peers.memory import empty_memory, forget, priors, shared, update_memory
from graphcollab.piece import Field
from graphcollab.relation import Relation
from graphcollab.rewire.sampler import PeerSampler
from graphcollab.settings import Count, Positive, Share
from graphcollab.typing import Env

__all__ = ["AdaptivePeers"]


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
        epsilon: ε.
        two_step: Whom of several informants to believe, see `update_memory`; None: only what a node measured counts.
        share: What nodes tell: what they ``"measured"`` (the thesis' code), or ``"all"`` they know. Read literally,
            the text is the latter, with estimates kept: a peer shares its whole map s_k, and clients that are not in
            s_i are added. An estimate can come from far away then, and everybody soon knows everybody.
        limit: Peers that a node remembers at most, the most similar ones; None: all it knows of.

    Shapes:
        Keeps ``memory``, a `Relation` with two values per known pair, see `empty_memory`; writes ``edge_prior`` [E],
        the probability with which an edge was drawn first.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("memory", "relation", "similarities that were measured or told", "run", "receiver"),
        Field("edge_prior", "per_edge", "probability with which the edge was drawn first", known_to="receiver"),
    )
    travels: ClassVar[str] = "similarities that a peer knows, two floats each, to those who met it"

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
            data.memory = empty_memory(data.num_nodes, data.node_id.device)
        return data

    def digest(self, data: Data, env: Env) -> Data:
        """Take in the round's similarities, and what the peers told; their maps are charged 2 floats an entry."""
        if "scores" not in data:
            raise ValueError(
                "adaptive sampling needs similarities, and the weigher measures none: use PeerWeights(metric)"
            )
        met = data.scores
        if self.two_step is not None:
            entries = torch.bincount(shared(data.memory, self.share).edge_index[1], minlength=data.num_nodes)
            entries = env.plane.publish(entries)
            sender, receiver = met.edge_index
            data = env.plane.charge(data, sender, 2.0 * entries[sender], at=receiver)
        data = copy.copy(data)
        rank = Candidates.of(data).rank
        told = data.memory if self.two_step is None else env.plane.told_by(data.memory, data.edge_index)
        known = update_memory(told, met.edge_index, met.values, rank, self.two_step, self.share)
        own = env.plane.known(known.edge_index[1])
        data.memory = Relation(known.edge_index[:, own], known.values[own], known.size)
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
