"""What is computed alike in every round, on tensors that stay where they are: a GPU replays it as a CUDA graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

import graphcollab.engine.static_steps as steps

__all__ = ["Replayed"]

LARGEST = 2**26  # bytes that are given: a GPU works on more of them for longer than the launches take


class Replayed:
    """Tensors computed of tensors, which on a GPU is recorded the second time and replayed from then on.

    Args:
        name: What it is, for a warning where it cannot be recorded.
        compute: Computes it. All else that it reads stays where it is, it draws nothing and never waits for the card.
    """

    def __init__(self, name: str, compute: Callable[..., Sequence[Tensor]]) -> None:
        self.name, self.compute = name, compute
        self._given: list[Tensor] = []
        self._found: list[Tensor] | None = None
        self._graph: Any = None

    def __call__(self, *given: Tensor) -> Sequence[Tensor]:
        """Return what is computed of tensors of the same shapes as ever."""
        if given[0].device.type not in steps.REPLAYED or sum(one.nbytes for one in given) > LARGEST:
            return self.compute(*given)
        if self._found is None:
            found = self.compute(*given)
            self._found = [torch.empty_like(one) for one in found]
            return found
        if self._graph is None:
            self._record(given)
        if self._graph is False:
            return self.compute(*given)
        torch._foreach_copy_(self._given, given)
        self._graph.replay()
        return [one.clone() for one in self._found]

    def _record(self, given: Sequence[Tensor]) -> None:
        self._given = [one.detach().clone(memory_format=torch.contiguous_format) for one in given]
        found = self._found or []

        def step() -> None:
            with torch.no_grad():
                torch._foreach_copy_(found, list(self.compute(*self._given)))

        try:
            self._graph = steps.record(step, found, None)
        except RuntimeError as error:
            self._graph = False
            warnings.warn(
                f"{self.name} cannot be recorded as a CUDA graph ({str(error).splitlines()[0][:160]}): its operations "
                "are launched one by one",
                RuntimeWarning,
                stacklevel=2,
            )
