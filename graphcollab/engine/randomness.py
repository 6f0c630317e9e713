"""A generator of one's own for code that asks for none: dropout, initial parameters, augmentations.

Layers and losses draw from PyTorch's global generators, which all threads of a process share. While `own_randomness` is
active, whatever its thread draws comes from generators of its own, and the global ones are neither read nor changed.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

from graphcollab.keyed import keyed_seed

__all__ = ["Draws", "keyed_layers", "own_randomness", "randomness_by_row"]

_LAYER_STREAM = 105

T = TypeVar("T")

CHECKPOINTING = str(checkpoint.__file__)
SHARES = ("dropout_p", "dropout")  # what operations without a generator call the share of numbers that they drop


class own_randomness(TorchDispatchMode):
    """While active, what this thread draws comes from generators with this seed, one per device.

    A stream is that of the global generator after ``torch.manual_seed(seed)``, so results are those of seeding it: to
    the last bit on a CPU, on a GPU except for dropout, which is computed in another way there. Drawing with a generator
    that the caller gave is left alone, and so is the randomness of NumPy and Python. Every operation costs about
    8 µs more while it is active.

    Args:
        seed: Of all generators.

    Attributes:
        draws: How many times something was drawn.

    Raises:
        NotImplementedError: When something draws that takes no generator, or under activation checkpointing, which
            repeats draws by means of the global generator; `keyed_checkpoint` repeats them as they were.

    Example:
        >>> with own_randomness(5):
        ...     first = torch.rand(3)
        >>> bool((first == torch.rand(3, generator=torch.Generator().manual_seed(5))).all())
        True
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.draws = 0
        self.repeats = 0  # how many calls of `keyed_checkpoint` are under way
        self._generators: dict[torch.device, torch.Generator] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled while a mode is active: this spares every operation a microsecond

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Give operations that draw a generator, pass everything else on."""
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
        return self._draw(func, given, device)

    def _draw(self, func: OpOverload, given: dict[str, Any], device: torch.device) -> Any:
        generator = self._generator(device)
        if func is torch.ops.aten.native_dropout.default:
            return _native_dropout(given["input"], given["p"], [generator])
        twin = _with_generator(func)
        if twin is None:
            raise NotImplementedError(
                f"{func} on {generator.device} draws random numbers and takes no generator, so they cannot be "
                "repeated: compute it on a CPU, in another way (attention: torch.nn.attention.sdpa_kernel(MATH) inside "
                "the module), or without dropout"
            )
        return twin(**{**given, "generator": generator})

    def copy(self) -> own_randomness:
        """Return one that draws what this one would draw next, while this one stays where it is."""
        twin = own_randomness(self.seed)
        twin._generators = {device: generator.clone_state() for device, generator in self._generators.items()}
        return twin

    def _generator(self, device: torch.device) -> torch.Generator:
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self.seed)
        return self._generators[device]


class randomness_by_row(own_randomness):
    """While active, the samples of every row of a batch draw from the row's own generators, as they would alone.

    That is known of dropout: of masks whose first dimension counts the samples of all rows, as many of each.

    Args:
        streams: What the rows draw from, on from where they are.

    Raises:
        NotImplementedError: When something else draws.
    """

    def __init__(self, streams: Sequence[own_randomness]) -> None:
        super().__init__(0)
        self.streams = streams

    def copy(self) -> randomness_by_row:
        """Return one that draws what this one would draw next, while this one stays where it is."""
        return randomness_by_row([stream.copy() for stream in self.streams])

    def _draw(self, func: OpOverload, given: dict[str, Any], device: torch.device) -> Any:
        dropout = func is torch.ops.aten.native_dropout.default
        values, share = given.get("input" if dropout else "self"), given.get("p", 0.5)
        known = dropout or func is torch.ops.aten.bernoulli_.float
        if not known or not isinstance(values, Tensor) or not values.dim() or len(values) % len(self.streams):
            raise NotImplementedError(f"{func} draws random numbers that are not known to be of single samples")
        generators = [stream._generator(device) for stream in self.streams]
        return (_native_dropout if dropout else _draw_mask)(values, share, generators)


@functools.cache
def _may_draw(func: OpOverload) -> bool:
    """Tell whether an operation, in one of its forms, takes a generator or is marked as random."""
    seeded = torch.Tag.nondeterministic_seeded
    return any(seeded in form.tags or "generator" in _names(form) for form in _forms(func))


def _forms(func: OpOverload) -> list[OpOverload]:
    return [getattr(func.overloadpacket, name) for name in func.overloadpacket.overloads()]


@functools.cache
def _names(func: OpOverload) -> tuple[str, ...]:
    return tuple(argument.name for argument in func._schema.arguments)


@functools.cache
def _with_generator(func: OpOverload) -> OpOverload | None:
    """Return the form of an operation that takes a generator beside the same arguments, if there is one."""
    names = _names(func)
    if "generator" in names:
        return func
    return next((form for form in _forms(func) if {*_names(form)} == {*names, "generator"}), None)


@functools.cache
def _defaults(func: OpOverload) -> dict[str, Any]:
    return {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}


def _draws(given: dict[str, Any]) -> bool:
    """Tell whether an operation with these arguments draws: not outside training, and not to drop nothing."""
    if given.get("train", given.get("training", True)) is False:
        return False
    return all(given.get(name) != 0 for name in SHARES)


def _device(given: dict[str, Any]) -> torch.device:
    """Return where an operation computes: as it says, else where its first tensor is."""
    tensors = (value.device for value in given.values() if isinstance(value, Tensor))
    device = torch.device(given.get("device") or next(tensors, "cpu"))
    return torch.device("cuda", torch.cuda.current_device()) if str(device) == "cuda" else device


def _native_dropout(values: Tensor, share: float, generators: Sequence[torch.Generator]) -> tuple[Tensor, Tensor]:
    """Return what is kept, scaled, and the mask: the operation has no form with a generator."""
    mask = _draw_mask(torch.empty_like(values, dtype=torch.bool), 1 - share, generators)
    return values.mul(mask).mul_(0.0 if share == 1 else 1 / (1 - share)), mask


def _draw_mask(mask: Tensor, share: float, generators: Sequence[torch.Generator]) -> Tensor:
    """Fill a mask [n, ...] with ones, and zeros elsewhere, from one generator for every n / g samples."""
    for own, generator in zip(mask.chunk(len(generators)), generators, strict=True):
        own.bernoulli_(share, generator=generator)
    return mask


def _refuse_checkpointing(func: OpOverload) -> None:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_filename == CHECKPOINTING:
            raise NotImplementedError(
                f"{func} draws random numbers under torch.utils.checkpoint, which can repeat them from the global "
                "generator only: use graphcollab.engine.keyed_checkpoint "
                "for activation checkpointing, or draw outside of it"
            )


class Draws:
    """Whether computations draw random numbers: seen when each is made first, so that what never draws pays nothing.

    A computation is first made under `own_randomness`. If it drew nothing, it is made without from then on, and
    watched: should a global generator move meanwhile, it is made once more under `own_randomness`. If it was another
    thread that drew, it is no longer watched.

    Args:
        twice: Make a computation again without `own_randomness` where it drew nothing (compiled functions give other
            last bits, and are not used under it).
    """

    def __init__(self, twice: bool = False) -> None:
        self.twice = twice
        self.active = False
        self._count = 0
        self._watched: dict[Hashable, bool] = {}  # of those that drew nothing

    @contextmanager
    def keyed(self, randomness: own_randomness) -> Iterator[None]:
        """Draw from these generators, and count; for computations that may draw (``active``)."""
        with randomness:
            yield
        self._count += randomness.draws

    def settle(self, kind: Hashable, device: torch.device, compute: Callable[[], T]) -> T:
        """Return what a function of this kind computes on a device, which enters `keyed` and changes nothing else."""
        known = kind in self._watched
        if known:
            before = _global_state(device) if self._watched[kind] else None
            found = compute()
            if before is None or torch.equal(before, _global_state(device)):
                return found
        self.active, self._count = True, 0
        try:
            found = compute()
        finally:
            self.active = False
        if self._count:
            self._watched.pop(kind, None)
            return found
        self._watched[kind] = not known
        return compute() if self.twice else found


def _global_state(device: torch.device) -> Tensor:
    state = torch.get_rng_state()
    return torch.cat([state, torch.cuda.get_rng_state(device)]) if device.type == "cuda" else state


def keyed_layers(*keys: int) -> own_randomness:
    """Key randomness inside layers and losses by integers, also functions such as ``F.dropout``."""
    return own_randomness(keyed_seed(_LAYER_STREAM, *keys) % 2**63)
