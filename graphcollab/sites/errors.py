"""What can go wrong between sites, and what other sites may read of an error."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from graphcollab.distributed import ProcessLostError
from graphcollab.distributed.errors import PARTS, as_value, from_value
from graphcollab.errors import GraphcollabError
from graphcollab.settings import SettingError

KINDS = frozenset({"architecture", "checkpoint", "class", "column", "file", "graph", "node", "part", "phase", "site"})
"""First words of subjects that name an element; other sites may read the word, and not the name after it."""


class SiteLostError(ProcessLostError):
    """A site is gone, and the run cannot go on without it; the message names it."""

    def __init__(self, subject: str, message: str) -> None:
        super().__init__(subject, message, public=True)


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


def public_text(error: BaseException) -> str:
    """Return the message of an error that other sites may read; empty if it may quote a sample or a value.

    It is that of an error that was raised as public, or of its cause. Of a disk or a connection that fails, it is that
    of the operating system, without the name of a file.
    """
    if public := _public(error):
        return str(public)
    if isinstance(error, OSError) and isinstance(error.errno, int) and error.strerror == os.strerror(error.errno):
        return error.strerror
    return ""


def public_value(error: BaseException, site: str) -> dict[str, str]:
    """Return an error of a site as other sites may read it, as `as_value` does.

    A public message keeps its subject. If a message may quote a sample, a setting is named; of another subject only the
    kind of element remains.
    """
    subject = public_subject(error)
    if text := public_text(error):
        public = _public(error)
        return as_value(error, text) | {"subject": public.subject if public else subject}
    about = f" ({subject})" if subject else ""
    text = f"{site} has failed with a {type(error).__name__}{about}; its message may quote a sample, and stays there"
    return as_value(error, text) | {"subject": subject}


def _public(error: BaseException) -> GraphcollabError | None:
    """Return the error that was raised as public: this one, or its cause."""
    both = (error, error.__cause__)
    return next((one for one in both if isinstance(one, GraphcollabError) and one.public), None)


def public_subject(error: BaseException) -> str:
    """Return what other sites may read of the subject of an error: a setting's name, or the kind of an element."""
    subject = error.subject if isinstance(error, GraphcollabError) else ""
    if isinstance(error, SettingError) and subject.isidentifier():
        return subject
    kind = subject.partition(" ")[0]
    return kind if kind in KINDS else ""


def received(value: Mapping[str, str]) -> Exception:
    """Return the error to raise here because of one elsewhere.

    Args:
        value: The error, as by `as_value`, and the ``site`` where it was raised, if it was at one.
    """
    site, *parts = (str(value.get(part, "")) for part in ("site", *PARTS))
    error = from_value(dict(zip(PARTS, parts, strict=True)))
    error.received = True  # type: ignore[attr-defined]
    if site:
        error.add_note(f"It was raised at {site}.")
    return error


def is_received(error: BaseException) -> bool:
    """Tell whether an error was raised because of one at another site."""
    return getattr(error, "received", False)
