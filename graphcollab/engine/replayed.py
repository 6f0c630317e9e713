"""What is computed alike in every round, on tensors that stay where they are: a GPU replays it as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

import graphcollab.engine.static_steps as steps

KEPT = 8  # computations: for some objectives, or for chunks
LARGEST = 2**26  # bytes that are given: a GPU works on more of them for longer than the launches take


def replayable(*given: Tensor) -> bool:
    """Tell whether what is computed of tensors may be replayed: on a GPU, of few bytes."""
    return given[0].device.type in steps.REPLAYED and sum(one.nbytes for one in given) <= LARGEST


class Replayed:
    """Tensors computed of tensors, which on a GPU is recorded the second time and replayed from then on.

    Args:
        name: What it is, for a warning where it cannot be recorded.
        compute: Computes it. All else that it reads stays where it is, it draws nothing and never waits for the card.
    """

    def __init__(self, name: str, compute: Callable[..., Sequence[Tensor]]) -> None:
        self.name, self.compute = name, compute
        self._given: list[Tensor] = []
        self._found: list[Tensor] = []
        self._asked, self._graph = False, cast("Any", None)

    def __call__(self, *given: Tensor) -> Sequence[Tensor]:
        """Return what is computed of tensors of the same shapes as ever."""
        if not replayable(*given):
            return self.compute(*given)
        if self._asked and self._graph is None:
            self._record(given)
        self._asked = True
        if not self._graph:
            return self.compute(*map(_own, given))  # as when it is replayed: kernels are chosen by how numbers lie
        with torch.no_grad():
            torch._foreach_copy_(self._given, given)
        self._graph.replay()
        return [one.clone() for one in self._found]

    def _record(self, given: Sequence[Tensor]) -> None:
        self._given = [*map(_own, given)]
        self._found = found = [torch.empty_like(one) for one in self.compute(*self._given)]

        def step() -> None:
            with torch.no_grad():
                torch._foreach_copy_(found, list(self.compute(*self._given)))

        try:
            self._graph = steps.record(step, found, None)
        except RuntimeError as error:
            self._graph, self._given, self._found = False, [], []
            steps.warn_unrecorded(self.name, error)


def _own(values: Tensor) -> Tensor:
    return values.detach().clone(memory_format=torch.contiguous_format)


class Replays:
    """The last computations that were asked for, by what they read besides what they are given."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Replayed] = {}

    def of(self, key: Hashable, name: str, compute: Callable[..., Sequence[Tensor]]) -> Replayed:
        """Return the computation of a key, which is kept, and with it the key."""
        replayed = self._kept.pop(key, None) or Replayed(name, compute)
        while len(self._kept) >= KEPT:  # their memory is free before more is taken
            del self._kept[next(iter(self._kept))]
        self._kept[key] = replayed
        return replayed
