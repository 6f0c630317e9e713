"""DAC's sampler: nodes meet peers that seem similar, and learn about other nodes from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab._base.errors import MissingError
from graphcollab._base.piece import Field, Readers, updated
from graphcollab._base.settings import Count, Positive, Share
from graphcollab.comm.relation import Relation
from graphcollab.components.env import Env
from graphcollab.components.rewire.dac_memory import shared_entries, update_memory
from graphcollab.components.rewire.draw import Candidates
from graphcollab.components.rewire.sampler import PeerSampler, nothing_known


@dataclass(frozen=True)
class AdaptivePeers(PeerSampler):
    """Draw peers with probabilities that grow with their known or reported similarity.

    After a round a node knows the similarities it measured, and through two steps those of its peers' peers. The next
    peers are drawn without replacement with the probabilities of ``priors``, plus ε for all nodes that may be met. Only
    pairs that know of each other are stored: everything a node measured, at most ``samples`` more per round, and up to
    ``limit`` reported entries. Without bounds, in round t, from 0, a node knows up to samples + samples² · t more. See
    `dac`.

    Args:
        samples: Peers that a node meets in a round.
        tau: τ, which multiplies similarities (an inverse temperature).
        scale: ``"minmax"`` first scales a node's known similarities to [0, 1]; None uses them unchanged.
        growth: b of a τ that grows over rounds t = 0, 1, …, τ_t = 2 τ / (1 + exp(−b t)) − τ + 1 (DAC-var; the paper's b
            is 0.2). None: τ is constant.
        unknown: Unknown nodes are met with probability ``"epsilon"`` (the text), or as if their similarity were
            ``"zero"`` (the authors' code), which explores more.
        epsilon: ε, the minimum probability.
        two_step: Which of several reports to believe, see ``update_memory``; None: only measurements count.
        share: What nodes report: what they ``"measured"`` (the thesis' code), so an estimate is two steps away, or
            ``"all"`` they know, the literal reading of the text. Estimates can then come from far away, and all nodes
            soon know each other.
        tells: Maximum number of nodes that a node reports on, those it measured last; None: all. (With ``share="all"``:
            followed by those reported to it, the most similar first.)
        limit: Maximum number of reported nodes that a node remembers, the most similar ones; None: all. Measurements
            are always remembered: a node that forgets which nodes are dissimilar believes others who say otherwise.

    Shapes:
        Keeps ``memory``, a `Relation` with an edge j → i for every peer j that i knows and two values, [M, 2]: the
        similarity, and the round in which i measured it, from 1, or 0 if it was reported; and ``edge_prior`` [E].
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
    tells: Count | None = 20
    limit: Count | None = 75

    def prepare(self, data: Data, env: Env) -> Data:
        if "memory" not in data:
            data = updated(data, memory=nothing_known(data, 2))
        return data

    def digest(self, data: Data, env: Env) -> Data:
        """Add the round's similarities and the peers' reports; the reports are charged 2 floats an entry."""
        if "scores" not in data:
            raise MissingError(
                "metric", "adaptive sampling needs similarities, and the weigher measures none: use PeerWeights(metric)"
            )
        met, rank, told = data.scores, Candidates.of(data).rank, None
        if self.two_step is not None:
            data, told = self.tell(data, env, shared_entries(data.memory, self.share, self.tells), floats=2)
        now = data.round + 1
        known = update_memory(data.memory, told, met.edge_index, met.values, rank, self.two_step, self.limit, now)
        here = env.plane.is_local(known.edge_index[1])
        return updated(data, memory=known if bool(here.all()) else known.select(here))

    def temperature(self, elapsed: int) -> float:
        """Return τ after ``elapsed`` rounds."""
        if self.growth is None:
            return self.tau
        return self.tau * math.tanh(self.growth * elapsed / 2) + 1  # the same formula, without overflow

    def propose(self, data: Data, env: Env, round_: int) -> Data:
        """Draw peers by their priors; nodes that know no other node draw at random."""
        memory = data.memory
        elapsed = max(round_ - data.phase_start - 1, 0)
        prior, zero = priors(memory, self.temperature(elapsed), self.scale)
        rest = zero + self.epsilon if self.unknown == "zero" else torch.full_like(zero, self.epsilon)
        edge_index, share = self.draw(data, env, round_, None, memory.edge_index, prior + self.epsilon, rest)
        return self.meet(data, env, edge_index, prior=share)


def priors(memory: Relation, tau: float, scale: str | None = None) -> tuple[Tensor, Tensor]:
    r"""Return how much more likely every known peer is drawn than unknown ones, p [M], eq. 2.9 and 2.10 of the thesis.

    .. math::
        p_i(j) = \frac{e^{\tau s_i(j)}}{\sum_l e^{\tau s_i(l)}}

    over the peers l that i knows; and for every node, on the same scale, the value for a peer of similarity 0, [K], 0
    if it knows no other node. The largest similarity is subtracted first (the text subtracts the smallest, which can
    overflow). With ``"minmax"``, similarities that are all equal become 0.
    """
    receiver, similarity, many = memory.edge_index[1], memory.values[:, 0], memory.size[1]
    zero = torch.zeros(many, dtype=similarity.dtype)
    low, high = (zero.scatter_reduce(0, receiver, similarity, how, include_self=False) for how in ("amin", "amax"))
    if scale == "minmax":
        width = (high - low)[receiver]
        similarity = torch.where(width > 0, (similarity - low[receiver]) / width.where(width > 0, 1.0), 0.0)
        low, high = zero, (high > low).to(zero.dtype)
    weight = torch.exp(tau * (similarity - high.index_select(0, receiver)))
    total = scatter(weight, receiver, dim_size=many)
    known = total > 0
    none = torch.where(known, torch.exp((tau * (0 - high)).clamp(max=700)) / total.where(known, 1.0), 0.0)
    return weight / total.index_select(0, receiver), none
