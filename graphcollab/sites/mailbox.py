"""`Mailbox`: where messages of other sites wait until they are due."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from graphcollab.sites.frame import Frame, FrameError

AHEAD = 4  # epochs that a message may be ahead of its reader
WAITING = 1000  # messages of one sender that may wait
DESCRIBED = 2**16  # bytes of a message's description, at most, which may take 40 times as many in memory


class Mailbox:
    """Holds each message for an epoch and a step once; nothing comes of damaged, late, doubled or strangers' ones.

    ``limit`` are bytes of one sender that may wait, so that nobody takes the room of others, in 1,000 messages at most.
    """

    def __init__(self, sites: Collection[str], limit: int = 2**32) -> None:
        self.sites, self.limit = frozenset(sites), limit
        self._epoch, self._step = 0, 0
        self._come = threading.Condition()
        self._frames: dict[tuple[int, int, str], tuple[Frame, int]] = {}
        self._held = {site: [0, 0] for site in self.sites}  # messages and bytes that wait, by sender

    def put(self, sender: str, content: bytes) -> str:
        """Take a message in, and return what has become of it: ``"ok"``, or why the sender might send it again."""
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
        """Forget what was due before a step."""
        with self._come:
            self._epoch, self._step = epoch, step
            for at in [at for at in self._frames if at[:2] < (epoch, step)]:
                self._remove(at)

    def wait(self, senders: Sequence[str], seconds: float) -> list[str]:
        """Wait for messages of this step, and return whose have not come."""

        def missing() -> list[str]:
            return [one for one in senders if (self._epoch, self._step, one) not in self._frames]

        with self._come:
            self._come.wait_for(lambda: not missing(), seconds)
            return missing()

    def take(self, sender: str) -> Frame:
        """Return the message of this step that has come from a site."""
        with self._come:
            return self._remove((self._epoch, self._step, sender))

    def _remove(self, at: tuple[int, int, str]) -> Frame:
        frame, size = self._frames.pop(at)
        many, held = self._held[at[2]]
        self._held[at[2]] = [many - 1, held - size]
        return frame
