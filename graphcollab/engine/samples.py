"""Samples of many nodes as one padded batch, and a few to try models on."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from graphcollab.device import beside
from graphcollab.tasks import Tasks

__all__ = ["few_samples", "take_samples"]

CPU_BATCH_BYTES = 16 * 2**20
VIEW_FACTOR = 4  # samples that need not be copied may be taken so many more at a time
CUDA_BATCH_BYTES = 2**29


def take_samples(
    tasks: Tasks, nodes: Tensor, split: str, whole: bool = False, shared: bool = False
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield inputs [r, m, ...], targets [r, m, ...] and mask [r, m], on the CPU, of nodes' samples, a few at a time.

    What is yielded may be written to: it is a copy, however the samples lie.

    Args:
        tasks: The nodes' data.
        nodes: Whose samples, [r].
        split: ``"train"``, ``"val"`` or ``"test"``.
        whole: Yield all samples at once.
        shared: Inputs may be views of the pool where the samples lie one behind the other: only for those who are
            known not to write to them.
    """
    owned = tasks.splits[split]
    pool, counts = tasks.pools[owned.pool], owned.sizes[nodes]
    longest = int(counts.max())
    sample = pool.inputs[0].numel() * pool.inputs.element_size()
    budget = CPU_BATCH_BYTES if pool.inputs.device.type == "cpu" else CUDA_BATCH_BYTES
    everything = owned.gather(nodes, torch.arange(longest).expand(len(nodes), -1))
    if _lined_up(everything, len(pool)) is not None:
        budget *= VIEW_FACTOR
    width = longest if whole else min(max(budget // (sample * len(nodes)), 32), longest)
    for start in range(0, longest, width):
        place = torch.arange(start, min(start + width, longest))
        index = everything[:, start : start + width]
        inputs = _take(pool.inputs, index) if shared else _copy(pool.inputs, index)
        yield inputs, _copy(pool.targets, index), place < counts[:, None]


def few_samples(tasks: Tasks) -> tuple[Tensor, Tensor]:
    """Return up to two training samples of the node with the fewest, but one if possible, and three of the largest."""
    split = tasks.splits["train"]
    pool, sizes = tasks.pools[split.pool], split.sizes
    several = torch.where(sizes > 1, sizes, sizes.max() + 1)
    few, many = int(several.argmin()), int(sizes.argmax())
    index = torch.cat([split.of(few)[:2], split.of(many)[-3:]])
    return _copy(pool.inputs, index), _copy(pool.targets, index)


def _lined_up(index: Tensor, size: int) -> int | None:
    """Return the distance between rows where ``index`` [r, m] is slices of equally long rows one behind the other."""
    first, (rows, width) = int(index[0, 0]), index.shape
    step = int(index[1, 0]) - first if rows > 1 else width
    if step < width or first + rows * step > size:
        return None
    expected = first + step * torch.arange(rows)[:, None] + torch.arange(width)
    return step if torch.equal(index, expected) else None


def _take(values: Tensor, index: Tensor) -> Tensor:
    """Return ``values[index]`` [r, m, ...]; a view where the samples of the rows lie one behind the other."""
    rows, width = index.shape
    step = _lined_up(index, len(values))
    if step is not None:
        first = int(index[0, 0])
        return values[first : first + rows * step].unflatten(0, (rows, step))[:, :width]
    return _copy(values, index)


def _copy(values: Tensor, index: Tensor) -> Tensor:
    """Return ``values[index]`` [r, m, ...] as a tensor of its own."""
    return values.index_select(0, beside(index.reshape(-1), values)).view(*index.shape, *values.shape[1:])
