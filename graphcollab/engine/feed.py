"""Batches by index: which samples, or views of them, rows meet at their local steps, and what else they are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from graphcollab.device import pick
from graphcollab.engine.randomness import keyed_layers
from graphcollab.engine.views import Views
from graphcollab.tasks import Pool, Schedule

__all__ = ["Feed"]

_VIEW_STREAM = 135

VIEWS_AT_ONCE = 1024  # images that one call of the augmentation makes for a node, about


@dataclass(frozen=True)
class Feed:
    """The batches of R rows over S steps, drawn from one shared pool on its device.

    Rows are sorted by decreasing number of steps, so the rows still at work at a step are always the first ones.

    Args:
        pool: The samples.
        index: Pool position of every sample, [R, S, B], where the samples are.
        schedule: Lengths of the batches.
        node_id: Identity of every row's node, [R]: the key of randomness inside layers and of views.
        seed: Seed of the run.
        round_: Round.
        views: Augmented views of the samples. Default: the samples themselves.
        given: What the objective is given beside the samples, by name, [R, ...] each.
        anchor: Parameters to stay close to, [R, P].
        scale: By part, the share of a row's own model in what the loss is of, [R]; see `RowOptimizer.update_share`.
    """

    pool: Pool
    index: Tensor
    schedule: Schedule
    node_id: Tensor
    seed: int
    round_: int
    views: Views | None = None
    given: Mapping[str, Tensor] | None = None
    anchor: Tensor | None = None
    scale: Mapping[str, Tensor] | None = None
    _drawn: dict[int, tuple[int, Tensor]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def _sizes(self) -> list[list[int]]:
        """Batch lengths [R, S], read off the device once."""
        return self.schedule.size.tolist()

    @cached_property
    def _idents(self) -> list[int]:
        """Identities of the rows' nodes, likewise."""
        return self.node_id.tolist()

    @property
    def num_views(self) -> int:
        """V, 1 without views."""
        return 1 if self.views is None else self.views.count

    def batch(self, rows: Tensor | slice | int, step: int, width: int) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of some rows at a step, [r, V * width, ...] ([V * width, ...] for a single row)."""
        index = pick(self.index[:, step, :width], rows)
        flat = index.reshape(-1)
        targets = self.pool.targets.index_select(0, flat)
        targets = targets.view(*index.shape, *targets.shape[1:])
        if self.views is None:
            inputs = self.pool.inputs.index_select(0, flat)
            return inputs.view(*index.shape, *inputs.shape[1:]), targets
        targets = torch.cat([targets] * self.views.count, dim=index.dim() - 1)
        if isinstance(rows, int):
            return self._views_of(self.views, rows, step, width), targets
        places = torch.arange(len(self.index))[rows].tolist()
        return torch.stack([self._views_of(self.views, row, step, width) for row in places]), targets

    def given_to(self, rows: Tensor | slice | int) -> dict[str, Tensor] | None:
        """Return what the objective is given of some rows."""
        return None if self.given is None else {name: value[rows] for name, value in self.given.items()}

    def _views_of(self, views: Views, row: int, step: int, width: int) -> Tensor:
        """Return a row's views at a step, [V * width, ...]: those of a block of steps are drawn at once, and kept."""
        sizes = self._sizes[row]
        block = max(VIEWS_AT_ONCE // (views.count * sizes[0]), 1)
        first = step - step % block
        if self._drawn.get(row, (-1, self.index))[0] != first:
            own = [self.index[row, s, :size] for s, size in enumerate(sizes[first : first + block], first)]
            samples = self.pool.inputs.index_select(0, torch.cat(own))
            with keyed_layers(_VIEW_STREAM, self.seed, self._idents[row], self.round_, first):
                self._drawn[row] = first, views(samples)
        start = sum(sizes[first:step])
        seen = self._drawn[row][1][:, start : start + sizes[step]]
        if width > sizes[step]:  # padding, of weight zero
            seen = torch.cat([seen, seen[:, -1:].expand(-1, width - sizes[step], *seen.shape[2:])], 1)
        return seen.flatten(0, 1)
