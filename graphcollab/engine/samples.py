"""The samples of rows: the batches of local steps, and whole splits padded to one batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from graphcollab._base.device import beside, pick
from graphcollab.data.samples import Pool
from graphcollab.data.schedule import Schedule
from graphcollab.data.tasks import Tasks
from graphcollab.engine.randomness import keyed_layers
from graphcollab.engine.views import Views

_VIEW_STREAM = 135

VIEWS_AT_ONCE = 1024  # approximate number of images per augmentation call for a node
CPU_BATCH_BYTES = 16 * 2**20
VIEW_FACTOR = 4  # how many times more samples are taken at a time if they need not be copied
CUDA_BATCH_BYTES = 2**26


@dataclass(frozen=True)
class Batch:
    """Samples [B, ...] that pass a model at once, or those of several models, with a leading dimension R.

    ``weight`` [B] is as in `Context`, ``anchor`` [P]; with ``views`` V the samples are V views of B / V samples.
    """

    inputs: Tensor
    targets: Tensor
    weight: Tensor | None = None
    anchor: Tensor | None = None
    given: Mapping[str, Tensor] | None = None
    views: int = 1

    def of(self, rows: int | slice) -> Batch:
        """Return the batch of one or several of the models."""
        more = _of(self.weight, rows), _of(self.anchor, rows), _of(self.given, rows)
        return Batch(self.inputs[rows], self.targets[rows], *more, self.views)

    def parts(self, most: int | None, dim: int, dtype: torch.dtype) -> list[Batch]:
        """Return nearly equal parts, of at most ``most`` samples along ``dim``, whose means add up to the batch's."""
        length = self.inputs.shape[dim]
        if most is None or length <= most or self.views > 1:
            return [self]
        alike = torch.full(self.inputs.shape[: dim + 1], 1 / length, dtype=dtype, device=self.inputs.device)
        weight = alike if self.weight is None else self.weight
        count = -(-length // most)
        cut = zip(*(values.tensor_split(count, dim) for values in (self.inputs, self.targets, weight)), strict=True)
        return [replace(self, inputs=i, targets=t, weight=w) for i, t, w in cut]


@dataclass(frozen=True)
class Feed:
    """The batches of R rows over S steps: positions ``index`` [R, S, B] in one pool, on its device.

    Rows are sorted by decreasing number of steps, so active ones are always first. ``node_id`` [R] keys randomness
    inside layers and views; ``weight`` [R, S, B] has mean 1 over a node's training samples, None: equal weights;
    ``given`` [R, ...], ``anchor`` [R, P]; ``scale`` by part [R] is the share of `RowOptimizer.update`.
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
    weight: Tensor | None = None
    _drawn: dict[int, tuple[int, Tensor]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def _sizes(self) -> list[list[int]]:
        return self.schedule.size.tolist()

    @property
    def num_views(self) -> int:
        """V, 1 without views."""
        return 1 if self.views is None else self.views.count

    def of(self, rows: slice) -> Feed:
        """Return the batches of the given rows, with the number of steps of the longest of them."""
        own, last = self.schedule, int(self.schedule.steps[rows].max())
        schedule = Schedule(own.position[rows, :last], own.size[rows, :last], own.steps[rows])
        more = {name: _of(getattr(self, name), rows) for name in ("node_id", "given", "scale", "anchor")}
        weight = None if self.weight is None else self.weight[rows, :last]
        return replace(self, index=self.index[rows, :last], schedule=schedule, weight=weight, _drawn={}, **more)

    def at(self, rows: Tensor | slice | int, step: int, width: int, padded: Tensor | None = None) -> Batch:
        """Return the batch of rows at a step, [r, V * width, ...]; without r for a single row."""
        index = pick(self.index[:, step, :width], rows)
        targets = copied(self.pool.targets, index)
        weight = in_mean(None if self.weight is None else pick(self.weight[:, step, :width], rows), padded)
        if self.views is None:
            inputs = copied(self.pool.inputs, index)
        else:
            places = torch.arange(len(self.index))[rows].flatten().tolist()
            many = [self._views_of(self.views, row, step, width) for row in places]
            inputs = many[0] if isinstance(rows, int) else torch.stack(many)
            targets = torch.cat([targets] * self.num_views, index.dim() - 1)
            weight = None if weight is None else torch.cat([weight] * self.num_views, -1) / self.num_views
        place = beside(rows, inputs) if isinstance(rows, Tensor) else rows
        return Batch(inputs, targets, weight, _of(self.anchor, place), _of(self.given, place), self.num_views)

    def _views_of(self, views: Views, row: int, step: int, width: int) -> Tensor:
        """Return a row's views at a step, [V * width, ...]; those of a block of steps are drawn at once and cached."""
        sizes = self._sizes[row]
        block = max(VIEWS_AT_ONCE // (views.count * sizes[0]), 1)
        first = step - step % block
        if self._drawn.get(row, (-1, self.index))[0] != first:
            own = [self.index[row, s, :size] for s, size in enumerate(sizes[first : first + block], first)]
            samples = self.pool.inputs.index_select(0, torch.cat(own))
            with keyed_layers(_VIEW_STREAM, self.seed, int(self.node_id[row]), self.round_, first):
                self._drawn[row] = first, views(samples)
        start = sum(sizes[first:step])
        seen = self._drawn[row][1][:, start : start + sizes[step]]
        if width > sizes[step]:  # padding, of weight zero
            seen = torch.cat([seen, seen[:, -1:].expand(-1, width - sizes[step], *seen.shape[2:])], 1)
        return seen.flatten(0, 1)


def _of(values: Any, rows: Tensor | slice | int) -> Any:
    """Return the entries of values [R, ...], possibly by name, for the given rows; None for None."""
    if isinstance(values, Mapping):
        return {name: value[rows] for name, value in values.items()}
    return None if values is None else values[rows]


def weights_of(
    tasks: Tasks, split: str, nodes: Tensor, index: Tensor, dtype: torch.dtype = torch.float64
) -> Tensor | None:
    """Return weights [r, ...] of samples at positions ``index``, with mean 1 in a node's split; None: equal weights."""
    weight = tasks.pools[tasks.splits[split].pool].weight
    if weight is None:
        return None
    mean = tasks.mean_weight[split][nodes].view(-1, *[1] * (index.dim() - 1))
    return (copied(weight, index).double() / beside(mean, weight)).to(dtype)


def in_mean(weight: Tensor | None, padded: Tensor | None) -> Tensor | None:
    """Return the weight of every sample in the mean of a batch, [..., B]; None if all are equal.

    ``weight`` has mean 1; ``padded`` is the weight without it if some samples are padding.
    """
    if weight is None:
        return padded
    return weight / weight.shape[-1] if padded is None else weight * padded


def take_samples(
    tasks: Tasks, nodes: Tensor, split: str, whole: bool = False, shared: bool = False, most: int | None = None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield inputs [r, m, ...], targets [r, m, ...] and shares [r, m] of nodes' samples, a few at a time.

    Shares (float64) are the weights of samples in the mean over a node's split, 0 for padding. With ``whole``, all
    samples come at once, else at most ``most`` of a node. Inputs are copies; with ``shared``, they may be views of the
    pool, which must not be written to.
    """
    owned = tasks.splits[split]
    pool, counts = tasks.pools[owned.pool], owned.sizes[nodes]
    longest = int(counts.max())
    sample = pool.inputs[0].numel() * pool.inputs.element_size()
    budget = CPU_BATCH_BYTES if pool.inputs.device.type == "cpu" else CUDA_BATCH_BYTES
    everything = owned.gather(nodes, torch.arange(longest).expand(len(nodes), -1))
    if _lined_up(everything, len(pool)) is not None:
        budget *= VIEW_FACTOR
    width = longest if whole else min(max(budget // (sample * len(nodes)), 32), most or longest, longest)
    for start in range(0, longest, width):
        place = torch.arange(start, min(start + width, longest))
        index = everything[:, start : start + width]
        inputs = _take(pool.inputs, index) if shared else copied(pool.inputs, index)
        share = (place < counts[:, None]) / counts[:, None].double()
        weight = weights_of(tasks, split, nodes, index)
        yield inputs, copied(pool.targets, index), share if weight is None else weight * beside(share, weight)


def few_samples(tasks: Tasks) -> tuple[Tensor, Tensor]:
    """Return up to two training samples of the node with the fewest, but one if possible, and three of the largest."""
    split = tasks.splits["train"]
    pool, nodes = tasks.pools[split.pool], (~split.elsewhere).nonzero().flatten()
    sizes = split.sizes[nodes]
    several = torch.where(sizes > 1, sizes, sizes.max() + 1)
    few, many = int(nodes[several.argmin()]), int(nodes[sizes.argmax()])
    index = torch.cat([split.of(few)[:2], split.of(many)[-3:]])
    return copied(pool.inputs, index), copied(pool.targets, index)


def _lined_up(index: Tensor, size: int) -> int | None:
    """Return the distance between rows if ``index`` [r, m] consists of consecutive slices of equally long rows."""
    first, (rows, width) = int(index[0, 0]), index.shape
    step = int(index[1, 0]) - first if rows > 1 else width
    if step < width or first + rows * step > size:
        return None
    expected = first + step * torch.arange(rows)[:, None] + torch.arange(width)
    return step if torch.equal(index, expected) else None


def _take(values: Tensor, index: Tensor) -> Tensor:
    """Return ``values[index]`` [r, m, ...]; a view if the samples of the rows are contiguous."""
    rows, width = index.shape
    step = _lined_up(index, len(values))
    if step is None:
        return copied(values, index)
    first = int(index[0, 0])
    return values[first : first + rows * step].unflatten(0, (rows, step))[:, :width]


def copied(values: Tensor, index: Tensor) -> Tensor:
    """Return a copy of ``values[index]``; the index may be on the CPU."""
    return values.index_select(0, beside(index.reshape(-1), values)).view(*index.shape, *values.shape[1:])
