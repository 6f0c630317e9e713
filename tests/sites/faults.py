"""A link on which messages are lost, late, doubled and cut, and sites that fall silent."""

from __future__ import annotations

import random
import threading
import time

from graphcollab.sites.hall import Door, Hall


class FaultyDoor(Door):
    """A door through which not everything comes as it was sent.

    Args:
        hall: The hall.
        name: The site.
        seed: Of the faults.
        rate: How often something goes wrong.
    """

    def __init__(self, hall: Hall, name: str, seed: int, rate: float) -> None:
        super().__init__(hall, name)
        self.random, self.rate = random.Random(f"{seed} {name}"), rate
        self.silent = threading.Event()
        self.kept: list[tuple[str, bytes]] = []
        self.asked: list[bytes] = []

    def ask(self, content: bytes) -> bytes:
        """Ask, perhaps in vain, twice, late, or with an answer that is lost or cut; old questions come again."""
        self._pass()
        faults = ["before", "after", "twice", "late", "cut", "cut answer"]
        fault = self.random.choice(faults) if self._goes_wrong() else ""
        if self.asked and self._goes_wrong():
            super().ask(self.random.choice(self.asked))
        self.asked = [*self.asked[-20:], content]
        if fault == "before":
            raise ConnectionError("lost on its way")
        if fault == "late":
            time.sleep(0.02)
        if fault == "twice":
            super().ask(content)
        reply = super().ask(content[:-1] if fault == "cut" else content)
        if fault == "after":
            raise ConnectionError("the answer was lost")
        return reply[:-2] if fault == "cut answer" else reply

    def push(self, to: str, content: bytes) -> str:
        """Push, perhaps in vain, twice, late, or cut; old messages come again now and then."""
        self._pass()
        fault = self.random.choice(["lost", "twice", "late", "cut", "lost unseen"]) if self._goes_wrong() else ""
        if self.kept and self._goes_wrong():
            super().push(*self.random.choice(self.kept))
        self.kept = [*self.kept[-20:], (to, content)]
        if fault == "lost":
            raise ConnectionError("lost on its way")
        if fault == "lost unseen":
            return "ok"
        if fault == "late":
            time.sleep(0.02)
        if fault == "twice":
            super().push(to, content)
        return super().push(to, content[:-1] if fault == "cut" else content)

    def _goes_wrong(self) -> bool:
        return self.random.random() < self.rate

    def _pass(self) -> None:
        if self.silent.is_set():
            raise ConnectionError("nothing gets through")
