"""Detection of whether and where computations draw random numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from graphcollab.engine.randomness import own_randomness, randomness_at_work

T = TypeVar("T")

Where: TypeAlias = Literal["nowhere", "layers", "anywhere"]
"""Where a computation draws: nowhere, only in layers known to draw, or anywhere."""


_READING = threading.Lock()
"""Prevents a deadlock in PyTorch, which holds the generator's lock while it creates the tensor of a state. Garbage
collection may then switch to another thread, which waits for the generator while it holds the interpreter's lock."""


class Draws:
    """Detection of where computations draw random numbers, on their first run, so that later runs have no overhead.

    The first run is under `own_randomness`, later ones only if something drew: nowhere, or in dropout layers, which are
    modified to report when they run. If a global generator changes meanwhile, the computation is repeated under
    `own_randomness`, and always uses it from then on if something drew elsewhere or, in doubt, if another thread did.
    """

    def __init__(self, module: nn.Module | None = None) -> None:
        for layer in () if module is None else module.modules():
            if isinstance(layer, _DropoutNd) and "forward" not in vars(layer):
                layer.forward = partial(_in_layer, layer.forward)
        self.active = False
        self._layers_only = False
        self._count = self._elsewhere = 0
        self._where: dict[Hashable, Where] = {}
        self._unwatched: set[Hashable] = set()

    @contextmanager
    def keyed(self, randomness: own_randomness) -> Iterator[None]:
        """Draw from these generators, and count draws; for computations that may draw (``active``)."""
        randomness.layers_only = self._layers_only
        with randomness:
            yield
        self._count += randomness.draws
        self._elsewhere += randomness.elsewhere

    def settle(self, kind: Hashable, device: torch.device, compute: Callable[[], T]) -> T:
        """Return the result of a computation of this kind on a device; it enters `keyed` and has no side effects."""
        known = self._where.get(kind, "anywhere")
        if known != "anywhere":
            before = None if kind in self._unwatched else _global_state(device)
            found = self._made(known, compute)
            if before is None or torch.equal(before, _global_state(device)):
                return found
        found = self._made("anywhere", compute)
        self._where[kind] = self._seen(known)
        if self._where[kind] == known == "nowhere":
            self._unwatched.add(kind)
        return found

    def _made(self, where: Where, compute: Callable[[], T]) -> T:
        self.active, self._layers_only = where != "nowhere", where == "layers"
        self._count = self._elsewhere = 0
        try:
            return compute()
        finally:
            self.active = False

    def _seen(self, before: Where) -> Where:
        """Return where the previous computation drew, conservatively if this differs from the expectation."""
        if not self._count:
            return "nowhere"
        return "anywhere" if self._elsewhere or before == "layers" else "layers"


def _in_layer(forward: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
    randomness = randomness_at_work()
    if randomness is None:
        return forward(*inputs, **named)
    with randomness.in_layer():
        return forward(*inputs, **named)


def _global_state(device: torch.device) -> Tensor:
    with _READING:
        state = torch.get_rng_state()
    return torch.cat([state, torch.cuda.get_rng_state(device)]) if device.type == "cuda" else state
