"""Bars that show progress, also on terminals that do not say how large they are."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

from tqdm import tqdm

__all__ = ["bar"]

COLUMNS, ROWS = 80, 24  # of a terminal that does not say


def bar(total: int, **settings: Any) -> Any:
    """Return a bar on standard error.

    Args:
        total: How many steps there are.
        settings: Of ``tqdm.tqdm``.
    """
    return tqdm(total=total, file=sys.stderr, **_size(sys.stderr), **settings)


def _size(file: TextIO) -> dict[str, int]:
    """Return what tqdm must be told of a terminal: nothing but where it has no width or height, and draws nothing."""
    try:
        size = os.get_terminal_size(file.fileno())
    except (AttributeError, OSError, ValueError):  # no terminal, or none of this machine
        return {}
    return {} if all(size) else {"ncols": (size.columns or COLUMNS) - 1, "nrows": size.lines or ROWS}
