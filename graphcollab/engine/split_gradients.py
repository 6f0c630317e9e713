"""Losses and gradients of models on a split of their nodes' data."""

from __future__ import annotations

from torch import Tensor

from graphcollab._base.device import beside, pick
from graphcollab.data.tasks import Tasks
from graphcollab.engine.backend import Backend
from graphcollab.engine.objective import Objective
from graphcollab.engine.samples import take_samples
from graphcollab.engine.stacked_backend import StackedBackend
from graphcollab.engine.standing import StandingBatches


class SplitGradients:
    """Computes losses and gradients on whole splits, in evaluation mode; ``standing`` samples stay on the GPU."""

    def __init__(self, objective: Objective, standing: StandingBatches) -> None:
        self._objective, self._standing = objective, standing

    def of(
        self, tasks: Tasks, backend: Backend, flat: Tensor, nodes: Tensor, split: str, most: int | None
    ) -> tuple[Tensor, Tensor]:
        """Return losses [r] and gradients [r, P] of models [r, columns], ``most`` samples of a node at a time."""
        objective = self._objective
        if not backend.samplewise or objective.reads.alike:
            return self._by_length(tasks, backend, flat, nodes, split)
        if isinstance(backend, StackedBackend) and backend.graphs:
            standing = self._standing.of(tasks, split, nodes, flat.dtype, most)
            if standing is not None:
                value, found = backend.standing_gradient(flat, standing, objective)
                return value.to(flat.dtype), found
        loss, grads = flat.new_zeros(len(flat)), flat.new_zeros(len(flat), backend.spec.num_parameters)
        whole, shared = objective.reads.whole, backend.only_reads and not objective.reads.latents
        for inputs, targets, share in take_samples(tasks, nodes, split, whole, shared, most):
            weight = beside(share.to(flat.dtype), flat)
            value, more, _ = backend.gradient(flat, inputs, targets, weight, objective)
            loss += value
            grads += more
        return loss, grads

    def losses(
        self, tasks: Tasks, backend: Backend, flat: Tensor, nodes: Tensor, split: str, most: int | None
    ) -> Tensor | None:
        """Return the losses alone, [r]; None if samples do not stay on the GPU because they would not fit at once."""
        if not isinstance(backend, StackedBackend) or not backend.graphs or backend.padding == "never":
            return None
        standing = None if self._objective.reads.alike else self._standing.of(tasks, split, nodes, flat.dtype, most)
        return None if standing is None else backend.standing_losses(flat, standing, self._objective)

    def _by_length(
        self, tasks: Tasks, backend: Backend, flat: Tensor, nodes: Tensor, split: str
    ) -> tuple[Tensor, Tensor]:
        """Return the same for nodes with equally many samples at a time, if samples may not be padded."""
        counts = tasks.sizes(split)[nodes]
        loss, grads = flat.new_zeros(len(flat)), flat.new_zeros(len(flat), backend.spec.num_parameters)
        for count in counts.unique().tolist():
            group = (counts == count).nonzero().flatten()
            inputs, targets, share = next(take_samples(tasks, nodes[group], split, whole=True))
            own = beside(share.to(flat.dtype), flat) if split in tasks.mean_weight else None
            place = beside(group, flat)
            loss[place], grads[place], _ = backend.gradient(pick(flat, group), inputs, targets, own, self._objective)
        return loss, grads
