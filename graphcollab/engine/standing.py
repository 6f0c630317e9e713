"""Batches that stay from round to round: all samples that some nodes have in a split."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphcollab.device import beside
from graphcollab.engine.samples import CUDA_BATCH_BYTES, Batch, copied, weights_of
from graphcollab.tasks import Pool, Tasks

KEPT = 16  # batches: of splits, and of chunks


@dataclass(frozen=True, eq=False)
class Standing:
    """The samples of a split that nodes [r] have, padded to one batch.

    Args:
        pool: Where the samples are.
        index: Their places there, [r, m], on its device.
        weight: What they count in the mean over a node's samples, [r, m], there too.
    """

    pool: Pool
    index: Tensor
    weight: Tensor

    def batch(self) -> Batch:
        """Return copies of the samples."""
        inputs, targets = (copied(values, self.index) for values in (self.pool.inputs, self.pool.targets))
        return Batch(inputs, targets, self.weight)


class StandingBatches:
    """The last such batches of some tasks that were asked for, as objects that stay the same as long as they are kept.

    The weights of samples are read once.
    """

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._kept: dict[tuple[str, bytes, torch.dtype], Standing] = {}

    def of(self, tasks: Tasks, split: str, nodes: Tensor, dtype: torch.dtype, most: int | None) -> Standing | None:
        """Return the samples of nodes [r].

        None where there is not room for all of them, ``most`` of each, at once, and of other tasks.
        """
        if tasks is not self._tasks:
            return None
        key = split, nodes.numpy().tobytes(), dtype
        standing = self._kept.pop(key, None)
        if standing is None:
            standing = self._made(split, nodes, dtype)
        if standing is None or standing.index.shape[1] > (most or standing.index.shape[1]):
            return None
        while len(self._kept) >= KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = standing
        return standing

    def _made(self, split: str, nodes: Tensor, dtype: torch.dtype) -> Standing | None:
        owned = self._tasks.splits[split]
        pool, counts = self._tasks.pools[owned.pool], owned.sizes[nodes]
        longest = int(counts.max())
        sample = pool.inputs[0].numel() * pool.inputs.element_size()
        if not longest or sample * len(nodes) * longest > CUDA_BATCH_BYTES:
            return None
        place = torch.arange(longest)
        index = owned.gather(nodes, place.expand(len(nodes), -1))
        share = (place < counts[:, None]) / counts[:, None].double()
        weight = weights_of(self._tasks, split, nodes, index)
        share = share if weight is None else weight * beside(share, weight)
        return Standing(pool, beside(index, pool.inputs), beside(share.to(dtype), pool.inputs))
