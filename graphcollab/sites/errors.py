"""What can go wrong between sites, and what other sites are told of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphcollab.engine import NonFiniteLossError
from graphcollab.tasks import TellableError

__all__ = ["LeftBehind", "RoundLost", "SiteLostError", "in_words", "told_error"]

PACKAGE = Path(__file__).parents[1]
HARMLESS = ("control", "distributed", "plane.py", "settings.py", "sites", "train", "transport.py")
"""Parts of this package that see no samples, so what they say can quote none."""


class SiteLostError(RuntimeError):
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


ERRORS = {kind.__name__: kind for kind in (SiteLostError, NonFiniteLossError, ValueError, TypeError, RuntimeError)}
"""Errors that are raised again as what they are at other sites; others come as a RuntimeError that names them."""


def in_words(error: BaseException) -> str:
    """Return what other sites may read of an error: its words, where these cannot quote a sample; else nothing.

    That is so for errors of parts of this package that see no samples. A model, a metric, a callback, or PyTorch may
    say anything. Of a disk or a line that fails the operating system's words are told, without the name of a file.

    Args:
        error: The error.
    """
    if isinstance(error, SiteLostError | NonFiniteLossError | TellableError):
        return str(error)
    if isinstance(error, OSError):
        return error.strerror or ""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised = None if trace is None else Path(trace.tb_frame.f_code.co_filename)
    own = raised is not None and raised.is_relative_to(PACKAGE) and raised.relative_to(PACKAGE).parts[0] in HARMLESS
    return str(error) if own else ""


def told_error(site: str, kind: str, why: str) -> Exception:
    """Return the error that is raised here because of one at another site.

    Args:
        site: Where it was raised; empty for an error of the coordinator.
        kind: Its class.
        why: Its words, empty where they stay there.
    """
    if not why:
        return RuntimeError(f"{site} has failed with a {kind}; what it says may quote a sample, and stays there")
    made = ERRORS.get(kind, RuntimeError)
    error = made(why if kind in ERRORS else f"{site} has failed with a {kind}: {why}" if site else f"{kind}: {why}")
    if site:
        error.add_note(f"It was raised at {site}.")
    return error
