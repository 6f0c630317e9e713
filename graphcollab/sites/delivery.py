"""`Link` and `Delivery`: how messages get from one site to the coordinator and into the mailboxes of other sites."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from torch import Tensor

from graphcollab.sites.errors import SiteLostError
from graphcollab.sites.frame import Frame, FrameError, OtherVersionError, printable
from graphcollab.sites.mailbox import Mailbox

COORDINATOR = "coordinator"
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0  # seconds until something that has failed is tried again, twice as many each time


class Link(Protocol):
    """How bytes get from the site ``name`` to the coordinator and to the others of ``sites``, an order alike at all."""

    name: str
    sites: tuple[str, ...]

    def open(self, mailbox: Mailbox) -> None:
        """Let messages of other sites come into a mailbox."""

    def ask(self, content: bytes) -> bytes:
        """Return the coordinator's answer; a ConnectionError where there is none."""

    def push(self, to: str, content: bytes) -> str:
        """Put a message into another site's mailbox, and return its answer; a ConnectionError where there is none."""


class Delivery:
    """Sends messages again until they have come, and counts what has left this site, in ``sent``, by kind and receiver.

    ``patience`` are seconds for which a coordinator that does not answer is asked again. Every message says ``place``,
    the epoch and step of the run, and ``life``, which tells this process from one before it, whose messages may come
    late.
    """

    def __init__(self, link: Link, patience: float) -> None:
        self.link, self.patience = link, patience
        self.place = (0, 0)
        self.life = secrets.token_hex(8)
        self.sent: dict[tuple[str, str], tuple[int, int]] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(max(len(link.sites) - 1, 1), "graphcollab-send")
        self._sending: list[Future[None]] = []
        self._closed, self._why = threading.Event(), ""

    def frame(self, about: Mapping[str, Any], tensors: Sequence[Tensor] = ()) -> bytes:
        """Return a message from where the run is."""
        epoch, step = self.place  # read at once, as signs of life come from another thread
        return Frame({**about, "epoch": epoch, "step": step, "life": self.life}, tensors).pack()

    def ask(self, content: bytes | Callable[[], bytes], patience: float | None = None) -> Frame:
        """Return the coordinator's answer to a message, or to what is made anew whenever it is asked again."""
        end, pause = time.monotonic() + (self.patience if patience is None else patience), FIRST_PAUSE
        self._require_open()
        while True:
            try:
                reply = printable(Frame.unpack(self.link.ask(content() if callable(content) else content)))
                if reply.about.get("status") == "refused" and reply.about.get("subject") == "checksum":
                    raise FrameError("checksum", str(reply.about.get("why")))
                return reply
            except OtherVersionError as error:
                raise SiteLostError(
                    f"site {self.link.name!r}", f"{self.link.name} cannot take part: the coordinator sends {error}"
                ) from error
            except (ConnectionError, FrameError) as error:
                self._require_open()
                if time.monotonic() + pause > end:
                    raise SiteLostError(
                        f"site {self.link.name!r}", f"{self.link.name} cannot reach the coordinator any more ({error})"
                    ) from error
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def say(self, about: Mapping[str, Any], patience: float) -> None:
        """Tell the coordinator something that it may as well not hear."""
        with _quietly():
            self.ask(self.frame(about), patience)

    def push(self, what: str, to: str, content: bytes) -> None:
        """Send a message to a site, in a thread of its own, until it has come or its epoch is over."""
        self.count(what, to, len(content))
        self._sending = [one for one in self._sending if not one.done()]
        try:
            self._sending.append(self._threads.submit(self._push, to, content, self.place[0]))
        except RuntimeError:
            self._require_open()
            raise

    def count(self, what: str, to: str, size: int) -> None:
        """Count a message."""
        with self._lock:
            many, before = self.sent.get((what, to), (0, 0))
            self.sent[what, to] = many + 1, before + size

    def beat(self, seconds: float) -> None:
        """Give a sign of life now and then, until `close`."""
        threading.Thread(target=self._beats, args=(seconds,), name="graphcollab-beat", daemon=True).start()

    def drain(self) -> None:
        """Wait until all that is to be sent is sent, a minute at most."""
        wait([one for one in self._sending if not one.cancelled()], min(self.patience, 60.0))

    def close(self, why: str = "this site has left the run") -> None:
        """Send nothing any more; a SiteLostError says why, where something is to be sent all the same."""
        self._why = self._why or why
        self._closed.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _require_open(self) -> None:
        if self._closed.is_set():
            raise SiteLostError(f"site {self.link.name!r}", self._why)

    def _push(self, to: str, content: bytes, epoch: int) -> None:
        pause = FIRST_PAUSE
        while epoch == self.place[0] and not self._closed.is_set():
            with _quietly():
                if self.link.push(to, content) in ("ok", "late", "refused"):
                    return
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _beats(self, seconds: float) -> None:
        while not self._closed.wait(seconds):
            with _quietly():
                self.link.ask(self.frame({"verb": "beat"}))


@contextmanager
def _quietly() -> Iterator[None]:
    with suppress(ConnectionError, SiteLostError, FrameError):
        yield
