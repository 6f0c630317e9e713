"""`Gathering`: the sites among whom a script's runs are played, and how it comes to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import Tensor

from graphcollab.distributed import among
from graphcollab.naming import few
from graphcollab.sites.connection import Connection
from graphcollab.sites.errors import SiteLostError
from graphcollab.sites.transport import VALUES, Sites

CONNECTION: ContextVar[Connection | None] = ContextVar("connection", default=None)
"""How this site takes part in the job that has started its script; None where it was started by hand."""


class Gathering:
    """The sites of a connection, as those among whom runs are played."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sites that are there, by their certificates, in the order of what they tell."""
        return self.connection.present

    def status(self, error: Exception | None = None) -> None:
        """Let an error of this site be raised everywhere."""
        if error is not None:
            self.connection.fail(error)

    def everyone(self, value: Any) -> list[Any]:
        values, _ = self.connection.tell(VALUES, value)
        return [*values.values()]

    def join(self, names: Sequence[str], owner: Tensor) -> Sites:
        if lost := [one for one in self.connection.sites if one not in self.connection.present]:
            are = "is" if len(lost) == 1 else "are"
            raise SiteLostError(f"site {lost[0]!r}", f"a run begins with all sites, and {few(lost)} {are} not there")
        self.connection.runs += 1
        return Sites(self.connection, owner)


@contextmanager
def connected(connection: Connection) -> Iterator[None]:
    """Let runs in this context be played with the sites of a connection."""
    token = CONNECTION.set(connection)
    try:
        with among(Gathering(connection)):
            yield
    finally:
        CONNECTION.reset(token)
