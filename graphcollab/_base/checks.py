"""Warnings attributed to the caller, per-thread warning filters, and silenced loggers."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from graphcollab._base.errors import GraphcollabWarning
from graphcollab._base.ranges import printable

_FILTERS = threading.Lock()
_BY_CODE = threading.local()  # per thread: filters of the package's own warnings, the innermost last
_INSIDE = (str(Path(__file__).parents[1]), contextlib.__file__)  # the package, and the decorators of its functions


def issue(code: str, subject: str, message: str) -> None:
    """Issue a warning attributed to the first caller outside of this package, at any call depth.

    ``code`` is that of a `GraphcollabWarning`; ``subject`` is an argument or an element such as ``"node 'b'"``.
    """
    warning = GraphcollabWarning(code, subject, printable(message))
    for action, known, about in reversed(getattr(_BY_CODE, "filters", [])):
        if known == code and about in ("", subject, subject.partition(" ")[0]):
            if action == "error":
                raise warning
            return
    issue_again(warning)


def issue_again(warning: Warning) -> None:
    """Reissue a warning unchanged, such as one from another process, attributed to the first caller outside."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


class _OfThread(type):
    """Metaclass of a warning category that matches every warning issued by one thread; None: no warning."""

    thread: int | None

    def __subclasscheck__(cls, category: type) -> bool:
        return cls.thread == threading.get_ident()


@contextlib.contextmanager
def own_filter(
    action: Literal["ignore", "error"], message: str = "", *, code: str = "", subject: str = ""
) -> Iterator[None]:
    """Filter the warnings of this thread, by default all of them; ``"error"`` raises them.

    ``message``, a regular expression matched at the beginning, selects warnings of other libraries. ``code`` selects
    the package's own warnings with that code: those of one subject or kind of element (``"metric"``), or all.
    """
    with _by_code(action, code, subject) if code else _by_message(action, message):
        yield


@contextlib.contextmanager
def _by_code(action: str, code: str, subject: str) -> Iterator[None]:
    before = getattr(_BY_CODE, "filters", [])
    _BY_CODE.filters = [*before, (action, code, subject)]
    try:
        yield
    finally:
        _BY_CODE.filters = before


@contextlib.contextmanager
def _by_message(action: Literal["ignore", "error"], message: str) -> Iterator[None]:
    """Add one filter to Python's process-wide filters that matches only warnings issued by this thread.

    Only this filter is added and removed: ``warnings.catch_warnings`` in two threads would leave the wrong filters.
    """
    own: Any = _OfThread("own", (Warning,), {"thread": threading.get_ident()})
    with _FILTERS:
        warnings.filterwarnings(action, message=message, category=own)
    try:
        yield
    finally:
        own.thread = None  # disables copies of the filters kept elsewhere
        with _FILTERS:
            warnings.filters = [entry for entry in warnings.filters if entry[2] is not own]


@contextlib.contextmanager
def unlogged(log: logging.Logger) -> Iterator[None]:
    """Silence a logger of this process."""
    log.addFilter(nothing := lambda record: False)
    try:
        yield
    finally:
        log.removeFilter(nothing)
