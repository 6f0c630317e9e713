"""The local slot of phase 2 of directed collaboration graphs: every node trains its share of a mixture."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch
from torch_geometric.data import Data

from graphcollab.engine.through_mixture import OWN_SHARE, ThroughMixture
from graphcollab.local.fit import Fit
from graphcollab.stack import Stacks

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["FitThroughMixture"]


@dataclass(frozen=True)
class FitThroughMixture(Fit):
    r"""Train every node through the mixture of its own model with those it has received.

    From `Learning Directed Collaboration Graphs for Peer-to-Peer Personalized Learning (Zheng, master's thesis, Ohio
    State University 2021)`, section 3.2.2:

    .. math::
        \min_h \; \mathcal{L}_{D_i}\Big(\alpha_{ii} h + \sum_j \alpha_{ij} h_j\Big), \qquad
        x_i \leftarrow \bar h_i = \alpha_{ii} h + \sum_j \alpha_{ij} h_j

    with the received models :math:`h_j` fixed, so the gradient with respect to h is
    :math:`\alpha_{ii} \nabla \mathcal{L}(\bar h)` and a step of plain SGD moves the mixture by
    :math:`-\alpha_{ii}^2 \eta \nabla \mathcal{L}(\bar h)` (`ThroughMixture`). The round's result is the mixed model, as
    in the thesis. Weight decay acts on the mixture.

    Needs the exchange `graphcollab.exchange.Receive`; a node that has received nothing trains as under `Fit`, bit for
    bit.

    Args:
        part: Part of the model that is mixed; the rest of it is the node's own and takes whole steps.

    Shapes:
        Reads ``received`` [K, P_part] and ``own_share`` [K]; otherwise as `Fit`.
    """

    part: str = "all"

    @property
    def agrees(self) -> dict[str, object]:
        """The part, and what else must be the exchange's."""
        return {"part": self.part}

    def __call__(self, data: Data, env: Env) -> Data:
        """Take the round's local steps, from the mixtures."""
        if "received" not in data:
            return super().__call__(data, env)
        settings = {f.name: getattr(self, f.name) for f in fields(Fit)}
        through = Fit(**{**settings, "optimizer": ThroughMixture(self.optimizer), "keep_state": True})
        data = copy.copy(data)
        data.x = self._mixture(data)
        state = data.fit_state if self.keep_state else {s: data.x.map(torch.zeros_like) for s in self.optimizer.slots}
        data.fit_state = {**state, OWN_SHARE: self._share(data)}
        if not self.keep_state:
            data.fit_step = torch.zeros_like(data.node_id)
        data = through(data, env)
        if self.keep_state:
            data.fit_state = {slot: data.fit_state[slot] for slot in self.optimizer.slots}
        else:
            del data.fit_state, data.fit_step
        return data

    def _mixture(self, data: Data) -> Stacks:
        """Return α_ii h_i + Σ α_ij h_j of the nodes that train, and the others' own models."""
        own = data.x.part(self.part)
        mixed = data.own_share[:, None] * own + data.received
        return data.x.with_part(self.part, torch.where(data.trains[:, None], mixed, own))

    def _share(self, data: Data) -> Stacks:
        """Return the coefficient of every parameter of the own model in the mixture: α_ii, 1 outside the part."""
        ones = data.x.map(torch.ones_like)
        return ones.with_part(self.part, data.own_share[:, None].expand_as(data.received))
