"""State kept between rounds: the samples of a split, and computations, which a GPU replays as CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

import graphcollab.engine.static_steps as steps
from graphcollab._base.device import beside
from graphcollab.data.samples import Pool
from graphcollab.data.tasks import Tasks
from graphcollab.engine.samples import CUDA_BATCH_BYTES, Batch, copied, weights_of

BATCHES_KEPT = 16  # for splits, and for chunks
COMPUTATIONS_KEPT = 8  # for some objectives, or for chunks
LARGEST = 2**26  # bytes of inputs: for more, a GPU's computation exceeds the launch overhead


@dataclass(frozen=True, eq=False)
class Standing:
    """Samples of nodes [r] in a split, padded: positions in the pool and shares in the node's mean, [r, m]."""

    pool: Pool
    index: Tensor
    weight: Tensor

    def batch(self) -> Batch:
        """Return copies of the samples."""
        inputs, targets = (copied(values, self.index) for values in (self.pool.inputs, self.pool.targets))
        return Batch(inputs, targets, self.weight)


class StandingBatches:
    """Cache of the most recent such batches: the same objects while they are kept; weights are read once."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._kept: dict[tuple[str, bytes, torch.dtype], Standing] = {}

    def of(self, tasks: Tasks, split: str, nodes: Tensor, dtype: torch.dtype, most: int | None) -> Standing | None:
        """Return the samples of nodes [r]; None for other tasks, or if a node has more than ``most`` samples."""
        if tasks is not self._tasks:
            return None
        key = split, nodes.numpy().tobytes(), dtype
        standing = self._kept.pop(key, None)
        if standing is None:
            standing = self._made(split, nodes, dtype)
        if standing is None or standing.index.shape[1] > (most or standing.index.shape[1]):
            return None
        while len(self._kept) >= BATCHES_KEPT:
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


def replayable(*given: Tensor) -> bool:
    """Return whether computations from tensors may be replayed: on a GPU, with few bytes."""
    return given[0].device.type in steps.REPLAYED and sum(one.nbytes for one in given) <= LARGEST


class Replayed:
    """A computation from tensors to tensors, which a GPU records on the second call and replays from then on.

    All other inputs of ``compute`` must stay in place; it must not draw, nor synchronize with the GPU.
    """

    def __init__(self, name: str, compute: Callable[..., Sequence[Tensor]]) -> None:
        self.name, self.compute = name, compute
        self._given: list[Tensor] = []
        self._found: list[Tensor] = []
        self._asked, self._graph = False, cast("Any", None)

    def __call__(self, *given: Tensor) -> Sequence[Tensor]:
        """Return the result for tensors, whose shapes must not change between calls."""
        if not replayable(*given):
            return self.compute(*given)
        if self._asked and self._graph is None:
            self._record(given)
        self._asked = True
        if not self._graph:
            return self.compute(*map(own_copy, given))  # as in a replay: kernels are chosen by memory layout
        with torch.no_grad():
            torch._foreach_copy_(self._given, given)
        self._graph.replay()
        return [one.clone() for one in self._found]

    def _record(self, given: Sequence[Tensor]) -> None:
        self._given = [*map(own_copy, given)]
        self._found = found = [torch.empty_like(one) for one in self.compute(*self._given)]

        def step() -> None:
            with torch.no_grad():
                torch._foreach_copy_(found, list(self.compute(*self._given)))

        self._graph = steps.recorded(self.name, step, found)
        if self._graph is None:
            self._graph, self._given, self._found = False, [], []


def own_copy(values: Tensor) -> Tensor:
    """Return a contiguous copy, without an autograd graph."""
    return values.detach().clone(memory_format=torch.contiguous_format)


class Replays:
    """Cache of the most recent computations, by what they read besides their arguments."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Replayed] = {}

    def of(self, key: Hashable, name: str, compute: Callable[..., Sequence[Tensor]]) -> Replayed:
        """Return the computation of a key; both are kept."""
        replayed = self._kept.pop(key, None) or Replayed(name, compute)
        while len(self._kept) >= COMPUTATIONS_KEPT:  # free their memory before allocating more
            del self._kept[next(iter(self._kept))]
        self._kept[key] = replayed
        return replayed
