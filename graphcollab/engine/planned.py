"""What is computed for every architecture, and in which chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor, nn

from graphcollab.engine.backend import Backend
from graphcollab.engine.losses import as_objective
from graphcollab.engine.plan import BACKENDS, Plan, check_plan, make_plan
from graphcollab.engine.rows import Rows
from graphcollab.engine.samples import few_samples
from graphcollab.stack import ParamSpec
from graphcollab.tasks import Tasks

__all__ = ["Planned"]


class Planned:
    """Plans, backends and chunks of what computes with rows.

    Args:
        tasks: The nodes' data.
        modules: One module per architecture, in the order of the stacks.
        specs: Their columns.
        backend: ``"auto"``, ``"vmap"`` or ``"loop"``; see `make_plan`.
        chunk: Rows at a time. Default: by `make_plan`'s rule.
        plans: Stored plans to repeat, instead of choosing anew; they are checked against the modules.
        autocast: Compute forward passes in bfloat16.
        compile: Compile stacked forward passes with ``torch.compile``.
    """

    def __init__(
        self,
        tasks: Tasks,
        modules: Sequence[nn.Module],
        specs: Sequence[ParamSpec],
        *,
        backend: str = "auto",
        chunk: int | None = None,
        plans: Sequence[Plan] | None = None,
        autocast: bool = False,
        compile: bool = False,
    ) -> None:
        self.tasks = tasks
        self.objective = as_objective(tasks.loss)
        sample, pairs = few_samples(tasks), list(zip(modules, specs, strict=True))
        if plans is None:
            plans = [make_plan(module, spec, sample, self.objective, backend, chunk) for module, spec in pairs]
        else:
            for plan, (module, spec) in zip(plans, pairs, strict=True):
                check_plan(plan, module, spec, sample, self.objective)
        self.plans = tuple(plans)
        self.backends: tuple[Backend, ...] = tuple(
            BACKENDS[plan.backend](module, spec, autocast, compile, plan.padding)
            for plan, (module, spec) in zip(plans, pairs, strict=True)
        )

    def chunks(self, rows: Rows, work: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield, chunk by chunk, an architecture and some of its rows [r], those with most work [R] first."""
        for s, where in self._stacks(rows):
            for local in self._chunks(s, work[where]):
                yield s, where[local]

    def _stacks(self, rows: Rows) -> Iterator[tuple[int, Tensor]]:
        """Yield for every architecture among the rows which rows are of it."""
        owner = rows.index if rows.index.dim() == 1 else rows.index[:, 0]
        for s, where, _ in rows.source.locate(owner):
            yield s, where

    def _chunks(self, stack: int, work: Tensor) -> Iterator[Tensor]:
        """Cut rows, those with most work first, into chunks of nearly equal length."""
        order = work.argsort(descending=True, stable=True)
        pieces = -(-len(order) // self.plans[stack].chunk)
        yield from order.tensor_split(pieces) if pieces else ()
