"""State of the coordinator: the messages of a step, and the processes that speak for the sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from graphcollab._base.errors import MismatchError, StateError
from graphcollab.comm.arrivals import plausible
from graphcollab.sites.frame import Frame, FrameError

GREETINGS, FORMER = 100, 1000  # maximum number of remembered incarnations per site


@dataclass
class Meeting:
    """Messages of one step: ``frames`` by site, and the ``reply`` to all of them once all have arrived."""

    frames: dict[str, Frame] = field(default_factory=dict)
    reply: Frame | None = None

    def apart(self, site: str, senders: Sequence[str]) -> str:
        """Return a message if a site waits for senders that are at another step of the run; empty otherwise."""
        there = {one: self.frames[one].about.get("what") for one in senders if one in self.frames and not self.reply}
        told = ", ".join([f"{site}: waits for models", *(f"{one}: {what}" for one, what in there.items())])
        return f"sites have come to different steps of the run ({told})" if there else ""

    def refuse(self, sites: Sequence[str], resting: Sequence[str]) -> dict[str, str]:
        """Return the sites whose summands cannot be models, with reasons; such summands of resting sites become 0."""
        bad = {}
        for site in sites:
            frame = self.frames[site]
            floats = [one.reshape(1, -1) for one in frame.tensors if one.is_floating_point()]
            if not frame.about.get("sum") or all(bool(plausible(one).all()) for one in floats):
                continue
            if site in resting:
                self.frames[site] = Frame(frame.about, [torch.zeros_like(one) for one in frame.tensors])
            else:
                bad[site] = "sent the coordinator values that are not finite or too large for a model"
        return bad

    def together(self, sites: Sequence[str]) -> tuple[dict[str, Any], list[Tensor]]:
        """Return the values of these sites, or their sums if sums are requested; an error if kinds differ."""
        frames = [self.frames[site] for site in sites]
        words = [[one.about.get(name) for name in ("what", "sum", "commit")] for one in frames]
        if len({str([*said, "round" in one.about]) for said, one in zip(words, frames, strict=True)}) > 1:
            told = ", ".join(f"{site}: {what}" for site, (what, *_) in zip(sites, words, strict=True))
            raise StateError("script", f"sites have come to different steps of the run ({told})")
        tensors = [list(frame.tensors) for frame in frames]
        if not frames[0].about.get("sum"):
            about = {"values": [frame.about.get("value") for frame in frames], "counts": [*map(len, tensors)]}
            return about, [one for some in tensors for one in some]
        kinds = [[(one.dtype, tuple(one.shape)) for one in some] for some in tensors]
        usual = max(kinds, key=kinds.count)
        for site, kind in zip(sites, kinds, strict=True):
            if kind != usual:
                message = f"{site} sends {kind} to be added to {usual}"
                raise MismatchError(f"site {site!r}", message)
        return {}, [sum(many[1:], many[0]) for many in zip(*tensors, strict=True)]


class Lives:
    """Distinguishes the process that speaks for a site from earlier ones, whose messages may arrive late."""

    def __init__(self, sites: Sequence[str]) -> None:
        self._greeted: dict[str, list[str]] = {site: [] for site in sites}
        self._former: dict[str, list[str]] = {site: [] for site in sites}
        self._now: dict[str, str] = {}

    def begun(self, site: str) -> bool:
        """Return whether a site has greeted."""
        return site in self._now or bool(self._greeted[site])

    def greet(self, site: str, life: str) -> bool:
        """Register a greeting, and return whether another process has spoken for the site before."""
        now = self._now.get(site)
        if life != now and life not in self._greeted[site]:  # otherwise it repeats an unanswered greeting
            self._greeted[site] = [*self._greeted[site], life][-GREETINGS:]
        return now not in (None, life)

    def speak(self, site: str, life: str) -> bool:
        """Return whether a life replaces another as the speaker of its site; a `FrameError` if it has not greeted."""
        now, greeted = self._now.get(site), self._greeted[site]
        if life == now:
            return False
        if life not in greeted:
            raise FrameError(f"site {site!r}", "messages of a process that has not greeted")
        at = greeted.index(life)
        self._former[site] = [*self._former[site], *greeted[:at], *([] if now is None else [now])][-FORMER:]
        self._greeted[site], self._now[site] = greeted[at + 1 :], life
        return now is not None

    def require(self, site: str, life: str) -> None:
        """Raise a `FrameError` for a life that has been replaced."""
        if life in self._former[site]:
            raise FrameError(
                f"site {site!r}", "messages of a process of this site that was started before the one that is there"
            )
