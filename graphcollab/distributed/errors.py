"""What processes tell each other, and the launcher, when one of them fails."""

from __future__ import annotations

import builtins
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphcollab.errors import GraphcollabError, LostError
from graphcollab.files import own_name, write_new

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"  # what torchrun shows of a process that has ended


PYTHON = (ValueError, TypeError, RuntimeError, ArithmeticError, AssertionError, ImportError, MemoryError, OSError)
"""Classes of Python that errors keep between processes, besides those of this package."""

PARTS = ("module", "name", "subject", "message")


class ProcessLostError(LostError):
    """Another process has ended in the middle of a run; the message names it and its nodes."""


def as_value(error: BaseException, message: str | None = None) -> dict[str, str]:
    """Return an error as other processes read it: module and name of its class, subject and message.

    The class is the nearest base that every process has: of this package, or in `PYTHON`; else RuntimeError. A message
    names the class where that is another one.

    Args:
        error: The error.
        message: Default: that of the error.
    """
    kind = next((kind for kind in type(error).__mro__ if _is_shared(kind)), RuntimeError)
    if message is None:
        message = str(error) if kind is type(error) else f"{type(error).__name__}: {error}"
    subject = error.subject if isinstance(error, GraphcollabError) else ""
    return dict(zip(PARTS, (kind.__module__, kind.__name__, subject, message), strict=True))


def from_value(value: Mapping[str, str]) -> Exception:
    """Return the error of `as_value`; nothing is imported for it, and a class that is not here is a RuntimeError."""
    module, name, message = sys.modules.get(value["module"]), value["name"], value["message"]
    known: dict[str, Any] = {kind.__name__: kind for kind in PYTHON} if module is builtins else vars(module or object)
    if (kind := known.get(name)) is None or not _is_shared(kind):
        return RuntimeError(f"{name}: {message}")
    if not issubclass(kind, GraphcollabError):
        return kind(message)
    error: Any = (kind if issubclass(kind, OSError) else Exception).__new__(kind)
    GraphcollabError.__init__(error, value["subject"], message)  # the class may have arguments of its own
    return error


def _is_shared(kind: object) -> bool:
    if not isinstance(kind, type) or not issubclass(kind, GraphcollabError):
        return kind in PYTHON
    return kind.__module__.partition(".")[0] == "graphcollab"


def lives(pid: int) -> bool:
    """Tell whether a process of this machine is still at work; one that has ended may wait to be taken note of."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def write_error_file(text: str) -> None:
    """Say what torchrun is to show of this process where it ends by a signal; torchrun may read it at this moment."""
    if path := os.environ.get(ERROR_FILE):
        extra = {"py_callstack": text, "timestamp": str(int(time.time()))}
        write_new(part := own_name(Path(path)), json.dumps({"message": {"message": text, "extraInfo": extra}}).encode())
        os.replace(part, path)
