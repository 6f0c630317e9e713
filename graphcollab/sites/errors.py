"""What can go wrong between sites, and what other sites are told of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import CodeType
from typing import Any

from graphcollab.distributed import ProcessLostError
from graphcollab.engine import NonFiniteLossError
from graphcollab.settings import SettingError
from graphcollab.tasks import TellableError

__all__ = ["LeftBehind", "RoundLost", "SiteLostError", "in_words", "is_told", "told_error"]

PACKAGE = Path(__file__).parents[1]
TOLD: Mapping[str, frozenset[str]] = {
    "control/allowed.py": frozenset(),
    "sites/connection.py": frozenset(),
    "sites/delivery.py": frozenset(),
    "sites/fetch.py": frozenset(),
    "sites/frame.py": frozenset(),
    "sites/gathering.py": frozenset(),
    "sites/refused.py": frozenset({"refuse"}),
    "sites/site.py": frozenset(),
    "sites/transport.py": frozenset(),
    "tasks/_agreed.py": frozenset(
        {"column_kinds", "require_agreed", "require_done", "_require_columns", "_require_same_settings"}
    ),
    "train/identity.py": frozenset({"require_alike", "require_one_state"}),
    "train/missed.py": frozenset(),
    "train/run.py": frozenset({"_refuse_between_parties"}),
}
"""Files of this package, and functions in them (none: all), whose errors quote nothing but what all sites are told."""


class SiteLostError(ProcessLostError):
    """A site is gone, and the run cannot go on without it; the message names it."""


class RoundLost(BaseException):
    """Somebody was lost, or has come back: the round at hand is played again. No error: for the loop over rounds only.

    Args:
        told: What the coordinator says of the new epoch.
    """

    def __init__(self, told: Mapping[str, Any]) -> None:
        super().__init__("the round is played again")
        self.told = told


class LeftBehind(RoundLost):
    """This site itself was left behind."""


MACHINE = (OSError, MemoryError)
ERRORS = {
    kind.__name__: kind for kind in (SiteLostError, NonFiniteLossError, ValueError, TypeError, RuntimeError, *MACHINE)
}
"""Errors that are raised again as what they are at other sites; others come as a RuntimeError that names them."""


def in_words(error: BaseException) -> str:
    """Return what other sites may read of an error: words that quote nothing but what all are told; else nothing.

    What somebody gave may be a sample, also where a setting was meant, and is quoted nowhere but at the site. So of a
    `SettingError` only the setting's name is told. The words of other errors are told if they stand as they are in the
    code of this package, or come from where it compares what sites have told each other. Of an error that was raised
    from a `TellableError`, the words of that one are told; of a disk or a line that fails, those of the operating
    system, without the name of a file. A model, a metric, a callback, or PyTorch may say anything.

    Args:
        error: The error.
    """
    if isinstance(error, SiteLostError | NonFiniteLossError | TellableError):
        return str(error)
    if isinstance(error.__cause__, TellableError):
        return str(error.__cause__)
    if isinstance(error, OSError):
        said = os.strerror(error.errno) if isinstance(error.errno, int) else ""
        return said if error.strerror == said else ""
    code = _raised_by(error)
    if code is None or not Path(code.co_filename).is_relative_to(PACKAGE):
        return ""
    if isinstance(error, SettingError):
        return (
            f"{error.subject}= is not what it must be; what was given stays there"
            if error.subject.isidentifier()
            else ""
        )
    functions = TOLD.get(Path(code.co_filename).relative_to(PACKAGE).as_posix())
    told = functions is not None and (not functions or code.co_name in functions)
    return str(error) if told or str(error) in code.co_consts else ""


def _raised_by(error: BaseException) -> CodeType | None:
    """Return the code that has raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else trace.tb_frame.f_code


def is_told(error: BaseException) -> bool:
    """Tell whether an error was raised because of one at another site (`told_error`)."""
    return getattr(error, "told_here", False)


def told_error(site: str, kind: str, why: str) -> Exception:
    """Return the error that is raised here because of one at another site.

    Args:
        site: Where it was raised; empty for an error of the coordinator.
        kind: Its class.
        why: Its words, empty where they stay there.
    """
    made = ERRORS.get(kind, RuntimeError)
    if not why:
        told = f"{site} has failed with a {kind}; what it says may quote a sample, and stays there"
        error: Exception = made(told) if made in MACHINE else RuntimeError(told)
    else:
        told = why if kind in ERRORS else f"{site} has failed with a {kind}: {why}" if site else f"{kind}: {why}"
        subject = f"site {site!r}"
        error = made(subject, told) if made is NonFiniteLossError else made(told)
    error.told_here = True  # type: ignore[attr-defined]
    if site and why:
        error.add_note(f"It was raised at {site}.")
    return error
