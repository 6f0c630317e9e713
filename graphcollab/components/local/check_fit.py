"""Checks of a local update before the first round: that models, batches, views and objective are compatible."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.errors import MissingError, TooFewError
from graphcollab.components.env import Env
from graphcollab.data.tasks import Tasks
from graphcollab.engine.check_loss import check_loss
from graphcollab.engine.engine import Engine
from graphcollab.engine.modules import in_training, no_latents
from graphcollab.engine.objective import Context, Objective
from graphcollab.engine.optimizer import LocalSteps
from graphcollab.engine.randomness import keyed_layers
from graphcollab.engine.stack import Stacks
from graphcollab.engine.views import Views


def check_batches(local: LocalSteps, views: Views | None, embeds: bool, data: Data, env: Env) -> None:
    """Check that models that need several samples at a time (batch normalization) get them."""
    tasks = env.engine.tasks
    counts = tasks.sizes("train")
    passes = counts > 0 if local.steps is None else -(-counts // local.batch_size) <= local.steps
    single = (passes & (counts % local.batch_size == 1)) | (local.batch_size == 1)
    single &= views is None or views.count == 1
    for backend, members in zip(env.engine.backends, data.x.members, strict=True):
        nodes = members[single[members]].tolist()
        if not nodes or backend.samplewise:
            continue
        try:
            in_training(backend.module, _samples(tasks, nodes[0], 1)[0], embeds)
        except (RuntimeError, ValueError, IndexError) as error:
            raise TooFewError(
                "batch_size",
                f"batch_size={local.batch_size} leaves {_shown(tasks, nodes)} a batch of one sample, on which "
                f"{type(backend.module).__name__} cannot be trained ({error}): choose another batch_size, or replace "
                "batch normalization by graphcollab.models.replace_batch_norm",
            ) from error


def check_objective(objective: Objective, data: Data, env: Env) -> None:
    """Evaluate the objective on two samples with the models of every architecture."""
    reads, tasks = objective.reads, env.engine.tasks
    if reads.latents:
        require_latents(env.engine, data.x, "Fit's objective reads latents")
    split = tasks.splits["train"]
    for backend, members in zip(env.engine.backends, data.x.members, strict=True):
        if not len(members):
            continue
        spec, row = data.x.row(int(members[0]))
        inputs, targets = _samples(tasks, int(members[0]), 2)
        found = backend.embed(row[None], inputs[None]) if reads.latents else [backend.predict(row[None], inputs[None])]
        outputs, *latents = (part[0] for part in found)
        own = dict(zip(spec.names, spec.views(row), strict=True))
        given = {name: data[name][data.x.place(members[0])] for name in reads.fields} or None
        latent, projection = latents or (None, None)
        context = Context(None, own, own if reads.anchor else None, latent, projection, given, spec=spec)
        labels, kind = tasks.pools[split.pool].targets[split.here], type(backend.module).__name__
        check_loss(objective, (outputs, targets), labels, context, kind, "train", tasks.weighted)


def check_judging(data: Data, env: Env) -> None:
    """Check that models that look across the batch in evaluation can be evaluated on every split of their node."""
    tasks = env.engine.tasks
    for backend, members in zip(env.engine.backends, data.x.members, strict=True):
        for name, split in tasks.splits.items() if backend.padding == "never" else ():
            single = members[split.sizes[members] == 1].tolist()
            if not single:
                continue
            try:
                backend.predict(data.x.row(single[0])[1][None], _samples(tasks, single[0], 1, name)[0][None])
            except (RuntimeError, ValueError) as error:
                kind = type(backend.module).__name__
                raise TooFewError(
                    f"split {name!r}",
                    f"the split {name!r} of {_shown(tasks, single)} is one sample, and {kind}, which looks across the "
                    f"batch, cannot be evaluated on one ({error}): give it more, or a model with running statistics",
                ) from error


def check_views(views: Views, env: Env) -> None:
    """Try the augmentation on two samples, so that unsuitable samples are rejected now."""
    with keyed_layers(0):
        views(env.engine.tasks.pools[env.engine.tasks.splits["train"].pool].inputs[:2])


def _samples(tasks: Tasks, node: int, count: int, split: str = "train") -> tuple[Tensor, Tensor]:
    pool, places = tasks.pools[tasks.splits[split].pool], tasks.splits[split].of(node)[:count]
    return pool.inputs[places], pool.targets[places]


def _shown(tasks: Tasks, nodes: list[int]) -> str:
    names = ", ".join(repr(tasks.names[k]) for k in nodes[:3]) + (", …" if len(nodes) > 3 else "")
    return f"{names} ({len(nodes)} in all)"


def require_latents(engine: Engine, models: Stacks, wanted: str) -> None:
    """Check that the models of every architecture have latents; ``wanted`` begins the message of the ValueError."""
    split = engine.tasks.splits["train"]
    pool = engine.tasks.pools[split.pool]
    for backend, members in zip(engine.backends, models.members, strict=True):
        if not len(members):
            continue  # nodes of another process have this architecture
        reason = no_latents(backend.module, pool.inputs[split.of(int(members[0]))[:1]])
        if reason is not None:
            who, kind = engine.tasks.names[int(members[0])], type(backend.module).__name__
            raise MissingError(
                f"node {who!r}",
                f"{wanted}, and the model of {who!r}, {kind}, has no latents ({reason}): wrap its backbone in "
                "graphcollab.models.SplitModel, or let forward(inputs, embed=True) return graphcollab.models.Embedded",
            )
