"""What a node trains through in phase 2 of directed collaboration graphs: its share of a mixture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.piece import Piece
from graphcollab.stack import Stacks
from graphcollab.typing import Env

__all__ = ["Mixture"]


@dataclass(frozen=True)
class Mixture(Piece):
    r"""Train every node through the mixture of its own model with those it has received: ``Fit(through=Mixture())``.

    From `Learning Directed Collaboration Graphs for Peer-to-Peer Personalized Learning (Zheng, master's thesis, Ohio
    State University 2021)`, section 3.2.2:

    .. math::
        \min_h \; \mathcal{L}_{D_i}\Big(\alpha_{ii} h + \sum_j \alpha_{ij} h_j\Big), \qquad
        x_i \leftarrow \bar h_i = \alpha_{ii} h + \sum_j \alpha_{ij} h_j

    with the received models :math:`h_j` fixed, so the gradient with respect to h is
    :math:`\alpha_{ii} \nabla \mathcal{L}(\bar h)` and a step of plain SGD moves the mixture by
    :math:`-\alpha_{ii}^2 \eta \nabla \mathcal{L}(\bar h)`. The round's result is the mixed model, as in the thesis.
    Weight decay acts on the mixture. A node that has received nothing trains alone, bit for bit, and so do all where
    the exchange is not `Receive`.

    Args:
        part: Part of the model that is mixed; the rest of it is the node's own and takes whole steps.

    Shapes:
        Reads ``received`` [K, P_part] and ``own_share`` [K], which the exchange `graphcollab.exchange.Receive` keeps.
    """

    part: str = "all"

    @property
    def agrees(self) -> Mapping[str, object]:
        """The part."""
        return {"part": self.part}

    def start(self, data: Data, env: Env) -> Stacks:
        """Return α_ii h_i + Σ α_ij h_j of the nodes that train, and the others' own models."""
        if "received" not in data:
            return data.x
        own = data.x.part(self.part)
        mine = env.plane.mine
        mixed = mine(data.own_share)[:, None] * own + data.received
        return data.x.with_part(self.part, torch.where(mine(data.trains)[:, None], mixed, own))

    def share(self, data: Data, nodes: Tensor) -> dict[str, Tensor] | None:
        """Return the own model's share in the mixture, α_ii [n], by part."""
        return {self.part: data.own_share[nodes]} if "received" in data else None
