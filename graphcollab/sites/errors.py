"""Errors between sites, and what an error discloses to other sites."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from graphcollab._base.errors import GraphcollabError
from graphcollab._base.settings import SettingError
from graphcollab.comm.meeting import PARTS, ProcessLostError, as_value, from_value

KINDS = frozenset(
    {"architecture", "checkpoint", "class", "column", "data", "file", "graph", "job", "listeners", "method", "model"}
    | {"name", "node", "part", "phase", "run", "script", "settings", "site", "table"}
)
"""First words of subjects: other sites may read such a word, but not the name after it."""


class SiteLostError(ProcessLostError):
    """A site is lost, and the run cannot continue without it; the message names it."""


class RoundLost(BaseException):
    """A site was lost or has rejoined (``told``): the round is replayed. No error, but a signal to the round loop."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        super().__init__("the round is played again")
        self.told = told


class LeftBehind(RoundLost):
    """This site itself was left behind."""


def as_shared(error: BaseException, site: str) -> dict[str, str]:
    """Return an error for other sites, by `as_value` and `kind_of`; its message stays, since it may quote a sample."""
    return as_value(error, f"{site} {failure(error)}; its message stays there") | {"subject": kind_of(error)}


def failure(error: BaseException) -> str:
    """Return what other sites read about a failure: the class of the error and its `kind_of`."""
    about = kind_of(error)
    return f"has failed with a {type(error).__name__}{f' ({about})' if about else ''}"


def kind_of(error: BaseException) -> str:
    """Return the name of a setting, the kind of another subject, or the operating system's text for its own errors."""
    if isinstance(error, OSError) and isinstance(error.errno, int):
        return os.strerror(error.errno)
    subject = error.subject if isinstance(error, GraphcollabError) else ""
    if isinstance(error, SettingError) and subject.isidentifier():
        return subject
    kind = subject.partition(" ")[0]
    return kind if kind in KINDS else ""


def received(value: Mapping[str, str]) -> Exception:
    """Return the error to raise here for one raised elsewhere, given by `as_value` and possibly its ``site``."""
    site, *parts = (str(value.get(part, "")) for part in ("site", *PARTS))
    error = from_value(dict(zip(PARTS, parts, strict=True)))
    error.received = True  # type: ignore[attr-defined]
    if site:
        error.add_note(f"It was raised at {site}.")
    return error


def is_received(error: BaseException) -> bool:
    """Return whether an error was raised because of an error at another site."""
    return getattr(error, "received", False)
