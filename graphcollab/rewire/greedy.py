"""FOMO's sampler: nodes meet those who have helped them most so far, and now and then somebody at random."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab.keyed import keyed_uniform
from graphcollab.ops.by_receiver import by_receiver, turns
from graphcollab.piece import Field
from graphcollab.relation import Relation
from graphcollab.rewire.sampler import PeerSampler, add_up, nothing_known
from graphcollab.settings import Fraction, NonNegative
from graphcollab.typing import Env

__all__ = ["GreedyPeers", "update_affinity"]

_EXPLORE_STREAM = 126


@dataclass(frozen=True)
class GreedyPeers(PeerSampler):
    r"""Nodes meet the peers of the greatest running affinity, each of them replaced by a random one with probability ε.

    The ε-greedy sampling of `Personalized Federated Learning with First Order Model Optimization (Zhang et al., ICLR
    2021) <https://arxiv.org/abs/2012.08565>`_. In round t, counted from 0 at the method's start, each of the peers to
    meet is with probability max(ε − t · decay, 0) any other one, else the next best. Affinities start at 0, so a node
    tries peers of which nothing is known, in random order, before those that have done it harm; of equally good ones it
    has met, the one with the smaller ``node_id`` is first. Every round adds what a peer's model was worth, as a share
    of all the node measured, see `update_affinity`.

    Args:
        samples: Peers that a node meets in a round.
        epsilon: ε.
        decay: How much smaller ε is after every round (the published code counts local epochs instead).

    Shapes:
        Reads ``edge_gain`` [E], see `graphcollab.weigh.FirstOrderGain`. Keeps ``affinity``, a `Relation` with the
        running affinity, float64, of every pair that has met.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("affinity", "relation", "what peers' models have been worth so far", "run", "receiver"),
    )

    epsilon: Fraction = 0.3
    decay: NonNegative = 0.05

    def exploration(self, elapsed: int) -> float:
        """Return the probability to meet a random peer, after so many rounds."""
        return max(self.epsilon - elapsed * self.decay, 0.0)

    def prepare(self, data: Data, env: Env) -> Data:
        """Start with affinities of 0."""
        if "affinity" not in data:
            data = copy.copy(data)
            data.affinity = nothing_known(data)
        return data

    def digest(self, data: Data, env: Env) -> Data:
        """Add what the round's peers were worth."""
        if "edge_gain" not in data:
            raise ValueError("GreedyPeers needs gains, and the weigher measures none: use FirstOrderGain()")
        data = copy.copy(data)
        data.affinity = update_affinity(data.affinity, data.edge_index, data.edge_gain)
        return data

    def propose(self, data: Data, env: Env, round_: int) -> Data:
        """Take the best, and random ones."""
        elapsed, many = max(round_ - data.phase_start, 0), data.num_nodes
        slot = torch.arange(self.samples, device=data.node_id.device)
        uniform = keyed_uniform(env.seed, _EXPLORE_STREAM, data.node_id[:, None], round_, slot)
        best = (uniform >= self.exploration(elapsed)).sum(1)  # [K]: how many are not replaced
        ranked = self._ranked(data, env, round_)
        greedy = ranked[:, turns(ranked[1], many) < best[ranked[1]]]
        anyone, _ = self.draw(data, env, round_, known=greedy, turn=2)
        left = self.samples - torch.bincount(greedy[1], minlength=many)
        anyone = anyone[:, turns(anyone[1], many) < left[anyone[1]]]
        return self.meet(data, env, torch.cat([greedy, anyone], 1))

    def _ranked(self, data: Data, env: Env, round_: int) -> Tensor:
        """Return for every node that draws its peers, the best first, those of the same affinity at random, [2, R]."""
        known, value = data.affinity.edge_index, data.affinity.values
        new, _ = self.draw(data, env, round_, known=known, turn=1)
        sender, receiver = known
        candidates = self.candidates(data, env)
        there = (candidates.place(receiver, sender) >= 0) & (data.trains & data.present & ~data.isolated)[receiver]
        order = there.nonzero().flatten()
        order = order[candidates.rank[sender[order]].argsort(stable=True)]
        pairs = torch.cat([new, known[:, order]], 1)
        worth = torch.cat([value.new_zeros(new.shape[1]), value[order]])
        return pairs[:, by_receiver(pairs[1], -worth)]


def update_affinity(affinity: Relation, edge_index: Tensor, gain: Tensor) -> Relation:
    r"""Return running affinities after a round: a_ij + g_ij / Σ_k \|g_ik\|, the sum over all that i measured.

    The sum includes the node's own model (its self-loop). Deviation: the published code divides by \|Σ_k g_ik\|, the
    same where all gains have one sign. Where they nearly cancel that has no bound (834 was seen), and one such round
    would settle a node's peers for good; here a round changes an affinity by 1 at most.

    Args:
        affinity: What was known, one value per pair that has met.
        edge_index: Edges of the round, [2, E].
        gain: g of every edge, [E]; NaN where nothing was measured.
    """
    met, value = edge_index[:, ~gain.isnan()], gain[~gain.isnan()].double()
    total = scatter(value.abs(), met[1], dim_size=affinity.size[1])
    share = value / torch.where(total > 0, total, torch.inf)[met[1]]
    crossing = met[0] != met[1]
    return add_up(affinity, met[:, crossing], share[crossing])
