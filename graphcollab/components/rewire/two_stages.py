"""Samplers of two-stage methods, PENS and PANM: identify good peers, then listen to those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.errors import StateError
from graphcollab._base.piece import Field, updated
from graphcollab._base.settings import Count
from graphcollab.comm.relation import Relation
from graphcollab.components.env import Env
from graphcollab.components.rewire.sampler import PeerSampler, chosen_edges, nothing_known
from graphcollab.nn.functional.by_receiver import receives
from graphcollab.transforms._edges import edge_keys


@dataclass(frozen=True)
class CountChosen(PeerSampler):
    """Nodes meet random peers and count how often each was chosen for merging.

    First stage of `Decentralized federated learning of deep neural networks on non-iid data (Onoszko et al., 2021)
    <https://arxiv.org/abs/2107.08517>`_ (PENS).
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("chosen", "relation", "how often a node was chosen", "run", "receiver"),
        Field("chosen_rounds", "per_node", "rounds in which a node chose somebody", "run", "owner"),
    )

    def prepare(self, data: Data, env: Env) -> Data:
        return updated(
            data, chosen=nothing_known(data, dtype=torch.int64), chosen_rounds=torch.zeros_like(data.node_id)
        )

    def digest(self, data: Data, env: Env) -> Data:
        edges = data.edge_index[:, chosen_edges(data, env)]
        return updated(
            data,
            chosen=data.chosen.added(edges, torch.ones_like(edges[0])),
            chosen_rounds=data.chosen_rounds + (torch.bincount(edges[1], minlength=data.num_nodes) > 0),
        )


@dataclass(frozen=True)
class FrequentPeers(PeerSampler):
    r"""Nodes listen to random peers among those that they chose more often than expected by chance.

    Second stage of PENS: the neighbors of i are :math:`\{j : c_i(j) > T_1 m / (n_i - 1)\}`, with c the counts of
    `CountChosen`, T_1 the rounds in which i chose the m best, and n_i − 1 peers it might have met. A node that may
    meet no more than m peers keeps them all; a node without such peers continues alone.

    Args:
        samples: Maximum number of peers that a node listens to in a round.
        chosen: m of the first stage.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("neighbors", "relation", "who was chosen more often than by chance", known_to="receiver"),
    )

    chosen: Count = 2

    def prepare(self, data: Data, env: Env) -> Data:
        if "chosen" not in data:
            raise StateError(
                "prepare", "FrequentPeers needs the counts of a first phase with CountChosen: see the method pens"
            )
        counts = data.chosen
        receiver = counts.edge_index[1]
        peers = self.candidates(data, env).peers
        expected = data.chosen_rounds * self.chosen / peers.clamp(min=1)  # [K]: expected count by chance
        often = (counts.values > expected[receiver]) | (peers <= self.chosen)[receiver]
        return updated(data, neighbors=counts.select(often))

    def propose(self, data: Data, env: Env, round_: int) -> Data:
        known = data.neighbors.edge_index
        return self.meet(data, env, self.draw(data, env, round_, known=known, rate=1.0, rest=0.0)[0])


@dataclass(frozen=True)
class KeepChosen(PeerSampler):
    """Nodes meet the peers they chose in the last round again, and some new ones.

    Neighbor selection based on Monte Carlo (NSMC), the first stage of `Towards effective clustered federated learning:
    a peer-to-peer framework with adaptive neighbor matching (Li et al., 2022) <https://arxiv.org/abs/2203.12285>`_
    (PANM); algorithm 2 in *With a Little Help from My Friends*. In the first round all peers are new. A node that chose
    no peer, since it was away or all peers it met were absent, meets the previous ones again.

    Args:
        samples: New peers, l.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("edge_member", "per_edge", "which edges lead to peers chosen before", known_to="receiver"),
    )

    def propose(self, data: Data, env: Env, round_: int) -> Data:
        receiver = data.edge_index[1]
        chosen = chosen_edges(data, env)
        if "edge_member" in data:
            idle = ~receives(chosen, receiver, data.num_nodes)[receiver]
            chosen = chosen | (data.edge_member & idle & env.plane.is_local(receiver))
        old = data.edge_index[:, chosen & data.trains[receiver]]
        return _with_new(self, data, env, round_, old, old)


@dataclass(frozen=True)
class NeighborBag(PeerSampler):
    """Nodes listen to random peers from their bags; every few rounds new peers are considered for the bags.

    Second stage of PANM: neighbor augmentation based on EM-GMM (NAEM), algorithms 2 and 3 (appendix B) in *With a
    Little Help from My Friends*. In rounds t = τ, 2 τ, … (counted from 1 at the start of the run) a node meets its
    whole bag and some new peers, and `AugmentBags` sorts them anew; in other rounds it meets a few peers of its bag.

    Args:
        samples: New peers in the rounds that change the bags, l.
        listens: Peers from the bag that a node merges with in a round, k.
        every: τ.
        measure: ``"bag"``: in rounds that change the bags, the whole bag is measured anew (the text); ``"sample"``:
            only the k peers to listen to, while the others stay in the bag (as in published code; fewer models travel).
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("bag", "relation", "peers a node listens to", known_to="receiver"),
        Field("edge_member", "per_edge", "which edges lead to peers in the bag", known_to="receiver"),
    )

    listens: Count = 5
    every: Count = 5
    measure: Literal["bag", "sample"] = "bag"

    def prepare(self, data: Data, env: Env) -> Data:
        """Start with the last chosen peers as the bag."""
        member = data.edge_member if "edge_member" in data else torch.zeros_like(data.edge_index[0]).bool()
        return self._with_bag(data, data.edge_index[:, member & env.plane.is_local(data.edge_index[1])])

    def digest(self, data: Data, env: Env) -> Data:
        if not self.augments(data.round):
            return data
        bag = data.edge_index[:, data.edge_member & env.plane.is_local(data.edge_index[1])]
        if self.measure == "sample":  # peers that were not measured stay
            old, many = data.bag.edge_index, data.num_nodes
            stays = ~torch.isin(edge_keys(old, many), edge_keys(data.edge_index, many))
            bag = torch.cat([old[:, stays], bag], 1)
        return self._with_bag(data, bag)

    def augments(self, round_: int) -> bool:
        """Return whether new peers are considered in a round, counted from 0."""
        return (round_ + 1) % self.every == 0

    def propose(self, data: Data, env: Env, round_: int) -> Data:
        bag = data.bag.edge_index
        bag = bag[:, ~(data.isolated[bag[0]] | data.isolated[bag[1]])]
        everyone = self.augments(round_) and self.measure == "bag"
        old = bag[:, data.trains[bag[1]]] if everyone else self.draw_from(data, env, round_, bag)
        if not self.augments(round_):
            return self.meet(data, env, old, member=torch.ones_like(old[0]).bool())
        return _with_new(self, data, env, round_, old, bag)

    def draw_from(self, data: Data, env: Env, round_: int, edge_index: Tensor, turn: int = 0) -> Tensor:
        """Return ``listens`` random edges of every receiver, [2, D]."""
        return self.draw(data, env, round_, self.listens, edge_index, 1.0, 0.0, turn)[0]

    def _with_bag(self, data: Data, edge_index: Tensor) -> Data:
        return updated(data, bag=Relation.square(edge_index, torch.ones_like(edge_index[0]), data.num_nodes))


def _with_new(sampler: PeerSampler, data: Data, env: Env, round_: int, old: Tensor, apart: Tensor) -> Data:
    """Connect nodes to old peers, and to new ones other than those in ``apart``."""
    new, _ = sampler.draw(data, env, round_, known=apart, turn=1)
    member = torch.cat([torch.ones_like(old[0]), torch.zeros_like(new[0])]).bool()
    return sampler.meet(data, env, torch.cat([old, new], 1), member=member)
