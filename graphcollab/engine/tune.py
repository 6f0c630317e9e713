"""Timing backends and chunks on the nodes' own data, for those who ask for it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from graphcollab.engine.engine import Engine
from graphcollab.engine.obstacles import mostly_frozen
from graphcollab.engine.optimizer import SGD, LocalSteps
from graphcollab.engine.plan import BACKENDS, Plan
from graphcollab.engine.rows import Rows
from graphcollab.errors import ResourceError, UnsupportedError
from graphcollab.memory import used_up
from graphcollab.settings import Count, checked
from graphcollab.stack import ParamSpec, Stacks
from graphcollab.tasks import Tasks

__all__ = ["tune"]

CHUNKS = (5, 10, 25, 50, 100)


@checked
def tune(
    tasks: Tasks,
    modules: Sequence[nn.Module],
    specs: Sequence[ParamSpec],
    models: Stacks,
    *,
    batch_size: Count = 10,
    steps: Count = 2,
    repeats: Count = 3,
    autocast: bool = False,
) -> tuple[Plan, ...]:
    """Time a few local steps of every architecture's nodes with all backends and several chunks; return the fastest.

    Timings differ from run to run, so the choice may too; a run stores it before its first step and a resumed run
    repeats it. Models are not changed.

    Args:
        tasks: The nodes' data.
        modules: One module per architecture.
        specs: Their columns.
        models: One model per node.
        batch_size: Samples per step.
        steps: Local steps per timing.
        repeats: Timings per candidate, of which the best counts; one more goes before them to warm up.
        autocast: Compute forward passes in bfloat16.

    Example:
        >>> import torch
        >>> spec = ParamSpec.from_module(module := nn.Linear(2, 2))
        >>> tasks = Tasks.from_samples([(torch.randn(9, 2), torch.randint(2, (9,)))] * 3)
        >>> plans = tune(tasks, [module], [spec], Stacks.single(spec, torch.zeros(3, 6)), repeats=1)
        >>> "fastest of" in plans[0].reason
        True
    """
    best = []
    for a, members in enumerate(models.members):
        candidates: list[tuple[float, Plan]] = []
        for backend in BACKENDS:
            if backend == "shared" and not mostly_frozen(modules[a]):
                continue
            if (
                backend == "unrolled" and models.device.type == "cpu"
            ):  # a loop with more memory, where there is no graph
                continue
            try:
                engine = Engine(tasks, modules, specs, backend=backend, autocast=autocast)
            except UnsupportedError:  # this architecture has no stacked form
                continue
            chunks = sorted({min(chunk, len(members)) for chunk in (*CHUNKS, len(members))})
            chunks = chunks if backend == "vmap" else chunks[:1]  # one row at a time: the chunk hardly matters
            for chunk, graphs in itertools.product(chunks, sorted({False, engine.plans[a].graphs})):
                engine.plans = tuple(replace(plan, chunk=chunk, graphs=graphs) for plan in engine.plans)
                for computing in engine.backends:
                    computing.graphs = graphs
                rows = Rows.own(models, members)
                try:
                    warm = 2 if graphs else 1  # graphs are recorded in the second
                    seconds = min([_once(engine, rows, batch_size, steps) for _ in range(repeats + warm)][warm:])
                except (MemoryError, RuntimeError) as error:
                    if not used_up(error):
                        raise
                    break  # larger chunks take more
                candidates.append((seconds, engine.plans[a]))
        if not candidates:
            raise ResourceError(
                "batch_size", "memory is used up by every backend: lower batch_size, or the models' size", public=True
            )
        seconds, plan = min(candidates, key=lambda candidate: (candidate[0], candidate[1].backend))
        reason = f"fastest of {len(candidates)}: {1000 * seconds / steps:.2f} ms a step of stack {a}"
        best.append(replace(plan, reason=reason))
    return tuple(best)


def _once(engine: Engine, rows: Rows, batch_size: int, steps: int) -> float:
    how = LocalSteps(steps=steps, batch_size=batch_size, optimizer=SGD(lr=0.0))
    started = time.perf_counter()
    engine.fit(rows, how, seed=0, round_=0).told()  # read, so nothing is under way any more
    return time.perf_counter() - started
