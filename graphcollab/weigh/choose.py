"""Which of the peers that were met a node merges with."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch_geometric.data import Data

from graphcollab.checks import check_whole
from graphcollab.piece import Piece
from graphcollab.rewire.neighbor_bag import NeighborBag
from graphcollab.transforms import GMMNeighborAugmentation, select_edges
from graphcollab.transforms._edges import neighbor_rank

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["AllPeers", "AugmentBags", "BestPeers"]


@dataclass(frozen=True)
class AllPeers(Piece):
    """All that were met."""

    def measures(self, data: Data) -> bool:
        """Tell whether similarities are to be measured in the round."""
        return True

    def __call__(self, data: Data, env: Env) -> Data:
        """Leave ``edge_chosen`` as it is."""
        return data


@dataclass(frozen=True)
class BestPeers(AllPeers):
    """The most similar ones; of equally similar ones those with the smaller ``node_id``.

    Args:
        count: How many.

    Raises:
        ValueError: If it is smaller than 1.
    """

    count: int = 2

    def __post_init__(self) -> None:
        check_whole(count=self.count)

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

    bag: NeighborBag

    def measures(self, data: Data) -> bool:
        """Tell whether the round changes the bags."""
        return self.bag.augments(data.round)

    def __call__(self, data: Data, env: Env) -> Data:
        """Update ``edge_member`` and choose."""
        if not self.measures(data):
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
