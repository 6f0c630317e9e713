"""Checks of settings that many parts share, and silence where they are only tried."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["check_whole", "without_warnings"]

_FILTERS = threading.RLock()


def check_whole(minimum: int = 1, optional: bool = False, **settings: object) -> None:
    """Check that settings are whole numbers that are not too small.

    Args:
        minimum: The smallest that is allowed.
        optional: Whether None, for a setting that is not given, is allowed too.
        settings: Values by name.

    Raises:
        ValueError: If one is something else; it is named.

    Example:
        >>> check_whole(steps=2.5)
        Traceback (most recent call last):
        ValueError: steps must be a whole number of at least 1, got 2.5
    """
    for name, value in settings.items():
        if optional and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise ValueError(f"{name} must be a whole number of at least {minimum}, got {value!r}")


@contextmanager
def without_warnings(message: str = "") -> Iterator[None]:
    """Say nothing of warnings that begin with a message; by default of none.

    Python's filters belong to the process, and two threads that change and restore them in turns would leave the wrong
    ones behind: one thread at a time is in here.
    """
    with _FILTERS, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=message)
        yield
