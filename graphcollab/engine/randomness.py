"""Separate generators for code that does not accept one: dropout, initial parameters, augmentations.

Layers and losses draw from PyTorch's global generators, which all threads of a process share. While `own_randomness` is
active, all draws of its thread use separate generators, and the global ones are neither read nor changed.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

from graphcollab._base.errors import UnsupportedError
from graphcollab._base.keyed import keyed_seed

_LAYER_STREAM = 105

CHECKPOINTING = str(checkpoint.__file__)
SHARES = ("dropout_p", "dropout")  # argument names of the dropout probability in operations without a generator


LIKE: dict[str, Callable[..., Tensor]] = {
    "rand_like": Tensor.uniform_,
    "randn_like": Tensor.normal_,
    "randint_like": Tensor.random_,
}
"""Operations that accept no generator in older versions of PyTorch, such as 2.8, and how they fill a new tensor."""


class _Thread(threading.local):
    active: own_randomness | None = None


_thread = _Thread()


class own_randomness(TorchDispatchMode):
    """While active, draws of this thread use separate generators with this seed, one per device.

    A stream equals that after ``torch.manual_seed(seed)``: bit for bit on a CPU, on a GPU except for dropout.
    Generators of the caller, NumPy and Python are not affected. Every operation costs about 8 µs more. With
    ``layers_only``, set before entering, only draws in `in_layer` are keyed, and everything else has no overhead;
    ``draws`` counts all draws, ``elsewhere`` those outside `in_layer`. Operations that accept no generator are
    rejected, and so is activation checkpointing, which repeats draws of the global one (see `keyed_checkpoint`).
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.draws = 0
        self.elsewhere = 0
        self.layers_only = False
        self.repeats = 0  # number of active calls of `keyed_checkpoint`
        self._layers = 0  # number of active layers that are known to draw
        self._generators: dict[torch.device, torch.Generator] = {}
        self._outer: list[own_randomness | None] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled while a mode is active: this saves a microsecond per operation

    def __enter__(self) -> own_randomness:
        self._outer.append(_thread.active)
        if not self.layers_only:
            super().__enter__()
        _thread.active = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _thread.active = self._outer.pop()
        if not self.layers_only:
            super().__exit__(kind, error, trace)

    @contextmanager
    def in_layer(self) -> Iterator[None]:
        """Compute a layer that is known to draw, while this is active."""
        self._layers += 1
        if self.layers_only:
            super().__enter__()
        try:
            yield
        finally:
            self._layers -= 1
            if self.layers_only:
                super().__exit__(None, None, None)

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not _may_draw(func):
            return func(*args, **kwargs)
        given = {**dict(zip(_names(func), args, strict=False)), **kwargs}
        device = _device(given)
        if given.get("generator") is not None or device.type == "meta" or not _draws({**_defaults(func), **given}):
            return func(*args, **kwargs)
        if not self.repeats:
            _refuse_checkpointing(func)
        self.draws += 1
        self.elsewhere += not self._layers
        return self._draw(func, given, device)

    def _draw(self, func: OpOverload, given: dict[str, Any], device: torch.device) -> Any:
        generator = self._generator(device)
        if func is torch.ops.aten.native_dropout.default:
            return _native_dropout(given["input"], given["p"], [generator])
        twin = _with_generator(func)
        if twin is None and func.overloadpacket.__name__ in LIKE:
            return _filled(func, given, generator)
        if twin is None:
            raise UnsupportedError(
                f"operation {func}",
                f"{func} on {generator.device} draws random numbers and takes no generator, so they cannot be "
                "repeated: compute it on a CPU, in another way (attention: torch.nn.attention.sdpa_kernel(MATH) inside "
                "the module), or without dropout",
            )
        return twin(**{**given, "generator": generator})

    def copy(self) -> own_randomness:
        """Return a copy that draws the same numbers that this one would draw next."""
        twin = own_randomness(self.seed)
        twin.layers_only = self.layers_only
        twin._generators = {device: generator.clone_state() for device, generator in self._generators.items()}
        return twin

    def _generator(self, device: torch.device) -> torch.Generator:
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self.seed)
        return self._generators[device]


class randomness_by_row(own_randomness):
    """While active, the samples of every row of a batch draw from the row's own streams, as they would alone.

    Only dropout is supported: masks whose first dimension is the samples of all rows, equally many of each.
    """

    def __init__(self, streams: Sequence[own_randomness]) -> None:
        super().__init__(0)
        self.streams = streams

    def copy(self) -> randomness_by_row:
        twin = randomness_by_row([stream.copy() for stream in self.streams])
        twin.layers_only = self.layers_only
        return twin

    def _draw(self, func: OpOverload, given: dict[str, Any], device: torch.device) -> Any:
        dropout = func is torch.ops.aten.native_dropout.default
        values, share = given.get("input" if dropout else "self"), given.get("p", 0.5)
        known = dropout or func is torch.ops.aten.bernoulli_.float
        if not known or not isinstance(values, Tensor) or not values.dim() or len(values) % len(self.streams):
            raise UnsupportedError(
                f"operation {func}", f"{func} draws random numbers that are not known to be of single samples"
            )
        generators = [stream._generator(device) for stream in self.streams]
        return (_native_dropout if dropout else _draw_mask)(values, share, generators)


def _filled(func: OpOverload, given: dict[str, Any], generator: torch.Generator) -> Tensor:
    name, form = func.overloadpacket.__name__, ("dtype", "layout", "device", "pin_memory", "memory_format")
    made = torch.empty_like(given["self"], **{one: given[one] for one in form if given.get(one) is not None})
    bounds = (given.get("low", 0), given["high"]) if "high" in given else ()
    return LIKE[name](made, *bounds, generator=generator)


@functools.cache
def _may_draw(func: OpOverload) -> bool:
    seeded = torch.Tag.nondeterministic_seeded
    return any(seeded in form.tags or "generator" in _names(form) for form in _forms(func))


def _forms(func: OpOverload) -> list[OpOverload]:
    return [getattr(func.overloadpacket, name) for name in func.overloadpacket.overloads()]


@functools.cache
def _names(func: OpOverload) -> tuple[str, ...]:
    return tuple(argument.name for argument in func._schema.arguments)


@functools.cache
def _with_generator(func: OpOverload) -> OpOverload | None:
    names = _names(func)
    if "generator" in names:
        return func
    return next((form for form in _forms(func) if {*_names(form)} == {*names, "generator"}), None)


@functools.cache
def _defaults(func: OpOverload) -> dict[str, Any]:
    return {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}


def _draws(given: dict[str, Any]) -> bool:
    """Return whether an operation with these arguments draws: not outside training, nor with probability 0."""
    if given.get("train", given.get("training", True)) is False:
        return False
    return all(given.get(name) != 0 for name in SHARES)


def _device(given: dict[str, Any]) -> torch.device:
    tensors = (value.device for value in given.values() if isinstance(value, Tensor))
    device = torch.device(given.get("device") or next(tensors, "cpu"))
    return torch.device("cuda", torch.cuda.current_device()) if str(device) == "cuda" else device


def _native_dropout(values: Tensor, share: float, generators: Sequence[torch.Generator]) -> tuple[Tensor, Tensor]:
    """Return the scaled values and the mask of dropout: the operation has no form with a generator."""
    mask = _draw_mask(torch.empty_like(values, dtype=torch.bool), 1 - share, generators)
    return values.mul(mask).mul_(0.0 if share == 1 else 1 / (1 - share)), mask


def _draw_mask(mask: Tensor, share: float, generators: Sequence[torch.Generator]) -> Tensor:
    """Fill a mask [n, ...] with ones and zeros, from one generator for every n / g samples."""
    for own, generator in zip(mask.chunk(len(generators)), generators, strict=True):
        own.bernoulli_(share, generator=generator)
    return mask


def _refuse_checkpointing(func: OpOverload) -> None:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_filename == CHECKPOINTING:
            raise UnsupportedError(
                f"operation {func}",
                f"{func} draws random numbers under torch.utils.checkpoint, which can repeat them from the global "
                "generator only: use graphcollab.engine.keyed_checkpoint "
                "for activation checkpointing, or draw outside of it",
            )


def randomness_at_work() -> own_randomness | None:
    """Return the generators of this thread, None if these are the global ones."""
    return _thread.active


def keyed_layers(*keys: int) -> own_randomness:
    """Key randomness inside layers and losses by integers, including functions such as ``F.dropout``."""
    return own_randomness(keyed_seed(_LAYER_STREAM, *keys) % 2**63)
