"""The local slot: every node at work trains on its own data."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.checks import check_whole
from graphcollab.engine.backend import training_failure
from graphcollab.engine.contrastive import FirstView
from graphcollab.engine.latents import require_latents
from graphcollab.engine.objective import Context, Objective
from graphcollab.engine.optimizer import SGD, RowOptimizer, as_row_optimizer
from graphcollab.engine.randomness import keyed_layers
from graphcollab.engine.rows import Rows
from graphcollab.engine.views import Views
from graphcollab.piece import Local
from graphcollab.stack import Stacks

if TYPE_CHECKING:
    from graphcollab.typing import Env

__all__ = ["Fit"]


@dataclass(frozen=True)
class Fit(Local):
    """Train every node whose ``data.trains`` is set for some local steps from where it stands.

    Nodes at rest keep their models and their optimiser state. Reads ``data.x``; writes ``x``, ``train_loss`` [K],
    ``bad_step`` [K] (first local step whose loss was not finite, else -1), and the optimiser's state if it is kept.

    Args:
        epochs: Passes over a node's training samples.
        steps: Number of local steps, instead of ``epochs``.
        batch_size: B.
        optimizer: The update, also by name or ``torch.optim`` class; see `as_row_optimizer`. Default: SGD with step
            size 0.01 and weight decay 5e-4, as in the L2C paper.
        objective: Added to the task's loss; it may read the round's start as its anchor.
        keep_state: Keep the optimiser's state from round to round; else every round starts afresh.
        views: Augmented views of the samples. Default: the samples themselves.
        first_view: The task's loss judges the first view of every sample only, and ``objective`` all of them.

    Raises:
        ValueError: If epochs, steps or batch size is no whole number of at least 1, or the optimiser has no form per
            row.
        TypeError: If the optimiser is something else.

    Example:
        >>> Fit(optimizer="adam").optimizer.lr
        0.001
    """

    epochs: int = 1
    steps: int | None = None
    batch_size: int = 10
    optimizer: RowOptimizer = field(default_factory=lambda: SGD(lr=0.01, weight_decay=5e-4))
    objective: Objective | None = None
    keep_state: bool = False
    views: Views | None = None
    first_view: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimizer", as_row_optimizer(self.optimizer))
        check_whole(epochs=self.epochs, batch_size=self.batch_size)
        check_whole(optional=True, steps=self.steps)

    def init(self, data: Data, env: Env) -> Data:
        """Check batches and models, and create the optimiser's state where it is kept.

        Raises:
            ValueError: If a node has a batch of one sample and its model cannot be trained on one (or a split of one
                and it cannot be evaluated on one), or the objective
                cannot judge the models: it needs latents that one has not got, or does not go with the targets.
        """
        embeds = self.objective is not None and self.objective.embeds
        if embeds:
            require_latents(env.engine, data.x, f"{type(self).__name__}'s objective reads latents")
        self._check_batches(data, env, embeds)
        _check_judging(data, env)
        if self.objective is not None:
            self._check_objective(self.objective, data, env)
        if self.views is not None:
            pool = env.engine.tasks.pools[env.engine.tasks.splits["train"].pool]
            with keyed_layers(0):
                self.views(pool.inputs[:2])  # what cannot be augmented is refused now
        if not self.keep_state:
            return data
        data = copy.copy(data)
        if "fit_state" not in data or set(data.fit_state) != set(self.optimizer.slots):  # none of an earlier phase
            data.fit_step = torch.zeros_like(data.node_id)
            data.fit_state = {slot: data.x.map(torch.zeros_like) for slot in self.optimizer.slots}
        return data

    def give(self, data: Data, nodes: Tensor) -> dict[str, Tensor] | None:
        """Return what the objective is given beside the samples, by name, one entry per node [n, ...]."""
        return None

    def _check_batches(self, data: Data, env: Env, embeds: bool) -> None:
        """Check that models which need several samples at a time (batch normalisation) get them."""
        tasks = env.engine.tasks
        counts = tasks.sizes("train")
        passes = counts > 0 if self.steps is None else -(-counts // self.batch_size) <= self.steps
        single = (passes & (counts % self.batch_size == 1)) | (self.batch_size == 1)
        single &= self.views is None or self.views.count == 1
        for backend, members in zip(env.engine.backends, data.x.members, strict=True):
            nodes = members[single[members]].tolist()
            if not nodes or backend.samplewise:
                continue
            split = tasks.splits["train"]
            sample = tasks.pools[split.pool].inputs[split.of(nodes[0])[:1]]
            reason = training_failure(backend.module, sample, embeds)
            if reason is not None:
                shown = ", ".join(repr(tasks.names[k]) for k in nodes[:3]) + (", …" if len(nodes) > 3 else "")
                raise ValueError(
                    f"batch_size={self.batch_size} leaves {shown} ({len(nodes)} in all) a batch of one sample, on "
                    f"which {type(backend.module).__name__} cannot be trained ({reason}): choose another batch_size, "
                    "or replace batch normalisation by graphcollab.models.replace_batch_norm"
                )

    def _check_objective(self, objective: Objective, data: Data, env: Env) -> None:
        """Let the objective judge two samples with every architecture's models."""
        split = env.engine.tasks.splits["train"]
        pool = env.engine.tasks.pools[split.pool]
        for backend, members in zip(env.engine.backends, data.x.members, strict=True):
            spec, row = data.x.row(int(members[0]))
            places = split.of(int(members[0]))[:2]
            inputs, targets = pool.inputs[places][None], pool.targets[places]
            outputs, latent, projection = backend.predict(row[None], inputs)[0], None, None
            if objective.embeds:
                outputs, latent, projection = (part[0] for part in backend.embed(row[None], inputs))
            own, given = dict(zip(spec.names, spec.views(row), strict=True)), self.give(data, members[:1])
            context = Context(
                None,
                own,
                anchor=own if objective.anchored else None,
                latent=latent,
                projection=projection,
                given=None if given is None else {name: value[0] for name, value in given.items()},
                spec=spec,
            )
            objective.check(outputs, pool.targets[split.index], type(backend.module).__name__, "train")
            objective(outputs, targets, context)

    def __call__(self, data: Data, env: Env) -> Data:
        """Take the round's local steps."""
        nodes = env.plane.at_home(data.trains.nonzero().flatten())
        data = copy.copy(data)
        data.bad_step = torch.full_like(data.node_id, -1)
        if len(nodes):
            data = self._fit(data, env, nodes)
        data.train_loss, data.bad_step = env.plane.publish(data.train_loss), env.plane.publish(data.bad_step)
        return data

    def _fit(self, data: Data, env: Env, nodes: Tensor) -> Data:
        """Take the local steps of some nodes, all of which live here."""
        every = len(nodes) == data.x.num_nodes
        objective = FirstView(env.engine.objective) if self.first_view else env.engine.objective
        objective = objective if self.objective is None else objective + self.objective
        state = step = None
        if self.keep_state:
            state = {slot: _take(values, nodes, every) for slot, values in data.fit_state.items()}
            step = data.fit_step[nodes]
        fitted = env.engine.fit(
            Rows.own(data.x, nodes),
            optimizer=self.optimizer,
            seed=env.seed,
            round_=data.round,
            batch_size=self.batch_size,
            epochs=self.epochs,
            steps=self.steps,
            objective=objective,
            anchor=_take(data.x_start, nodes, every) if objective.anchored else None,
            state=state,
            step=step,
            views=self.views,
            given=self.give(data, nodes),
        )
        data.x = _put(data.x, nodes, fitted.models, every)
        data.train_loss = data.train_loss.index_copy(0, nodes, fitted.loss.to(data.train_loss.dtype))
        data.bad_step = data.bad_step.index_copy(0, nodes, fitted.bad_step)
        if self.keep_state:
            data.fit_step = data.fit_step.index_copy(0, nodes, fitted.step)
            data.fit_state = {s: _put(v, nodes, fitted.state[s], every) for s, v in data.fit_state.items()}
        return data


def _check_judging(data: Data, env: Env) -> None:
    """Check that models which look across the batch in evaluation too can judge every split of their node."""
    tasks = env.engine.tasks
    for backend, members in zip(env.engine.backends, data.x.members, strict=True):
        for name, split in tasks.splits.items() if backend.padding == "never" else ():
            single = members[split.sizes[members] == 1].tolist()
            if not single:
                continue
            sample = tasks.pools[split.pool].inputs[split.of(single[0])]
            try:
                backend.predict(data.x.row(single[0])[1][None], sample[None])
            except (RuntimeError, ValueError) as error:
                shown = ", ".join(repr(tasks.names[k]) for k in single[:3]) + (", …" if len(single) > 3 else "")
                kind = type(backend.module).__name__
                raise ValueError(
                    f"the split {name!r} of {shown} ({len(single)} in all) is one sample, and {kind}, which looks "
                    f"across the batch, cannot be evaluated on one ({error}): give it more, or a model "
                    "with running statistics"
                ) from error


def _take(stacks: Stacks, nodes: Tensor, every: bool) -> Stacks:
    return stacks if every else stacks.select(nodes)


def _put(stacks: Stacks, nodes: Tensor, new: Stacks, every: bool) -> Stacks:
    """Return stacks in which the given nodes have new rows; position r of ``new`` is node ``nodes[r]``."""
    if every and len(new.specs) == len(stacks.specs):
        return stacks.like(new.tensors)
    tensors = list(stacks.tensors)
    source = list(new.locate(torch.arange(len(nodes), device=nodes.device)))
    for (s, _, target_rows), (t, _, source_rows) in zip(stacks.locate(nodes), source, strict=True):
        tensors[s] = tensors[s].index_copy(0, target_rows, new.tensors[t][source_rows])
    return stacks.like(tensors)
