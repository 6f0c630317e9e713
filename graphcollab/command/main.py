"""The command as a function, for scripts such as a site's in a job."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

__all__ = ["main"]


def main(args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> Any:
    """Run a command; with ``standalone_mode=False`` it returns, and errors are raised.

    It is imported when it is called, as it reads a file that ``make generate`` writes by means of this package.
    """
    return importlib.import_module("graphcollab_command.main").main(args, prog_name, **extra)
