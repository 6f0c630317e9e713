"""What processes send each other when one of them fails."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping
from typing import Any

from graphcollab.errors import GraphcollabError, LostError

PYTHON = (ValueError, TypeError, RuntimeError, ArithmeticError, AssertionError, ImportError, MemoryError, OSError)
"""Classes of Python that errors keep between processes, besides those of this package."""

PARTS = ("module", "name", "subject", "message")


class ProcessLostError(LostError):
    """Another process has ended in the middle of a run."""


def as_value(error: BaseException, message: str | None = None) -> dict[str, str]:
    """Return an error as other processes read it: module and name of its class, subject, message (default: its own).

    The class is the nearest base in this package or `PYTHON`, else RuntimeError; the message names it if another.
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
