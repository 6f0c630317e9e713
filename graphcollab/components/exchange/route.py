"""Routes: the way that models take from sender to receiver, and which nodes are charged for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.device import beside, pick
from graphcollab._base.piece import Piece, Readers
from graphcollab.components.at_work import edges_in_use, weights_in_use
from graphcollab.components.env import Env


class Sent(NamedTuple):
    """Terms of an exchange that nodes send, combined at a receiver to b_i + s Σ_j w_ij (m_j − a_i).

    Args:
        rows: m, [k, P].
        scale: s.
        base: b, [k, P]. Default: 0.
        against: a, [k, P]. Default: 0.
    """

    rows: Tensor
    scale: float = 1.0
    base: Tensor | None = None
    against: Tensor | None = None


class Ways(NamedTuple):
    """The links of one round: models go from nodes to places and are summed there, and the sums go to nodes.

    Args:
        edge_index: The sending node and the place, [2, L].
        weight: The factor in the place's sum, [L].
        places: Number of places.
        home: The place whose sum a node gets, [K]. None: every node is its own place.
        keeps: Nodes that keep their model, [K]. None: there are none.
    """

    edge_index: Tensor
    weight: Tensor
    places: int
    home: Tensor | None = None
    keeps: Tensor | None = None

    def sums(self, env: Env, sent: Sequence[Sent]) -> Sequence[Tensor]:
        """Return the sums at every place: at owned nodes, [k, P], with base and a; or at all places, [places, P]."""
        weights = [self.weight if one.scale == 1 else one.scale * self.weight for one in sent]
        if self.home is None:
            pairs = zip(sent, weights, strict=True)
            return [env.plane.mix(one.rows, weight, self.edge_index, one.base, one.against) for one, weight in pairs]
        return env.plane.group_sums([one.rows for one in sent], weights, self.edge_index, self.places)

    def gather(self, env: Env, sums: Tensor) -> Tensor:
        """Return the places' sums for every node, [k, P]; a sum that is common to all is stored once."""
        if self.home is None:
            return sums
        home = env.plane.local_values(self.home)
        return sums.expand(len(home), -1) if self.places == 1 else pick(sums, home)

    def unless_kept(self, env: Env, new: Tensor, old: Tensor) -> Tensor:
        """Return new rows [k, P], except for nodes that keep their old ones."""
        if self.keeps is None or (self.places == 1 and not bool(self.keeps.any())):
            return new
        return torch.where(beside(env.plane.local_values(self.keeps)[:, None], old), old, new)


@dataclass(frozen=True)
class Route(Piece, ABC):
    """Base of routes: a subclass defines the way of the models, and the cost follows from it."""

    along_edges: ClassVar[bool] = True
    """Whether models are mixed along the graph's edges; if not, the base of an exchange is mixed like its message."""
    carries: ClassVar[Readers] = {"listeners": "the part of its model that is mixed"}
    """Disclosures of an exchange by this route, see `Piece.told`."""

    @property
    def serves_rest(self) -> bool:
        """Whether nodes at rest get models, too."""
        return False

    def parts(self, part: str) -> list[str]:
        """Return the parts of a model that travel separately, within the exchanged part."""
        return [part]

    @abstractmethod
    def ways(self, data: Data, pulls: bool = False) -> Ways:
        """Return the links of this round."""

    def land(self, data: Data, sums: Mapping[str, Tensor]) -> tuple[Data, Mapping[str, Tensor]]:
        """Return the graph after the sums, by part, have reached their places, and the places' values for nodes."""
        return data, sums

    def at_server(self, data: Data) -> Tensor | None:
        """Return which nodes send to a server in this round, [K]; None if models travel along edges."""
        return None

    def comes_down(self, data: Data) -> int:
        """Return the number of models that a node gets back for each that it sends to a server."""
        return 1

    def charge(self, data: Data, env: Env, ways: Ways, width: int) -> Data:
        """Count the traffic of models of ``width`` floats.

        A sender is charged for every edge with nonzero weight to another node; with a server in between, it is charged
        once for its model and for the models that come down to it.
        """
        sends = self.at_server(data)
        if sends is not None:
            return env.plane.charge(data, sends.nonzero().flatten(), (1 + self.comes_down(data)) * width)
        sender, receiver = ways.edge_index
        used = (sender != receiver) & (ways.weight != 0)
        return env.plane.charge(data, sender, width * used, at=receiver)


@dataclass(frozen=True)
class AlongEdges(Route):
    """Models travel along the graph's edges, with the weights of the weigher.

    Nodes at rest do not take part. A node's weights for senders that do not serve go to its own model if it has a
    self-loop; otherwise its other weights grow in proportion. If edges pull, such senders do not pull. A node that does
    not train keeps its model.

    Args:
        neighbors_only: Leave self-loops out of the sum (their weights still take part in the normalization).
    """

    neighbors_only: bool = False

    travels: ClassVar[str] = "4 · P bytes for every receiver whose weight for it is not 0; P is the part that is mixed"

    def shares(self, data: Data, pulls: bool = False) -> tuple[Tensor, Tensor | None]:
        """Return the effective weight of every edge in this round, [E], and which nodes keep their models, [K], if any.

        Weights of senders at rest are redistributed; if edges pull at the receiver's model, edges not in use do not
        pull.
        """
        weight, keeps = self._weights(data, pulls)
        if self.neighbors_only:
            weight = weight.masked_fill(data.edge_index[0] == data.edge_index[1], 0)
        return weight, keeps

    def ways(self, data: Data, pulls: bool = False) -> Ways:
        weight, keeps = self.shares(data, pulls)
        return Ways(data.edge_index, weight, data.num_nodes, keeps=keeps)

    def _weights(self, data: Data, pulls: bool) -> tuple[Tensor, Tensor | None]:
        in_use = edges_in_use(data)
        if not pulls or in_use is None:
            return weights_in_use(data, in_use)
        return data.edge_weight.masked_fill(~in_use | ~data.trains[data.edge_index[1]], 0), ~data.trains
