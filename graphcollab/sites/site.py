"""`site`: one party of a run between parties, which keeps its data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import Tensor

from graphcollab.distributed import among
from graphcollab.sites.connection import Connection, SiteLostError
from graphcollab.sites.transport import Sites

__all__ = ["connected"]

_CONNECTION: ContextVar[Connection | None] = ContextVar("connection", default=None)


class Gathering:
    """The sites of a connection, as what runs are played among.

    Args:
        connection: How this site takes part.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def status(self, error: Exception | None = None) -> None:
        """Let an error of this site be raised everywhere."""
        if error is not None:
            self.connection.fail(error)

    def everyone(self, value: Any) -> list[Any]:
        """Return what all sites have to tell."""
        values, _ = self.connection.tell("values", value)
        return [*values.values()]

    def transport(self, names: Sequence[str], owner: Tensor) -> Sites:
        """Return how rows and numbers of nodes travel."""
        if lost := [site for site in self.connection.sites if site not in self.connection.present]:
            raise SiteLostError(f"a run begins with all sites, and {', '.join(lost)} is not there")
        return Sites(self.connection, owner)


@contextmanager
def connected(connection: Connection) -> Iterator[None]:
    """Let runs in this context be played with the sites of a connection."""
    token = _CONNECTION.set(connection)
    try:
        with among(Gathering(connection)):
            yield
    finally:
        _CONNECTION.reset(token)
