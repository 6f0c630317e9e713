"""The exchange slot of phase 2 of directed collaboration graphs: neighbours' models arrive, nothing is replaced yet."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.control.at_work import edges_in_use, weights_in_use
from graphcollab.ops import mix
from graphcollab.piece import Exchanger

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["Receive"]


@dataclass(frozen=True)
class Receive(Exchanger):
    r"""Keep what the neighbours sent, weighted, beside the own model, for the next round to train through.

    .. math::
        r_i = \sum_{j \to i,\, j \ne i} \alpha_{ij} x_j, \qquad \alpha_{ii} = 1 - \sum_{j \ne i} \alpha_{ij}

    The models ``x`` stay as they are. `graphcollab.local.Mixture` starts the next round from
    :math:`\alpha_{ii} x_i + r_i`.

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

    def init(self, data: Data, env: Env) -> Data:
        """Receive the models at the start."""
        data = copy.copy(data)
        own = data.x.part(self.part)
        data.received = torch.zeros_like(own, memory_format=torch.contiguous_format)
        data.own_share = own.new_ones(len(own))
        return self._receive(data, env)[0]

    def __call__(self, data: Data, env: Env) -> Data:
        """Receive the models of this round, and count them."""
        data, weight = self._receive(data, env)
        sender, receiver = data.edge_index
        crossing = (sender != receiver) & (weight != 0)
        return env.comm.count(data, sender[crossing], data.received.shape[1])

    def at_server(self, data: Data) -> Tensor | None:
        """Models travel along the edges."""
        return None

    def _receive(self, data: Data, env: Env) -> tuple[Data, Tensor]:
        """Return the data with what has been received, and the weights in use, [E]."""
        edge_index = data.edge_index
        weight, keeps = weights_in_use(data, edges_in_use(data))
        sent = data.x.part(self.part)
        weight = weight.to(sent.dtype).masked_fill(edge_index[0] == edge_index[1], 0)
        received = mix(env.comm.halo(sent, edge_index), weight, edge_index, data.num_nodes)
        given = torch.zeros_like(data.own_share).index_add_(0, edge_index[1], weight)
        data = copy.copy(data)
        data.received = received if keeps is None else torch.where(keeps[:, None], data.received, received)
        data.own_share = 1 - given if keeps is None else torch.where(keeps, data.own_share, 1 - given)
        return data, weight
