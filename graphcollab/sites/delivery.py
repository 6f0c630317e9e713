"""Delivery of messages from a site to the coordinator and to the mailboxes of others, which hold them until due."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from torch import Tensor

from graphcollab.sites.errors import SiteLostError
from graphcollab.sites.frame import Frame, FrameError, OtherVersionError, printable

COORDINATOR = "coordinator"
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0  # seconds before a retry, doubled each time
AHEAD = 4  # epochs by which a message may be ahead of its reader
WAITING = 1000  # maximum number of waiting messages per sender
DESCRIBED = 2**16  # maximum bytes of a message's description, which may take 40 times as many in memory


class Mailbox:
    """Holds each message for an epoch and a step once; discards damaged, late and duplicate ones, and unknown senders'.

    ``limit`` is the maximum of waiting bytes per sender, in at most 1,000 messages: no sender takes the room of others.
    """

    def __init__(self, sites: Collection[str], limit: int = 2**32) -> None:
        self.sites, self.limit = frozenset(sites), limit
        self._epoch, self._step = 0, 0
        self._come = threading.Condition()
        self._frames: dict[tuple[int, int, str], tuple[Frame, int]] = {}
        self._held = {site: [0, 0] for site in self.sites}  # waiting messages and bytes by sender

    def put(self, sender: str, content: bytes) -> str:
        """Accept a message and return the outcome: ``"ok"``, or the reason why it was not accepted."""
        try:
            frame = Frame.unpack(content, DESCRIBED)
        except FrameError:
            return "damaged"
        epoch, step = frame.about.get("epoch"), frame.about.get("step")
        if sender not in self.sites or type(epoch) is not int or type(step) is not int:
            return "refused"
        with self._come:
            if (epoch, step) < (self._epoch, self._step):
                return "late"
            if epoch > self._epoch + AHEAD:
                return "early"
            if (epoch, step, sender) in self._frames:
                return "ok"
            many, held = self._held[sender]
            if many >= WAITING or held + len(content) > self.limit:
                return "full"
            self._frames[epoch, step, sender] = (frame, len(content))
            self._held[sender] = [many + 1, held + len(content)]
            self._come.notify_all()
        return "ok"

    def turn_to(self, epoch: int, step: int) -> None:
        """Advance to a step and discard messages for earlier steps."""
        with self._come:
            self._epoch, self._step = epoch, step
            for at in [at for at in self._frames if at[:2] < (epoch, step)]:
                self._remove(at)

    def wait(self, senders: Sequence[str], seconds: float) -> list[str]:
        """Wait for messages of this step and return the senders that are still missing."""

        def missing() -> list[str]:
            return [one for one in senders if (self._epoch, self._step, one) not in self._frames]

        with self._come:
            self._come.wait_for(lambda: not missing(), seconds)
            return missing()

    def take(self, sender: str) -> Frame:
        """Remove and return the message of this step from a sender."""
        with self._come:
            return self._remove((self._epoch, self._step, sender))

    def _remove(self, at: tuple[int, int, str]) -> Frame:
        frame, size = self._frames.pop(at)
        many, held = self._held[at[2]]
        self._held[at[2]] = [many - 1, held - size]
        return frame


class Link(Protocol):
    """Connects the site ``name`` to the coordinator and the others of ``sites``, in the same order at all sites."""

    name: str
    sites: tuple[str, ...]

    def open(self, mailbox: Mailbox) -> None:
        """Direct messages of other sites into a mailbox."""

    def ask(self, content: bytes) -> bytes:
        """Return the coordinator's answer; raise a ConnectionError if there is none."""

    def push(self, to: str, content: bytes) -> str:
        """Put a message into another site's mailbox and return its answer; raise a ConnectionError if there is none."""


class Delivery:
    """Resends messages until they arrive, and counts in ``sent`` what has left this site, by kind and receiver.

    ``patience`` is the time in seconds for which an unresponsive coordinator is asked again. Every message carries
    ``place``, the epoch and step of the run, and ``life``, the incarnation of this process, since messages of an
    earlier one may arrive late.
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
        """Return a message stamped with the current place in the run."""
        epoch, step = self.place  # read at once, since heartbeats come from another thread
        return Frame({**about, "epoch": epoch, "step": step, "life": self.life}, tensors).pack()

    def ask(self, content: bytes | Callable[[], bytes], patience: float | None = None) -> Frame:
        """Return the coordinator's answer to a message; a function makes a new message for every attempt."""
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
        """Send the coordinator a message on a best-effort basis."""
        with _quietly():
            self.ask(self.frame(about), patience)

    def push(self, what: str, to: str, content: bytes) -> None:
        """Send a message to a site in a background thread until it arrives or its epoch is over."""
        self.count(what, to, len(content))
        self._sending = [one for one in self._sending if not one.done()]
        try:
            self._sending.append(self._threads.submit(self._push, to, content, self.place[0]))
        except RuntimeError:
            self._require_open()
            raise

    def count(self, what: str, to: str, size: int) -> None:
        """Count a sent message."""
        with self._lock:
            many, before = self.sent.get((what, to), (0, 0))
            self.sent[what, to] = many + 1, before + size

    def beat(self, seconds: float) -> None:
        """Send a heartbeat periodically until `close`."""
        threading.Thread(target=self._beats, args=(seconds,), name="graphcollab-beat", daemon=True).start()

    def drain(self) -> None:
        """Wait until all outstanding messages are sent, for at most a minute."""
        wait([one for one in self._sending if not one.cancelled()], min(self.patience, 60.0))

    def close(self, why: str = "this site has left the run") -> None:
        """Stop sending; later attempts to send raise a SiteLostError with the reason."""
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
