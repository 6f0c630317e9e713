"""`Hall`: all sites of a run in one process, for rehearsals and tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from graphcollab.sites.connection import Connection
from graphcollab.sites.coordinator import Coordinator
from graphcollab.sites.delivery import Mailbox
from graphcollab.sites.errors import is_received

T = TypeVar("T")


class Hall:
    """A coordinator, and sites as threads of this process with their mailboxes; ``settings`` are `Coordinator`'s."""

    def __init__(self, sites: Sequence[str], **settings: Any) -> None:
        self.sites, self.coordinator = tuple(sites), Coordinator(sites, **settings)
        self.mailboxes: dict[str, Mailbox] = {}

    def play(self, act: Callable[[Connection], T], here: str | None = None, **settings: Any) -> dict[str, T]:
        """Run ``act`` for every site in a separate thread, and return all results, or raise the first error.

        The site ``here`` acts in the caller's thread, so that warnings name the caller; its error has precedence.
        """

        def work(name: str) -> T:
            connection = Connection(Door(self, name), **settings)
            try:
                return act(connection)
            except BaseException as error:
                connection.leave(error)
                raise
            finally:
                connection.finish()

        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(self.coordinator.deadline / 10):
                self.coordinator.watch()

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        try:
            with ThreadPoolExecutor(len(self.sites)) as threads:
                acts = {name: threads.submit(work, name) for name in self.sites if name != here}
                if here is not None:
                    acts = {here: _played(partial(work, here)), **acts}
            errors = [error for one in acts.values() if (error := one.exception()) is not None]
            if errors:  # prefer the cause: sites that fail because of it may do so sooner
                raise next((error for error in errors if not is_received(error)), errors[0])
            return {name: acts[name].result() for name in self.sites}
        finally:
            ended.set()
            watching.join()


def _played(work: Callable[[], T]) -> Future[T]:
    """Do work in this thread and return its outcome as a future."""
    done: Future[T] = Future()
    try:
        done.set_result(work())
    except Exception as error:
        done.set_exception(error)
    return done


class Door:
    """A `Link` into a hall."""

    def __init__(self, hall: Hall, name: str) -> None:
        self.hall, self.name, self.sites = hall, name, hall.sites

    def open(self, mailbox: Mailbox) -> None:
        self.hall.mailboxes[self.name] = mailbox

    def ask(self, content: bytes) -> bytes:
        return self.hall.coordinator.answer(self.name, content)

    def push(self, to: str, content: bytes) -> str:
        if to not in self.hall.mailboxes:
            raise ConnectionError(f"{to} is not there yet")
        return self.hall.mailboxes[to].put(self.name, content)
