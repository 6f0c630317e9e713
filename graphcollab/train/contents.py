"""What an object holds, whatever its class, and what is known of classes by their library's version."""

from __future__ import annotations

import copyreg
import functools
import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["attributes", "checksum", "is_running", "known", "root", "standard", "state"]

LIBRARIES = frozenset({"numpy", "torch", "torch_geometric"})  # their versions say what their code does
RUNNING = frozenset(  # what their objects hold is of the program that runs, and another time something else
    {"_contextvars", "_io", "_random", "_thread", "_weakref", "asyncio", "concurrent", "contextvars", "io", "logging"}
    | {"multiprocessing", "os", "queue", "random", "selectors", "socket", "subprocess", "tempfile", "threading"}
    | {"weakref"}
)


def checksum(value: Tensor | np.ndarray | np.generic) -> str:
    """Return the shape, number type and checksum of an array.

    Example:
        >>> checksum(torch.zeros(2)) == checksum(torch.zeros(2)), checksum(torch.zeros(2)) == checksum(torch.ones(2))
        (True, False)
    """
    if isinstance(value, np.ndarray | np.generic):
        held = np.asarray(value)
        try:
            value = torch.as_tensor(held)
        except (TypeError, ValueError):  # texts, dates and the like
            return f"{list(held.shape)} {held.dtype} {_digest(np.ascontiguousarray(held).tobytes())}"
    tensor = value.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_sparse_coo().coalesce()
        return f"{list(tensor.shape)} sparse {checksum(tensor.indices())} {checksum(tensor.values())}"
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    content = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b""
    return f"{list(tensor.shape)} {tensor.dtype} {_digest(content)}"


def attributes(value: object) -> dict[str, Any]:
    """Return an object's attributes, those in slots included."""
    with suppress(Exception):
        found: Any = object.__getstate__(value)
        own, slots = found if isinstance(found, tuple) else (found, None)
        return {str(name): item for name, item in {**(slots or {}), **(own or {})}.items()}
    return {}


def state(value: object) -> list[Any]:
    """Return what an object holds that no attribute shows, such as a ``Decimal`` or ``deque``, as pickling it would.

    Only methods of the standard library are asked. What cannot be pickled has no such state.
    """
    kind = type(value)
    found: Any = ()
    with suppress(Exception):
        if isinstance(value, Iterator):  # reading on would change it
            return []
        if standard(root(kind)) and kind in copyreg.dispatch_table:
            found = copyreg.dispatch_table[kind](value)
        for name, given in (("__reduce_ex__", (4,)), ("__reduce__", ())):
            owner = next(one for one in kind.__mro__ if name in vars(one))
            if not found and owner is not object and standard(root(owner)) and not is_running(owner):
                found = vars(owner)[name](value, *given)
        if isinstance(found, tuple):
            return [*found[1:3], *(list(one) for one in found[3:5] if one is not None)]
        return [found]
    return []


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


def _digest(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
