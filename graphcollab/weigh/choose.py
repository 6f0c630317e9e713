"""Which of the peers that were met a node merges with."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.piece import Field, Piece
from graphcollab.rewire.neighbor_bag import NeighborBag
from graphcollab.settings import Count
from graphcollab.transforms import GMMNeighborAugmentation, select_edges
from graphcollab.transforms._edges import neighbor_rank
from graphcollab.typing import Env

__all__ = ["AllPeers", "AugmentBags", "BestPeers"]


@dataclass(frozen=True)
class AllPeers(Piece):
    """All that were met; and the base of those that choose."""

    by_score: ClassVar[bool] = False
    """Whether it chooses by ``edge_score``, similarities that a metric must have measured."""
    judges: ClassVar[bool] = False
    """Whether it looks at models itself, so that they travel also where there is no metric."""

    def looks_at(self, data: Data) -> Tensor | None:
        """Return along which of the edges in use (``edge_chosen``) models are looked at in the round; None: none."""
        return data.edge_chosen

    def __call__(self, data: Data, env: Env) -> Data:
        """Leave ``edge_chosen`` as it is."""
        return data


@dataclass(frozen=True)
class BestPeers(AllPeers):
    """The most similar ones; of equally similar ones those with the smaller ``node_id``.

    Args:
        count: How many.
    """

    by_score: ClassVar[bool] = True

    count: Count = 2

    def __call__(self, data: Data, env: Env) -> Data:
        """Choose by ``edge_score``."""
        ranked = copy.copy(data)
        ranked.edge_weight = data.edge_score.nan_to_num(-torch.inf)  # not measured: self-loops, and who does not serve
        rank, _ = neighbor_rank(ranked)
        data = copy.copy(data)
        data.edge_chosen = data.edge_chosen & (rank >= 0) & (rank < self.count)
        return data


@dataclass(frozen=True)
class AugmentBags(AllPeers):
    """In rounds that change the bags: sort all that were met by `GMMNeighborAugmentation`, choose from the new bags.

    Args:
        bag: The sampler it belongs to.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("edge_member", "per_edge", "which edges lead to peers in the bag", known_to="receiver"),
    )
    by_score: ClassVar[bool] = True

    bag: NeighborBag

    def looks_at(self, data: Data) -> Tensor | None:
        """Look at all in the rounds that change the bags, and at nobody in others."""
        return data.edge_chosen if self.bag.augments(data.round) else None

    def __call__(self, data: Data, env: Env) -> Data:
        """Update ``edge_member`` and choose."""
        if not self.bag.augments(data.round):
            return data
        sender, receiver = data.edge_index
        measured = ~data.edge_score.isnan()
        met = select_edges(data, measured)
        members = data.edge_member.clone()
        members[measured] = GMMNeighborAugmentation(drop=False)(met).edge_member
        data = copy.copy(data)
        data.edge_member = members
        taken = self.bag.draw_from(data, env, data.round, data.edge_index[:, members], turn=2)
        many = data.num_nodes
        taken_here = torch.isin(receiver * many + sender, taken[1] * many + taken[0])
        data.edge_chosen = data.edge_chosen & taken_here
        return data
