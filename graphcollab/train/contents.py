"""What an object holds, whatever its class, and what is known of classes by their library's version."""

from __future__ import annotations

import copyreg
import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["array", "fields", "is_running", "known", "root", "standard", "state"]

LIBRARIES = frozenset({"numpy", "torch", "torch_geometric"})  # their versions say what their code does
RUNNING = frozenset(  # what their objects hold is of the program that runs, and another time something else
    {"_contextvars", "_io", "_random", "_thread", "_weakref", "asyncio", "concurrent", "contextvars", "io", "logging"}
    | {"multiprocessing", "os", "queue", "random", "selectors", "socket", "subprocess", "tempfile", "threading"}
    | {"weakref"}
)


def fields(value: object) -> dict[str, Any]:
    """Return an object's attributes, those in slots included."""
    found: dict[str, Any] = {}
    for one in type(value).__mro__:
        if "__slots__" not in vars(one):  # what classes written in C have there may be places in memory
            continue
        for name, entry in vars(one).items():
            if isinstance(entry, types.MemberDescriptorType):
                with suppress(Exception):  # not filled yet
                    found[name] = entry.__get__(value)
    with suppress(Exception):
        found |= object.__getattribute__(value, "__dict__")
    return {str(name): item for name, item in found.items()}


def state(value: object) -> list[Any]:
    """Return what an object holds that no attribute shows, such as a ``Decimal`` or ``deque``, as pickling it would.

    Only methods of the standard library are asked. What cannot be pickled has no such state.
    """
    kind = type(value)
    try:
        found = _reduce(value, kind)
        if not isinstance(found, tuple):
            return [found]
        return [*found[1:3], *(list(one) for one in found[3:5] if one is not None)]
    except Exception:
        return []


def array(value: Tensor | np.ndarray | np.generic) -> str:
    """Return the shape, number type and checksum of an array."""
    if isinstance(value, np.ndarray | np.generic):
        held = np.asarray(value)
        try:
            value = torch.as_tensor(held)
        except (TypeError, ValueError):  # texts, dates and the like
            return f"{list(held.shape)} {held.dtype} {_digest(np.ascontiguousarray(held).tobytes())}"
    tensor = value.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_sparse_coo().coalesce()
        return f"{list(tensor.shape)} sparse {array(tensor.indices())} {array(tensor.values())}"
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    content = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return f"{list(tensor.shape)} {tensor.dtype} {_digest(content)}"


def root(value: object) -> str:
    """Return the package that a function or class says it is of."""
    module = getattr(value, "__module__", None)
    return module.partition(".")[0] if isinstance(module, str) else ""


def known(value: object) -> bool:
    """Tell whether a function or class is of a library whose version says what it does."""
    return root(value) in LIBRARIES or standard(root(value))


def is_running(kind: type) -> bool:
    """Tell whether what objects of a class hold changes as a program runs."""
    return root(kind) in RUNNING and standard(root(kind))


@functools.cache
def standard(name: str) -> bool:
    """Tell whether a module is of the standard library, and not a file of the user's that has its name."""
    if name != "builtins" and name not in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or any(Path(file).is_relative_to(sysconfig.get_path(one)) for one in ("stdlib", "platstdlib"))


def _reduce(value: Any, kind: type) -> Any:
    """Return what pickling asks of an object of the standard library, or of a class that inherits from one of its."""
    if isinstance(value, Iterator):  # reading on would change it
        return ()
    if standard(root(kind)) and kind in copyreg.dispatch_table:
        return copyreg.dispatch_table[kind](value)
    for name, given in (("__reduce_ex__", (4,)), ("__reduce__", ())):
        owner = next(one for one in kind.__mro__ if name in vars(one))
        if owner is not object and standard(root(owner)) and not is_running(owner):
            return vars(owner)[name](value, *given)
    return ()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
