"""The local slot with a second model at every node that hears nobody: what local training would have come to."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.engine.rows import Rows
from graphcollab.env import Env
from graphcollab.errors import UnsupportedError
from graphcollab.local.fit import Fit
from graphcollab.piece import ALONE, Field
from graphcollab.slots import Local


@dataclass(frozen=True)
class FitWithReference(Local):
    """Train every model, and beside it a reference that starts as it does and never hears of others.

    The reference takes the same local steps on the same batches, with its own start as the round's anchor, and is
    validated in every round, so that what becomes of models that are mixed can be compared with local training while
    there is still time. It stays with its node. A node at rest keeps it, and so does one that another piece has taken
    out of ``alone``. Where a reference diverges, it is left as it was, and its node compares no more.

    Args:
        fit: The local steps that both models take; what it keeps of the optimiser's state is the mixed model's.

    Shapes:
        Keeps ``x_alone``, the references; ``alone`` [K], who trains one; and ``alone_loss`` [K], float64, a reference's
        loss on its node's validation samples in this round, NaN where none was trained.

    Raises:
        ValueError: If the local steps hear others: ``through`` models that were received, or by an objective that reads
            fields of the ``Data``.
    """

    fit: Fit = field(default_factory=Fit)

    keeps: ClassVar[tuple[Field, ...]] = (
        *Fit.keeps,
        ALONE,
        Field("x_alone", "rows", "models that hear nobody, one of every node", "phase", "owner"),
        Field("alone_state", "rows", "their optimiser's state, by slot, where it is kept", "phase", "owner"),
        Field("alone_step", "per_node", "their optimiser's steps", "phase", "owner"),
        Field("alone_loss", "per_node", "validation loss of the models that hear nobody", "round", "owner"),
    )
    needs: ClassVar[tuple[str, ...]] = ("val",)
    purpose: ClassVar[str] = "to compare models with those that hear nobody"
    models: ClassVar[int] = 2

    def local_steps(self, sizes: Tensor) -> Tensor:
        return self.fit.local_steps(sizes)

    def __post_init__(self) -> None:
        super().__post_init__()
        read = () if self.fit.objective is None else self.fit.objective.reads.fields
        if read or self.fit.through is not None:
            what = f"reads {', '.join(read)}" if read else f"trains through={self.fit.through!r}"
            raise UnsupportedError(
                "local", f"a reference hears nobody, and this Fit {what}: give local steps that hear nobody"
            )

    def init(self, data: Data, env: Env) -> Data:
        """The optimizer's state of references is what an earlier phase has left."""
        data = copy.copy(self.fit.init(data, env))
        data.x_alone, data.alone = data.x, ~data.isolated
        if self.fit.keep_state:
            data.alone_state, data.alone_step = dict(data.fit_state), data.fit_step
        return data

    def __call__(self, data: Data, env: Env) -> Data:
        trained, own = self.fit(data, env), copy.copy(data)
        own.x = own.x_start = data.x_alone
        own.trains = data.trains & data.alone
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
            trained.alone = data.alone & (torch.isfinite(loss) | ~own.trains)
        trained.alone_loss = loss
        return trained
