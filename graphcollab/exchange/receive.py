"""The exchange slot of phase 2 of directed collaboration graphs: neighbours' models arrive, nothing is replaced yet."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch_geometric.data import Data

from graphcollab.exchange.route import AlongEdges, Ways
from graphcollab.piece import Exchanger, Field
from graphcollab.typing import Env

__all__ = ["Receive"]

ROUTE = AlongEdges(neighbors_only=True)


@dataclass(frozen=True)
class Receive(Exchanger):
    r"""Keep what the neighbours sent, weighted, beside the own model, for the next round to train through.

    .. math::
        r_i = \sum_{j \to i,\, j \ne i} \alpha_{ij} x_j, \qquad \alpha_{ii} = 1 - \sum_{j \ne i} \alpha_{ij}

    The models ``x`` stay as they are. ``Fit(through=...)`` starts the next round from
    :math:`\alpha_{ii} x_i + r_i`. (To mix at the end of the round, and judge nodes by their models before that, is not
    the same for nodes at rest and for isolated ones, who keep their own model here.)

    A node at rest keeps what it received last; what a node would have given senders that do not serve is its own. The
    first round finds what came along the edges before it: the models at the start of the phase. These are not charged,
    for after a phase that tried models on the same edges the receivers have them already, and at the start of a run
    all models are the initial one.

    Args:
        part: Part of the model that is sent.

    Shapes:
        Keeps ``received`` [K, P_part] and ``own_share`` [K], the α_ii.
    """

    part: str = "all"

    along_edges: ClassVar[bool] = True
    keeps: ClassVar[tuple[Field, ...]] = (
        Field("received", "rows", "what neighbours sent last, weighted, [K, P_part]", known_to="owner"),
        Field("own_share", "per_node", "the weight left for the node's own model", known_to="receiver"),
    )
    travels: ClassVar[str] = ROUTE.travels

    @property
    def agrees(self) -> Mapping[str, object]:
        """The part."""
        return {"part": self.part}

    def init(self, data: Data, env: Env) -> Data:
        """Receive the models at the start."""
        data = copy.copy(data)
        own = data.x.part(self.part)
        data.received = torch.zeros_like(own, memory_format=torch.contiguous_format)
        data.own_share = own.new_ones(data.num_nodes)
        return self._receive(data, env)[0]

    def __call__(self, data: Data, env: Env) -> Data:
        """Receive the models of this round, and count them."""
        data, ways = self._receive(data, env)
        return ROUTE.charge(data, env, ways, data.received.shape[1])

    def _receive(self, data: Data, env: Env) -> tuple[Data, Ways]:
        """Return the data with what has been received, and the ways it took."""
        sent = data.x.part(self.part)
        ways = ROUTE.ways(data)
        ways = ways._replace(weight=ways.weight.to(sent.dtype))
        given = torch.zeros_like(data.own_share).index_add_(0, ways.edge_index[1], ways.weight)
        data = copy.copy(data)
        data.received = ways.unless_kept(env, ways.sum(env, sent), data.received)
        data.own_share = 1 - given if ways.keeps is None else torch.where(ways.keeps, data.own_share, 1 - given)
        return data, ways
