"""PENS's samplers: count who turns out best among random peers, then listen to those who did more than by chance."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.peers.edges import chosen_edges
from graphcollab.peers.memory import add_up
from graphcollab.piece import Field
from graphcollab.relation import Relation
from graphcollab.rewire.sampler import PeerSampler, RandomPeers
from graphcollab.settings import Count
from graphcollab.typing import Env

__all__ = ["CountChosen", "FrequentPeers"]


@dataclass(frozen=True)
class CountChosen(RandomPeers):
    """Nodes meet random peers and count how often each was among those they chose to merge with.

    First stage of `Decentralized federated learning of deep neural networks on non-iid data (Onoszko et al., 2021)
    <https://arxiv.org/abs/2107.08517>`_ (PENS).

    Shapes:
        Keeps ``chosen``, a `Relation` with how often i chose j, one entry for every pair that occurred, and
        ``chosen_rounds`` [K], rounds in which i chose somebody.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("chosen", "relation", "how often a node was chosen", "run", "receiver"),
        Field("chosen_rounds", "per_node", "rounds in which a node chose somebody", "run", "owner"),
    )

    def prepare(self, data: Data, env: Env) -> Data:
        """Start counting."""
        data = copy.copy(super().prepare(data, env))
        nothing = data.edge_index.new_empty(2, 0)
        data.chosen = Relation(nothing, nothing[0], (data.num_nodes, data.num_nodes))
        data.chosen_rounds = torch.zeros_like(data.node_id)
        return data

    def digest(self, data: Data, env: Env) -> Data:
        """Count whom nodes have chosen."""
        edges = data.edge_index[:, chosen_edges(data) & env.plane.known(data.edge_index[1])]
        data = copy.copy(data)
        data.chosen = add_up(data.chosen, edges, torch.ones_like(edges[0]))
        data.chosen_rounds = data.chosen_rounds + torch.zeros_like(data.node_id).index_fill_(0, edges[1], 1)
        return data


@dataclass(frozen=True)
class FrequentPeers(PeerSampler):
    r"""Nodes listen to random ones of the peers that they chose more often than chance would have it.

    Second stage of PENS: the neighbours of i are :math:`\{j : c_i(j) > T_1 m / (n_i - 1)\}`, with c the counts of
    `CountChosen` after T_1 rounds in which the m best were chosen, and n_i − 1 peers it might have met. A node that may
    meet no more than m keeps them all; one without such peers goes on alone.

    Args:
        samples: Peers that a node listens to in a round, at most.
        chosen: m of the first stage.

    Shapes:
        Keeps ``neighbors``, a `Relation` with the counts of the peers that are left.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("neighbors", "relation", "who was chosen more often than by chance", known_to="receiver"),
    )

    chosen: Count = 2

    def prepare(self, data: Data, env: Env) -> Data:
        """Find the neighbours from the counts of the first stage."""
        data = copy.copy(data)
        if "chosen" not in data:
            raise ValueError("FrequentPeers needs the counts of a first phase with CountChosen: see the method pens")
        counts = data.chosen
        receiver = counts.edge_index[1]
        peers = self.candidates(data, env).peers
        expected = expected_count(data.chosen_rounds, self.chosen, peers)
        often = (counts.values > expected[receiver]) | (peers <= self.chosen)[receiver]
        data.neighbors = Relation(counts.edge_index[:, often], counts.values[often], counts.size)
        return data

    def propose(self, data: Data, env: Env, round_: int) -> Data:
        """Draw from the neighbours."""
        edges = data.neighbors.edge_index
        ones = torch.ones(edges.shape[1], dtype=torch.float64, device=edges.device)
        return self.meet(data, env, self.draw(data, env, round_, None, edges, ones, 0.0)[0])


def expected_count(rounds: int | Tensor, chosen: int, peers: Tensor) -> Tensor:
    """Return how often a node would have chosen each of its peers by chance.

    Args:
        rounds: Rounds T_1 of the first stage, or every node's own, [K].
        chosen: Peers m chosen in each of them.
        peers: Peers each node might have met, [K].

    Example:
        >>> expected_count(50, 2, torch.tensor([10])).tolist()
        [10.0]
    """
    return rounds * chosen / peers.clamp(min=1)
