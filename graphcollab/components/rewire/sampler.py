"""Samplers of peers for the next round: random ones, or the best so far."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab._base.errors import MissingError, TooFewError
from graphcollab._base.keyed import keyed_uniform
from graphcollab._base.piece import Field, Readers, updated
from graphcollab._base.settings import Count, Fraction, NonNegative
from graphcollab.comm.lists import edges_of_neighbors, merge_edges
from graphcollab.comm.relation import Relation
from graphcollab.components.env import Env
from graphcollab.components.rewire.draw import Candidates, draw_peers
from graphcollab.components.slots import Rewiring
from graphcollab.nn.functional.by_receiver import by_receiver, turns
from graphcollab.transforms._edges import sort_edges

_EXPLORE_STREAM = 126


def connect(data: Data, edge_index: Tensor, **fields: Tensor) -> Data:
    """Return the graph with these edges and a self-loop at every node instead of its own edges.

    Self-loops get 0 (False) in further ``fields`` of the edges, [E] each.
    """
    node = torch.arange(data.num_nodes)
    data = copy.copy(data)
    for name in [key for key in data.keys() if "edge" in key]:  # noqa: SIM118
        del data[name]
    data.edge_index = torch.cat([edge_index, torch.stack([node, node])], 1)
    data.edge_weight = torch.zeros(data.edge_index.shape[1], dtype=data.x.dtype)
    for name, values in fields.items():
        data[f"edge_{name}"] = torch.cat([values, values.new_zeros(data.num_nodes)])
    return sort_edges(data)


def chosen_edges(data: Data, env: Env) -> Tensor:
    """Return the edges along which local nodes have merged another node's model in this round, [E]."""
    sender, receiver = data.edge_index
    return (data.edge_weight > 0) & (sender != receiver) & env.plane.is_local(receiver)


def nothing_known(data: Data, *shape: int, dtype: torch.dtype = torch.float64) -> Relation:
    """Return a relation without pairs, whose values, [0, ...], have a given shape and type."""
    nothing = torch.empty(2, 0, dtype=torch.int64)
    return Relation.square(nothing, torch.empty(0, *shape, dtype=dtype), data.num_nodes)


@dataclass(frozen=True)
class PeerSampler(Rewiring):
    """Nodes meet random peers; subclasses choose peers more selectively.

    A run begins with `prepare` and `propose`; after every round follow `digest`, which updates the sampler's state from
    the round's edges and weights, and from ``data.scores`` if the weigher measures peers, and `propose`, which sets the
    edges of the next round. A round's edges are those along which nodes meet in that round, drawn anew every time. The
    initial graph of a run defines which nodes may meet; without one all nodes may meet, and no pairs are listed. Nodes
    that do not train draw no peers, but may be met by others. Every node has a self-loop, for the weight of its own
    model.

    Args:
        samples: Peers that a node meets in a round. Nodes that may meet fewer meet all of them.
        within: ``"cluster"``: only peers of the node's true cluster (an oracle); None: any.

    Raises:
        ValueError: If there is only one node, or true clusters are needed and not known.
    """

    finds_peers: ClassVar[bool] = True
    told: ClassVar[Readers] = {"everybody": "whom it hears in the next round"}

    samples: Count = 5
    within: Literal["cluster"] | None = field(default=None, kw_only=True)

    def init(self, data: Data, env: Env) -> Data:
        if data.num_nodes == 1:
            raise TooFewError("nodes", "there is only one node, which has nobody to meet: train it by the method local")
        return self.propose(self.prepare(data, env), env, data.round)

    def __call__(self, data: Data, env: Env) -> Data:
        return self.propose(self.digest(data, env), env, data.round + 1)

    def prepare(self, data: Data, env: Env) -> Data:
        """Create the sampler's state. A later phase finds the state of the one before it."""
        return data

    def digest(self, data: Data, env: Env) -> Data:
        """Update the sampler's state with the results of the round's edges."""
        return data

    def propose(self, data: Data, env: Env, round_: int) -> Data:
        """Return the graph with the edges of a round: any that are allowed."""
        return self.meet(data, env, self.draw(data, env, round_)[0])

    def meet(self, data: Data, env: Env, edge_index: Tensor, **fields: Tensor) -> Data:
        """Return the graph with the edges drawn by local receivers, and at most one field of theirs, [E]."""
        values = next(iter(fields.values()), edge_index[0])
        edges = merge_edges(env.plane, Relation.square(edge_index, values, data.num_nodes))
        return connect(data, edges.edge_index, **dict.fromkeys(fields, edges.values))

    def tell(self, data: Data, env: Env, own: Relation, floats: float) -> tuple[Data, Relation]:
        """Tell the peers that met a node what it knows, ``floats`` floats an entry, charged; return what is heard, too.

        Entries are ``own``, of local receivers, j → i with what i knows of j; values must be finite.
        """
        told = edges_of_neighbors(env.plane, own, data.edge_index)
        entries = torch.bincount(told.edge_index[1], minlength=data.num_nodes)
        sender, receiver = data.scores.edge_index
        return env.plane.charge(data, sender, floats * entries[sender], at=receiver), told

    def draws(self, data: Data) -> Tensor:
        """Return which nodes draw peers, a mask [K]."""
        return data.trains & data.present & ~data.isolated

    def candidates(self, data: Data, env: Env) -> Candidates:
        """Return the nodes that each node may meet."""
        return Candidates.of(data, None if self.within is None else env.engine.tasks.require_cluster())

    def draw(
        self,
        data: Data,
        env: Env,
        round_: int,
        count: int | None = None,
        known: Tensor | None = None,
        rate: Tensor | float = 0.0,
        rest: Tensor | float = 1.0,
        turn: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """Draw peers for every node that trains; see ``draw_peers``. ``turn`` separates several draws of a round."""
        receiver = env.plane.local(self.draws(data).nonzero().flatten())
        keys, number = (env.seed, round_, turn), self.samples if count is None else count
        return draw_peers(self.candidates(data, env), receiver, number, keys, known, rate, rest)


@dataclass(frozen=True)
class GreedyPeers(PeerSampler):
    """Nodes meet the peers with the largest running affinity, each replaced by a random one with probability ε.

    The ε-greedy sampling of `Personalized Federated Learning with First Order Model Optimization (Zhang et al., ICLR
    2021) <https://arxiv.org/abs/2012.08565>`_. In round t, from 0 at the method's start, each peer to meet is any other
    peer with probability max(ε − t · decay, 0), else the next best. Affinities start at 0, so unknown peers come, in
    random order, before those that have been harmful; ties among known peers go to the smaller ``node_id``. Every round
    adds the gain of a peer's model, as a share of all gains the node measured, see ``update_affinity``.

    Args:
        epsilon: ε.
        decay: Decrease of ε after every round (the published code counts local epochs instead).

    Gains are those of `FirstOrderGain`, and affinities float64.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("affinity", "relation", "what peers' models have been worth so far", "run", "receiver"),
    )

    epsilon: Fraction = 0.3
    decay: NonNegative = 0.05

    def prepare(self, data: Data, env: Env) -> Data:
        if "affinity" not in data:
            data = updated(data, affinity=nothing_known(data))
        return data

    def digest(self, data: Data, env: Env) -> Data:
        if "edge_gain" not in data:
            raise MissingError("weigh", "GreedyPeers needs gains, and the weigher measures none: use FirstOrderGain()")
        return updated(data, affinity=update_affinity(data.affinity, data.edge_index, data.edge_gain))

    def propose(self, data: Data, env: Env, round_: int) -> Data:
        elapsed, many = max(round_ - data.phase_start, 0), data.num_nodes
        slot = torch.arange(self.samples)
        uniform = keyed_uniform(env.seed, _EXPLORE_STREAM, data.node_id[:, None], round_, slot)
        best = (uniform >= max(self.epsilon - elapsed * self.decay, 0.0)).sum(1)  # [K]: how many are not replaced
        ranked = self._ranked(data, env, round_)
        greedy = ranked[:, turns(ranked[1], many) < best[ranked[1]]]
        anyone, _ = self.draw(data, env, round_, known=greedy, turn=2)
        left = self.samples - torch.bincount(greedy[1], minlength=many)
        anyone = anyone[:, turns(anyone[1], many) < left[anyone[1]]]
        return self.meet(data, env, torch.cat([greedy, anyone], 1))

    def _ranked(self, data: Data, env: Env, round_: int) -> Tensor:
        """Return peers of every node that draws, [2, R], the best first, ties in random order."""
        known, value = data.affinity.edge_index, data.affinity.values
        new, _ = self.draw(data, env, round_, known=known, turn=1)
        sender, receiver = known
        candidates = self.candidates(data, env)
        there = (candidates.place(receiver, sender) >= 0) & self.draws(data)[receiver]
        order = there.nonzero().flatten()
        order = order[candidates.rank[sender[order]].argsort(stable=True)]
        pairs = torch.cat([new, known[:, order]], 1)
        worth = torch.cat([value.new_zeros(new.shape[1]), value[order]])
        return pairs[:, by_receiver(pairs[1], -worth)]


def update_affinity(affinity: Relation, edge_index: Tensor, gain: Tensor) -> Relation:
    r"""Return running affinities after a round: a_ij + g_ij / Σ_k \|g_ik\|, the sum over all that i measured.

    The sum includes the node's own model (its self-loop); gains [E] are NaN if nothing was measured. Deviation: the
    published code divides by \|Σ_k g_ik\|, which is the same if all gains have one sign. If they nearly cancel, that is
    unbounded (834 was observed), and one such round would fix a node's peers for good; here a round changes an affinity
    by at most 1.
    """
    met, value = edge_index[:, ~gain.isnan()], gain[~gain.isnan()].double()
    total = scatter(value.abs(), met[1], dim_size=affinity.size[1])
    share = value / torch.where(total > 0, total, torch.inf)[met[1]]
    crossing = met[0] != met[1]
    return affinity.added(met[:, crossing], share[crossing])
