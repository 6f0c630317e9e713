"""A coordinator that tests talk to, message by message."""

from __future__ import annotations

from graphcollab.sites.coordinator import Coordinator
from graphcollab.sites.frame import Frame


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Desk:
    """A coordinator whose clock stands, and which lets nobody wait."""

    def __init__(self, sites: str = "abc", **settings: object) -> None:
        self.clock = Clock()
        self.coordinator = Coordinator(list(sites), deadline=10.0, poll=0.0, lost=2.0, clock=self.clock, **settings)
        self.lives = {site: self.begin(site, "first life") for site in sites}

    def begin(self, site: str, life: str) -> str:
        """Let a process begin: it greets, and gives its first sign of life."""
        for verb in ("hello", "beat"):
            self.ask(site, verb, life=life)
        return life

    def ask(self, site: str, verb: str, epoch: int = 0, step: int = 0, tensors=(), **about: object) -> Frame:
        life = about.pop("life", None) or self.lives.get(site, "")
        frame = Frame({"verb": verb, "epoch": epoch, "step": step, "life": life, **about}, tensors)
        return Frame.unpack(self.coordinator.answer(site, frame.pack()))

    def say(self, site: str, *args: object, **about: object) -> str:
        return self.ask(site, *args, **about).about["status"]

    def pass_(self, seconds: float, *alive: str) -> None:
        self.clock.now += seconds
        for site in alive:
            self.say(site, "beat")
        self.coordinator.watch()


def commit(desk: Desk, sites: str, epoch: int, step: int = 5) -> Frame:
    """Let sites agree that a round was played, and return what the last hears."""
    for site in sites:
        reply = desk.ask(site, "meet", epoch, step, what="end", commit=True)
    return reply
