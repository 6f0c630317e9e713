"""What processes tell each other, and the launcher, when one of them fails."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from graphcollab.errors import GraphcollabError
from graphcollab.files import own_name, write_new

__all__ = ["ProcessLostError", "lives", "read", "write_error_file", "written"]

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"  # what torchrun shows of a process that has ended


class ProcessLostError(RuntimeError):
    """Another process has ended in the middle of a run; the message names it and its nodes."""


def written(error: Exception) -> bytes:
    """Return an error as other processes read it."""
    kind, subject = type(error), [error.subject] if isinstance(error, GraphcollabError) else []
    return json.dumps([kind.__module__, kind.__qualname__, str(error), *subject]).encode()


def read(text: bytes) -> Exception:
    """Return another process's error: of its class where that is known here and takes a text, else a RuntimeError."""
    module, name, told, *subject = json.loads(text)
    kind: Any = functools.reduce(lambda at, one: getattr(at, one, None), name.split("."), sys.modules.get(module))
    if isinstance(kind, type) and issubclass(kind, Exception):
        with contextlib.suppress(Exception):
            made = kind(*subject, told)
            if str(made) == told:
                return made
    return RuntimeError(f"{name}: {told}")


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
