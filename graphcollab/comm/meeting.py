"""`Meeting`: the calls that all verbs of a multi-process run are built from, and the errors that travel in them."""

from __future__ import annotations

import builtins
import json
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from graphcollab._base.errors import GraphcollabError, LostError, StateError

PYTHON = (ValueError, TypeError, RuntimeError, ArithmeticError, AssertionError, ImportError, MemoryError, OSError)
"""Python's classes that errors keep between processes, besides those of this package."""

PARTS = ("module", "name", "subject", "message")


class ProcessLostError(LostError):
    """Another process has ended in the middle of a run."""


def as_value(error: BaseException, message: str | None = None) -> dict[str, str]:
    """Return an error as a value: module and name of its class, subject, and message (default: its own)."""
    kind = next((kind for kind in type(error).__mro__ if _is_shared(kind)), RuntimeError)
    if message is None:
        message = str(error) if kind is type(error) else f"{type(error).__name__}: {error}"
    subject = error.subject if isinstance(error, GraphcollabError) else ""
    return dict(zip(PARTS, (kind.__module__, kind.__name__, subject, message), strict=True))


def from_value(value: Mapping[str, str]) -> Exception:
    """Return the error of `as_value`; nothing is imported for it, and an unknown class becomes a RuntimeError."""
    module, name, message = sys.modules.get(value["module"]), value["name"], value["message"]
    known: dict[str, Any] = {kind.__name__: kind for kind in PYTHON} if module is builtins else vars(module or object)
    if (kind := known.get(name)) is None or not _is_shared(kind):
        return RuntimeError(f"{name}: {message}")
    if not issubclass(kind, GraphcollabError):
        return kind(message)
    error: Any = (kind if issubclass(kind, OSError) else Exception).__new__(kind)
    GraphcollabError.__init__(error, value["subject"], message)  # the class may have other arguments
    return error


def _is_shared(kind: object) -> bool:
    if not isinstance(kind, type) or not issubclass(kind, GraphcollabError):
        return kind in PYTHON
    return kind.__module__.partition(".")[0] == "graphcollab"


T = TypeVar("T")

PATIENCE = 1.0  # seconds in which torchrun detects the process that has ended first, and names it
VERBS = ("status", "all_gather_object", "gather", "swap", "all_reduce")


class Meeting:
    """The processes of a launch, which exchange plain values and errors.

    Every verb begins with a header from each process: the verb, the length of what follows, and whether the process has
    failed. If one has, all raise its error, so no process waits in vain. ``bytes_moved`` counts the bytes received so
    far.
    """

    def __init__(self) -> None:
        self.process, self.size = dist.get_rank(), dist.get_world_size()
        self.bytes_moved = 0
        self._told: Exception | None = None

    def who(self, process: int) -> str:
        """Return the name of a process."""
        return f"process {process}"

    def status(self, error: Exception | None = None) -> None:
        """Announce that this process continues, or the error in it, unless all know it already."""
        if isinstance(error, ProcessLostError) or (error is not None and error is self._told):
            return
        try:
            self._meet("status", error=error)
        except Exception as told:
            if told is not error:
                raise

    def all_gather_object(self, value: Any) -> list[Any]:
        """Return the plain values of all processes."""
        text = json.dumps(value).encode()
        sizes = self._meet("all_gather_object", len(text))
        shared = self._share(torch.frombuffer(bytearray(text), dtype=torch.uint8), sizes)
        return [json.loads(bytes(one.tolist())) for one in shared]

    def _meet(self, verb: str, length: int = 0, what: str = "", error: Exception | None = None) -> list[int]:
        """Announce the verb that this process begins, and what it sends; return the lengths of all processes."""
        text = b"" if error is None else json.dumps(as_value(error)).encode()
        word = torch.tensor([VERBS.index(verb), length, len(text), zlib.crc32(what.encode())])
        words = [torch.empty_like(word) for _ in range(self.size)]
        self._call(lambda: dist.all_gather(words, word))
        every = torch.stack(words)
        if bool(every[:, 2].any()):
            sizes = every[:, 2].tolist()
            texts = self._share(torch.tensor([*text], dtype=torch.uint8), sizes)
            first = next(p for p, size in enumerate(sizes) if size)
            own = first == self.process and error is not None
            self._told = told = (
                error if own and error is not None else from_value(json.loads(bytes(texts[first].tolist())))
            )
            if not own:
                told.add_note(f"It was raised in {self.who(first)}.")
            raise told
        if len({(verb, kind) for verb, _, _, kind in every.tolist()}) > 1:
            about = f"{verb} of {what} in {self.who(self.process)}"
            raise StateError("processes", f"processes have met in different verbs, or with different values: {about}")
        return cast("list[int]", every[:, 1].tolist())

    def _share(self, values: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        """Return the bytes [n] of all processes, given their numbers."""
        most = max(sizes)
        if not most:
            return [values] * self.size
        padded = values.new_zeros(most)
        padded[: len(values)] = values
        found = [torch.empty_like(padded) for _ in sizes]
        self._call(lambda: dist.all_gather(found, padded))
        self.bytes_moved += sum(sizes) - sizes[self.process]
        return [one[:size] for one, size in zip(found, sizes, strict=True)]

    def _call(self, send: Callable[[], T]) -> T:
        """Turn an error of a `torch.distributed` call into one of this package; torchrun names the process."""
        try:
            return send()
        except RuntimeError as error:
            time.sleep(PATIENCE)
            about = str(error).splitlines()[0]
            raise ProcessLostError(
                "processes", f"another process has ended ({about}): its launcher says which"
            ) from error
