"""The local slot: every participating node trains on its own data, possibly with a second model beside the first."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.device import beside, pick
from graphcollab._base.errors import MissingError, UnsupportedError
from graphcollab._base.piece import ALONE, Field, updated
from graphcollab._base.settings import NonNegative
from graphcollab.components.env import Env
from graphcollab.components.local.check_fit import check_batches, check_judging, check_objective, check_views
from graphcollab.components.slots import Local
from graphcollab.data.schedule import local_steps
from graphcollab.engine.losses import Proximal
from graphcollab.engine.objective import FirstView, Objective
from graphcollab.engine.optimizer import LocalSteps
from graphcollab.engine.rows import Rows
from graphcollab.engine.stack import Stacks
from graphcollab.engine.views import Views


@dataclass(frozen=True)
class Fit(LocalSteps, Local):
    r"""Train every node whose ``data.trains`` is set for some local steps from its current model.

    Nodes at rest keep their models and their optimizer state. With ``through`` a node trains through the mixture of its
    own model with the received ones (`directed`), which are fixed: a step of plain SGD moves the mixture by
    :math:`-\alpha_{ii}^2 \eta \nabla \mathcal{L}`, and the result of the round is the mixture. It reads ``received``
    [K, P_part] and ``own_share`` [K], which the exchange `Receive` keeps: a node that has received nothing trains
    alone, bit for bit, and so do all nodes under any other exchange.

    Args:
        epochs: As for `LocalSteps`, and so are the next three.
        steps: Number of local steps, instead of ``epochs``.
        batch_size: B.
        optimizer: The update.
        objective: Added to the task's loss. It may read the model at the start of the round as its anchor, and fields
            of the ``Data``.
        keep_state: Keep the optimizer's state from round to round; otherwise it is reset every round.
        views: Augmented views of the samples. Default: the samples themselves.
        first_view: Apply the task's loss to the first view of every sample only, and ``objective`` to all of them.
        through: Part of the model that is mixed; the rest is the node's own and takes full steps. None: no mixture.
    """

    objective: Objective | None = None
    keep_state: bool = False
    views: Views | None = None
    first_view: bool = False
    through: str | None = None

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("train_loss", "per_node", "mean loss of a node's last local steps", "run", "owner"),
        Field("bad_step", "per_node", "first local step whose loss was not finite, -1 if none", "run", "owner"),
        Field("fit_state", "rows", "the optimizer's state, by slot, where it is kept", "phase", "owner"),
        Field("fit_step", "per_node", "optimizer steps taken", "phase", "owner"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first_view and self.views is None:
            raise MissingError(
                "views", "first_view=True takes the first of several views: give Fit views=Views(...), or leave it"
            )

    @property
    def embeds(self) -> bool:  # type: ignore[override]
        return self.objective is not None and self.objective.embeds

    @property
    def agrees(self) -> Mapping[str, object]:
        return {} if self.through is None else {"part": self.through}

    def local_steps(self, sizes: Tensor) -> Tensor:
        return local_steps(sizes, self.batch_size, self.epochs, self.steps).double()

    def init(self, data: Data, env: Env) -> Data:
        """Check batches and models, initialize the objective, and create the optimizer's state if it is kept.

        Raises:
            ValueError: If a node has a batch of one sample and its model cannot be trained on one (or a split of one
                sample and it cannot be evaluated on it), or the objective does not fit the models: it needs latents
                that a model does not have, or does not match the targets.
        """
        if self.objective is not None:
            for piece in self.objective.walk():
                data = piece.init(data, env)
            check_objective(self.objective, data, env)
        check_batches(self, self.views, self.embeds, data, env)
        check_judging(data, env)
        if self.views is not None:
            check_views(self.views, env)
        kept = "fit_state" in data and set(data.fit_state) == {*self.optimizer.slots}  # by an earlier phase
        if kept or not self.keep_state:
            return data
        state = {slot: data.x.map(torch.zeros_like) for slot in self.optimizer.slots}
        return updated(data, fit_step=torch.zeros_like(data.node_id), fit_state=state)

    def __call__(self, data: Data, env: Env) -> Data:
        nodes = env.plane.local(data.trains.nonzero().flatten())
        data = updated(data, bad_step=torch.full_like(data.node_id, -1))
        if len(nodes):
            data = self._fit(data, env, nodes)
        else:
            data.x = data.x.clone()  # new models in all processes, or in none: rows that traveled are identified by it
        return data

    def _fit(self, data: Data, env: Env, nodes: Tensor) -> Data:
        """All nodes are local."""
        every = len(nodes) == data.x.num_nodes and all(map(len, data.x.members))
        objective = FirstView(env.engine.objective) if self.first_view else env.engine.objective
        objective = objective if self.objective is None else objective + self.objective

        def own(stacks: Stacks) -> Stacks:
            return stacks if every else stacks.select(nodes)

        slots, step = None, None
        if self.keep_state:
            slots = {slot: own(values) for slot, values in data.fit_state.items()}
            step = data.fit_step[nodes]
        scale = None
        if self.through is not None and "received" in data:
            x = data.x.part(self.through)
            share, trains = (beside(env.plane.local_values(data[name])[:, None], x) for name in ("own_share", "trains"))
            mixed = torch.where(trains, share * x + data.received, x)
            data.x, scale = data.x.with_part(self.through, mixed), {self.through: data.own_share[nodes]}
        fitted = env.engine.fit(
            Rows.own(data.x, nodes),
            self,
            seed=env.seed,
            round_=data.round,
            objective=objective,
            anchor=own(data.x_start) if objective.reads.anchor else None,
            given={name: pick(data[name], data.x.place(nodes)) for name in objective.reads.fields} or None,
            views=self.views,
            slots=slots,
            step=step,
            scale=scale,
        )
        loss, bad = fitted.told()
        data.x = _put(data.x, nodes, fitted.models, every)
        data.train_loss = data.train_loss.index_copy(0, nodes, loss.to(data.train_loss.dtype))
        data.bad_step = data.bad_step.index_copy(0, nodes, bad)
        if self.keep_state:
            data.fit_step = data.fit_step.index_copy(0, nodes, fitted.step)
            data.fit_state = {slot: _put(v, nodes, fitted.slots[slot], every) for slot, v in data.fit_state.items()}
        return data


def _put(stacks: Stacks, nodes: Tensor, new: Stacks, every: bool) -> Stacks:
    """Return stacks in which the given nodes have new rows; position r of ``new`` is node ``nodes[r]``."""
    if every and len(new.specs) == len(stacks.specs):
        return stacks.like(new.tensors)
    tensors = list(stacks.tensors)
    source = list(new.locate(torch.arange(len(nodes))))
    for (s, _, target_rows), (t, _, source_rows) in zip(stacks.locate(nodes), source, strict=True):
        rows = pick(new.tensors[t], source_rows)
        tensors[s] = tensors[s].index_copy(0, beside(target_rows, rows), rows)
    return stacks.like(tensors)


@dataclass(frozen=True)
class FitPersonal(Local):
    """Train the shared model and a personal one on the same batches.

    At every local step the personal model is pulled towards the node's shared model at the start of the round, not
    towards the moving one. It starts as a copy of the shared one and stays with its node. A node at rest keeps it. See
    `ditto`.

    Args:
        fit: The local steps that both models take; the optimizer state it keeps is the shared model's.
        lam: λ, the strength of the pull.
        part: Part of the model that is shared; the personal model is pulled only there.

    Shapes:
        ``train_loss`` [K] is the personal model's, including the pull (λ/2) ‖v - w‖². Personal models have their own
        running statistics.
    """

    fit: Fit = field(default_factory=Fit)
    lam: NonNegative = 1.0
    part: str = "all"

    keeps: ClassVar[tuple[Field, ...]] = (
        *Fit.keeps,
        Field("x_personal", "models", "personal models; a phase that trains some goes on with them", "phase", "owner"),
        Field("personal_state", "rows", "their optimizer's state, by slot, where it is kept", "phase", "owner"),
        Field("personal_step", "per_node", "their optimizer's steps", "phase", "owner"),
    )
    shared: ClassVar[tuple[str, ...]] = ("part",)
    models: ClassVar[int] = 2

    def local_steps(self, sizes: Tensor) -> Tensor:
        return self.fit.local_steps(sizes)

    def init(self, data: Data, env: Env) -> Data:
        """Personal models start from the shared ones, unless an earlier phase has trained some."""
        data.x.part(self.part)
        data = copy.copy(self.fit.init(data, env))
        if "x_personal" not in data:
            data.x_personal = data.x
        kept = "personal_state" in data and set(data.personal_state) == set(data.get("fit_state", ()))  # by a phase
        if self.fit.keep_state and not kept:
            data.personal_state = {slot: data.x.map(torch.zeros_like) for slot in data.fit_state}
            data.personal_step = torch.zeros_like(data.fit_step)
        return data

    def __call__(self, data: Data, env: Env) -> Data:
        shared, own = self.fit(data, env), copy.copy(data)
        own.x = data.x_personal
        if self.fit.keep_state:
            own.fit_state, own.fit_step = data.personal_state, data.personal_step
        pull = Proximal(self.lam, self.part)
        other = self.fit.objective
        own = replace(self.fit, objective=pull if other is None else other + pull)(own, env)
        bad = torch.where(own.bad_step >= 0, own.bad_step, shared.bad_step)
        shared.x_personal = data.x_personal.where(bad < 0, own.x)
        shared.train_loss, shared.bad_step = own.train_loss, bad
        if self.fit.keep_state:
            shared.personal_state, shared.personal_step = own.fit_state, own.fit_step
        return shared


@dataclass(frozen=True)
class FitWithReference(Local):
    """Train every model, and beside it a reference with the same start that never hears other nodes.

    The reference takes the same local steps on the same batches, anchored at its own start of the round, and is
    validated in every round, so that mixed models can be compared with local training early enough. It stays with its
    node. A node at rest keeps it, and so does a node that another piece has removed from ``alone``. If a reference
    diverges, it keeps its previous state, and its node no longer compares.

    Args:
        fit: The local steps that both models take; the optimizer state it keeps is the mixed model's.

    Shapes:
        Keeps ``x_alone``, the references; ``alone`` [K], the nodes that train one; and ``alone_loss`` [K], float64, a
        reference's loss on its node's validation samples in this round, NaN if none was trained.

    Raises:
        ValueError: If the local steps depend on other nodes: ``through`` received models, or by an objective that reads
            fields of the ``Data``.
    """

    fit: Fit = field(default_factory=Fit)

    keeps: ClassVar[tuple[Field, ...]] = (
        *Fit.keeps,
        ALONE,
        Field("x_alone", "rows", "models that hear nobody, one of every node", "phase", "owner"),
        Field("alone_state", "rows", "their optimizer's state, by slot, where it is kept", "phase", "owner"),
        Field("alone_step", "per_node", "their optimizer's steps", "phase", "owner"),
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
        """References take over the optimizer state that an earlier phase has left."""
        data = self.fit.init(data, env)
        data = updated(data, x_alone=data.x, alone=~data.isolated)
        if not self.fit.keep_state:
            return data
        return updated(data, alone_state=dict(data.fit_state), alone_step=data.fit_step)

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
            nodes = env.plane.local((own.trains & good).nonzero().flatten())
            loss[nodes] = env.engine.loss(Rows.own(trained.x_alone, nodes), "val").double()
            trained.alone = data.alone & (torch.isfinite(loss) | ~own.trains)
        trained.alone_loss = loss
        return trained
