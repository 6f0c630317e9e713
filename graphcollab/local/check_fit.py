"""Checks of a local update before the first round: that models, batches, views and objective go together."""

from __future__ import annotations

from torch_geometric.data import Data

from graphcollab.engine.modules import require_latents, training_failure
from graphcollab.engine.objective import Context, Objective
from graphcollab.engine.optimizer import LocalSteps
from graphcollab.engine.randomness import keyed_layers
from graphcollab.engine.views import Views
from graphcollab.typing import Env

__all__ = ["check_batches", "check_judging", "check_objective", "check_views"]


def check_batches(local: LocalSteps, views: Views | None, embeds: bool, data: Data, env: Env) -> None:
    """Check that models which need several samples at a time (batch normalisation) get them."""
    tasks = env.engine.tasks
    counts = tasks.sizes("train")
    passes = counts > 0 if local.steps is None else -(-counts // local.batch_size) <= local.steps
    single = (passes & (counts % local.batch_size == 1)) | (local.batch_size == 1)
    single &= views is None or views.count == 1
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
                f"batch_size={local.batch_size} leaves {shown} ({len(nodes)} in all) a batch of one sample, on "
                f"which {type(backend.module).__name__} cannot be trained ({reason}): choose another batch_size, "
                "or replace batch normalisation by graphcollab.models.replace_batch_norm"
            )


def check_objective(objective: Objective, data: Data, env: Env) -> None:
    """Let the objective judge two samples with every architecture's models."""
    reads = objective.reads
    if reads.latents:
        require_latents(env.engine, data.x, "Fit's objective reads latents")
    split = env.engine.tasks.splits["train"]
    pool = env.engine.tasks.pools[split.pool]
    for backend, members in zip(env.engine.backends, data.x.members, strict=True):
        if not len(members):
            continue
        spec, row = data.x.row(int(members[0]))
        places = split.of(int(members[0]))[:2]
        inputs, targets = pool.inputs[places][None], pool.targets[places]
        outputs, latent, projection = backend.predict(row[None], inputs)[0], None, None
        if reads.latents:
            outputs, latent, projection = (part[0] for part in backend.embed(row[None], inputs))
        own = dict(zip(spec.names, spec.views(row), strict=True))
        context = Context(
            None,
            own,
            anchor=own if reads.anchor else None,
            latent=latent,
            projection=projection,
            given={name: data[name][data.x.place(members[0])] for name in reads.fields} or None,
            spec=spec,
        )
        objective.check(outputs, pool.targets[split.index], type(backend.module).__name__, "train")
        objective(outputs, targets, context)


def check_judging(data: Data, env: Env) -> None:
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


def check_views(views: Views, env: Env) -> None:
    """Try the augmentation on two samples, so that what cannot be augmented is refused now."""
    pool = env.engine.tasks.pools[env.engine.tasks.splits["train"].pool]
    with keyed_layers(0):
        views(pool.inputs[:2])
