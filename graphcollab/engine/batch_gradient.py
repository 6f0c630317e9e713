"""Gradients of one batch: what a local step would move along, without taking it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphcollab.engine.backend import batch_groups
from graphcollab.engine.objective import Objective
from graphcollab.engine.rows import Rows
from graphcollab.tasks import make_schedule

if TYPE_CHECKING:
    from graphcollab.engine.engine import Engine

__all__ = ["batch_gradient"]


def batch_gradient(
    engine: Engine,
    rows: Rows,
    *,
    seed: int,
    round_: int,
    batch_size: int,
    part: str = "all",
    objective: Objective | None = None,
) -> tuple[Tensor, Tensor]:
    """Return every row's loss on one batch of its node's training samples, and that loss's gradient.

    It is the gradient that the first local step of a round would take: in training mode, of the batch that seed, node
    and round fix. Running statistics are left as they are. All gradients asked for exist at once: ask for a chunk of
    rows at a time (``engine.plans``) where they are only to be reduced.

    Args:
        engine: What computes.
        rows: Models and whose data they meet.
        seed: Seed of the batches; another one than the run's draws other batches than the local steps'.
        round_: Round.
        batch_size: B; nodes with fewer samples take all of them.
        part: Part of the model whose gradient is wanted; all architectures among the rows must share it.
        objective: Default: the task's loss.

    Returns:
        Losses [R] and gradients [R, P_part].

    Example:
        >>> from graphcollab.engine import Engine, Rows, batch_gradient
        >>> from graphcollab.stack import ParamSpec, Stacks
        >>> from graphcollab.tasks import Tasks
        >>> tasks = Tasks.from_samples([(torch.ones(4, 1), torch.zeros(4))], loss="mse")
        >>> module = torch.nn.Linear(1, 1, bias=False)
        >>> spec = ParamSpec.from_module(module)
        >>> engine, models = Engine(tasks, [module], [spec]), Stacks.single(spec, torch.tensor([[3.0]]))
        >>> batch_gradient(engine, Rows.own(models), seed=0, round_=0, batch_size=2)[1].tolist()
        [[6.0]]
    """
    objective = objective or engine.objective
    tasks = engine.tasks
    split = tasks.splits["train"]
    pool, counts = tasks.pools[split.pool], split.sizes
    # One batch per node, however many rows meet its data: index [N, B] and sizes [N]
    nodes, place = rows.node.unique(return_inverse=True)
    schedule = make_schedule(counts[nodes], tasks.ids[nodes], seed, round_, batch_size, steps=1)
    index, sizes = split.gather(nodes, schedule.position[:, 0]), schedule.size[:, 0]
    losses: list[Tensor] = []
    grads: list[Tensor] = []
    order: list[Tensor] = []
    for s, take in engine.chunks(rows, sizes[place]):
        backend, flat = engine.backends[s], rows.parameters(s, take)
        for some, width, weight in batch_groups(sizes[place[take]], objective.weighs and backend.samplewise, flat):
            own, shape = index[place[take[some]], :width].flatten(), (len(take[some]), width)
            inputs, targets = (p.index_select(0, own).unflatten(0, shape) for p in (pool.inputs, pool.targets))
            key = seed, tasks.ids[rows.node[take[some]]], round_
            loss, gradient = backend.gradient(flat[some], inputs, targets, weight, objective, key=key)
            losses.append(loss)
            grads.append(gradient[:, backend.spec.columns(part)])
            order.append(take[some])
    if not order:
        raise ValueError("there are no rows to compute gradients of")
    return _in_order(losses, order), _in_order(grads, order)


def _in_order(pieces: list[Tensor], order: list[Tensor]) -> Tensor:
    """Put pieces [r, ...] together as [R, ...], at the places in ``order``; not copied where they lie so."""
    where, values = torch.cat(order), pieces[0] if len(pieces) == 1 else torch.cat(pieces)
    if bool((where == torch.arange(len(where), device=where.device)).all()):
        return values
    return torch.empty_like(values).index_copy_(0, where, values)
