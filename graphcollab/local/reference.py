"""The local slot with a second model at every node that hears nobody: what local training would have come to."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch_geometric.data import Data

from graphcollab.engine.rows import Rows
from graphcollab.local.fit import Fit
from graphcollab.piece import ALONE, Field, Local
from graphcollab.typing import Env

__all__ = ["FitWithReference"]


@dataclass(frozen=True)
class FitWithReference(Local):
    """Train every model, and beside it a reference that starts as it does and never hears of others.

    The reference takes the same local steps on the same batches, and is validated in every round, so that what becomes
    of models that are mixed can be compared with local training while there is still time. It stays with its node. A
    node at rest keeps it, and so does one that another piece has taken out of ``alone``. Where a reference diverges, it
    is left as it was, and its node compares no more.

    Args:
        fit: The local steps that both models take; what it keeps of the optimiser's state is the mixed model's.

    Shapes:
        Keeps ``x_alone``, the references; ``alone`` [K], who trains one; and ``alone_loss`` [K], float64, a reference's
        loss on its node's validation samples in this round, NaN where none was trained.
    """

    fit: Fit = field(default_factory=Fit)

    keeps: ClassVar[tuple[Field, ...]] = (
        *Fit.keeps,
        ALONE,
        Field("x_alone", "rows", "models that hear nobody, one of every node", "phase", "owner"),
        Field("alone_state", "rows", "their optimiser's state, by slot, where it is kept", "phase", "owner"),
        Field("alone_step", "per_node", "their optimiser's steps"),
        Field("alone_loss", "per_node", "validation loss of the models that hear nobody", "round"),
    )
    needs: ClassVar[tuple[str, ...]] = ("val",)

    def init(self, data: Data, env: Env) -> Data:
        """Start references from the nodes' models."""
        data = copy.copy(self.fit.init(data, env))
        data.x_alone, data.alone = data.x, ~data.isolated
        if self.fit.keep_state:
            data.alone_state = {slot: data.x.map(torch.zeros_like) for slot in data.fit_state}
            data.alone_step = torch.zeros_like(data.fit_step)
        return data

    def __call__(self, data: Data, env: Env) -> Data:
        """Take the round's local steps with both models."""
        trained, own = self.fit(data, env), copy.copy(data)
        own.x, own.trains = data.x_alone, data.trains & data.alone
        loss = torch.full((data.num_nodes,), torch.nan, dtype=torch.float64)
        if bool(own.trains.any()):
            if self.fit.keep_state:
                own.fit_state, own.fit_step = data.alone_state, data.alone_step
            after = self.fit(own, env)
            good = after.bad_step < 0
            trained.x_alone = data.x_alone.where(good, after.x)
            if self.fit.keep_state:
                trained.alone_state, trained.alone_step = after.fit_state, after.fit_step
            nodes = env.plane.at_home((own.trains & good).nonzero().flatten())
            loss[nodes] = env.engine.loss(Rows.own(trained.x_alone, nodes), "val").double()
            loss = env.plane.publish(loss)
            trained.alone = data.alone & (torch.isfinite(loss) | ~own.trains)
        trained.alone_loss = loss
        return trained
