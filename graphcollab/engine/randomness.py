"""Keyed random numbers for code that takes no generator: dropout, initial parameters, augmentations.

PyTorch's default generators are seeded while a block lasts, and get their state from before at its end. One thread at a
time is in such a block, so threads of this package do not draw from each other's streams.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar, Self, TypeAlias

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from graphcollab._base.errors import StateError
from graphcollab._base.keyed import keyed_seed

_LAYER_STREAM = 105
_SEEDED = threading.RLock()
NATIVE = torch.ops.aten.native_dropout.default  # dropout on a GPU
MASK = torch.ops.aten.bernoulli_.float  # the mask of dropout elsewhere

Stream: TypeAlias = list[Tensor]
"""States of the default generators: of the CPU's, and of the GPUs' if they are in use."""


def _generators() -> list[torch.Generator]:
    return [torch.default_generator, *(torch.cuda.default_generators if torch.cuda.is_initialized() else ())]


def global_state() -> Stream:
    """Return the state of the default generators, which every draw without a generator changes."""
    return [one.get_state() for one in _generators()]


def drawn_since(before: Stream) -> bool:
    """Return whether something has drawn since the default generators had this state."""
    return not all(map(torch.equal, before, global_state()))


def _continue(stream: Stream) -> None:
    for one, state in zip(_generators(), stream, strict=False):  # a GPU may have come into use since
        one.set_state(state)


@contextmanager
def own_randomness(seed: int) -> Iterator[None]:
    """Let all code draw as after ``torch.manual_seed(seed)``, and restore the default generators afterwards.

    Blocks can be nested. NumPy's and Python's generators are not affected. A GPU's generator is seeded if the GPU is in
    use. Do not enter a block while a CUDA graph is being recorded, which allows no seeding.
    """
    with _SEEDED:
        before = global_state()
        for one in _generators():
            one.manual_seed(seed)
        try:
            yield
        finally:
            _continue(before)


def keyed_layers(*keys: int) -> AbstractContextManager[None]:
    """Key randomness inside layers and losses by integers, including functions such as ``F.dropout``."""
    return own_randomness(keyed_seed(_LAYER_STREAM, *keys) % 2**63)


def keyed_stream(*keys: int) -> Stream:
    """Return the stream that starts in a block of `keyed_layers` with these keys."""
    with keyed_layers(*keys):
        return global_state()


class randomness_by_row(TorchDispatchMode):
    """While active, dropout of the samples of every row of a batch draws from the row's stream, as it would alone.

    Streams, one for each of ``rows``, continue from one use to the next. Masks must have the samples of all rows as
    first dimension, equally many of each. Other draws are not affected. To be used inside of `own_randomness`.
    """

    active: ClassVar[randomness_by_row | None] = None

    def __init__(self, streams: list[Stream], rows: Sequence[int], repeats: bool = False) -> None:
        super().__init__()
        self.streams, self.rows = streams, rows
        self._start = [*streams] if repeats else None  # where every use begins
        self._outer: randomness_by_row | None = None

    def __enter__(self) -> Self:
        self._outer, randomness_by_row.active = randomness_by_row.active, self
        self.streams = self.streams if self._start is None else [*self._start]
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        randomness_by_row.active = self._outer

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in (NATIVE, MASK) or kwargs.get("generator") is not None:
            return func(*args, **kwargs)
        values, *more = args
        if not values.dim() or len(values) % len(self.rows):
            return func(*args, **kwargs)
        found, before = [], global_state()
        for row, own in zip(self.rows, values.chunk(len(self.rows)), strict=True):
            _continue(self.streams[row])
            found.append(func(own, *more, **kwargs))
            self.streams[row] = global_state()
        _continue(before)
        return values if func is MASK else tuple(map(torch.cat, zip(*found, strict=True)))


def recomputed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function by ``torch.utils.checkpoint``, so that the backward pass recomputes its activations.

    The second pass repeats the draws of `randomness_by_row`, too, as a checkpoint does with those of the default
    generators. Under vmap, whose layers are never recomputed, it raises a RuntimeError.
    """
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise StateError(
            "backend", "activation checkpointing does not go with vmap, take backend 'shared' or 'loop', or none"
        )
    return checkpoint(function, *args, use_reentrant=False, context_fn=_passes, **kwargs)


def _passes() -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
    by_row = randomness_by_row.active
    if by_row is None:
        return nullcontext(), nullcontext()
    return nullcontext(), randomness_by_row(by_row.streams, by_row.rows, repeats=True)
