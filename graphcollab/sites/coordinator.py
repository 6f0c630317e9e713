"""`Coordinator`: the meeting point of sites, which tracks which are present. It has no data and no model of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from graphcollab._base.errors import GraphcollabError, StateError
from graphcollab._base.naming import few
from graphcollab.comm.meeting import as_value
from graphcollab.sites.errors import SiteLostError
from graphcollab.sites.frame import ERROR, Frame, FrameError, OtherVersionError, clipped, question
from graphcollab.sites.meeting import Lives, Meeting

LOG = logging.getLogger(__name__)
VERBS = ("hello", "meet", "beat", "missing", "give", "take", "back", "leave", "fail", "finish")  # each has a method
REPLAYS = 10  # how often the same message may be lost


class Coordinator:
    """Synchronizes sites step by step, adds up their summands, and leaves unresponsive sites behind.

    All sites take the same steps. A step is a number within an *epoch*. A new epoch begins whenever the set of present
    sites changes, and every site in the middle of a round replays it from the beginning. A lost site has therefore not
    taken part in that round at all. A rejoining site is admitted once the next round has been committed. The
    coordinator sees the values that sites send to everybody and the summands that they send to it, but never messages
    from site to site.

    Summands are added up in the order of ``sites``; with fewer than ``at_least`` sites the run stops. In seconds: a
    site is left behind ``deadline`` after its last sign of life; a waiting call is answered after ``poll``, and has to
    be repeated; and a round is replayed if a message has not arrived for ``lost``.
    """

    POLL: ClassVar[float] = 10.0

    def __init__(
        self,
        sites: Sequence[str],
        deadline: float = 60.0,
        at_least: int = 1,
        poll: float = POLL,
        lost: float = 15.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sites, self.deadline, self.at_least, self.poll, self._clock = tuple(sites), deadline, at_least, poll, clock
        self._patience = lost
        self.epoch = 0
        self.present, self.resting = list(self.sites), list[str]()
        self.lost, self.refused = dict[str, str](), dict[str, str]()
        self._change = threading.Condition()
        self._seen = dict.fromkeys(self.sites, clock())  # time of the last message
        self._at = dict.fromkeys(self.sites, (0, 0))
        self._stuck: dict[str, tuple[int, float]] = {}
        self._meetings: dict[tuple[int, int], Meeting] = {}
        self._state: Frame | None = None
        self._lost_at: dict[tuple[int, str], int] = {}
        self._wanting: list[str] = []
        self._catching_up: set[str] = set()
        self._done: set[str] = set()
        self._lives = Lives(self.sites)
        self._stopped: dict[str, str] | None = None

    @property
    def over(self) -> bool:
        """Whether the run has stopped or all present sites have finished."""
        return self._stopped is not None or set(self.present) <= self._done

    @property
    def failed(self) -> str:
        """Reason why the run has stopped; empty if it has not."""
        said = self._stopped or {}
        return ": ".join(filter(None, map(said.get, ("site", "name", "message"))))

    def answer(self, site: str, content: bytes) -> bytes:
        """Return the answer to a site's message; a waiting call gets a preliminary answer after ``poll`` seconds."""
        try:
            asked = question(content, VERBS)
            if site not in self.sites:
                raise FrameError(f"site {site!r}", "messages of nobody of this run")
            with self._change:
                return self._hear(site, asked).pack()
        except FrameError as error:
            LOG.warning("a message of %s was refused: %s", clipped(site), clipped(error))
            with self._change:  # others would wait for a site that never began; if it has, this is another process
                if isinstance(error, OtherVersionError) and site in self.sites and not self._lives.begun(site):
                    self._stop(SiteLostError(f"site {site!r}", f"{site} cannot take part: it sends {error}"))
            return Frame({"status": "refused", "why": str(error), "subject": error.subject}).pack()

    def _hear(self, site: str, asked: Frame) -> Frame:
        verb, epoch, step, life = (asked.about[name] for name in ("verb", "epoch", "step", "life"))
        self._lives.require(site, life)
        if verb != "hello" and self._lives.speak(site, life):
            self._at[site] = (0, 0)
            if verb != "leave" and site in self.present and self._stopped is None:
                self._leave_behind([site], "was started again")
        self._seen[site] = self._clock()
        self._at[site] = max(self._at[site], (epoch, step))
        answer: Frame = getattr(self, f"_{verb}")(site, epoch, step, asked)
        return answer

    def watch(self) -> None:
        """Leave sites without a sign of life behind; call this periodically."""
        with self._change:
            now = self._clock()
            silent = [site for site in self.present if site not in self._done]
            silent = [site for site in silent if now - self._seen[site] > self.deadline]
            if silent and self._stopped is None:
                self._leave_behind(silent, f"has given no sign of life for {self.deadline:g} s")

    def _meet(self, site: str, epoch: int, step: int, asked: Frame) -> Frame:
        """All-gather: take the value of a site and wait for those of the others."""
        meeting = self._meetings.get((epoch, step))
        if meeting is None or meeting.reply is None:
            if news := self._news(site, epoch):
                return news
            if (epoch, step) < self._at[site]:
                return Frame({"status": "refused", "why": "it comes too late"})
            if any(site in one.frames for at, one in self._meetings.items() if one.reply is None and at[1] != step):
                return Frame({"status": "refused", "why": "it tells something before others have heard the last of it"})
            self._catching_up.discard(site)
            meeting = self._meetings.get((epoch, step), Meeting())
            if site not in meeting.frames and not isinstance(asked.about.get("what"), str):
                return Frame({"status": "refused", "why": "it does not say what it tells"})
            self._meetings[epoch, step] = meeting
            meeting.frames.setdefault(site, asked)
            self._stuck.pop(site, None)
            if set(meeting.frames) >= set(self.present):
                self._conclude(meeting, (epoch, step))
            self._require_all(meeting)
        told = meeting  # a conclusion holds, even if a site reads it after the next epoch has begun
        return self._wait(lambda: told.reply or self._news(site, epoch))

    def _require_all(self, meeting: Meeting) -> None:
        """Stop the run if a site waits for another whose script has ended."""
        ended = [site for site in self.present if site in self._done and site not in meeting.frames]
        if ended and meeting.frames and meeting.reply is None and self._stopped is None:
            why = f"the script of {few(ended)} has ended, where others go on: all must make the same calls"
            self._stop(SiteLostError(f"site {ended[0]!r}", why))

    def _conclude(self, meeting: Meeting, at: tuple[int, int]) -> None:
        if bad := meeting.refuse(self.present, self.resting):  # they rest, and the round is replayed
            self._begin()
            self.resting, self.refused = [*self.resting, *bad], self.refused | bad
            return LOG.warning("%s", "; ".join(f"{site} {why}" for site, why in bad.items()))
        try:
            found, tensors = meeting.together(self.present)
        except GraphcollabError as error:
            return self._stop(error)
        about: dict[str, Any] = {"status": "ok", "wanting": bool(self._wanting), **found}
        said = {site: meeting.frames[site].about for site in self.present}
        first = said[self.present[0]]
        if first.get("commit"):
            about |= self._agree()
        if "round" in first:
            played = {site: said[site]["round"] for site in said}
            self.resting = [site for site, many in played.items() if many < max(played.values())]
            about["resting"] = self.resting
            self._state = None  # it belongs to another run
        meeting.reply = Frame(about, tuple(tensors))
        self._meetings[at] = meeting  # restored if a new epoch has dropped it
        self._lost_at = {place: many for place, many in self._lost_at.items() if place[0] >= at[1]}  # others arrived
        ended = [at for at, one in self._meetings.items() if one.reply is not None]
        for at in ended[:-2]:  # all sites have read it: they have reached the next one
            del self._meetings[at]
        self._change.notify_all()

    def _agree(self) -> dict[str, Any]:
        """Commit a round that all have played: admit rejoining sites, and activate those admitted before."""
        new = [site for site in self._wanting if site not in self.present]
        if not new and not self.resting:
            return {}
        self._begin()
        self.present = [site for site in self.sites if site in {*self.present, *new}]
        self.resting, self.refused, self._wanting, self._catching_up = new, {}, [], set(new)
        for site in new:
            self.lost.pop(site, None)
            LOG.warning("%s is back", site)
        return {"next": self._told()}

    def _begin(self) -> None:
        """Begin an epoch; conclusions are kept for sites that have not read them yet.

        Sites that were still catching up rejoin after another round, since the others have moved on.
        """
        for site in self._catching_up:
            self.present.remove(site)
            self.resting.remove(site)
            self._wanting.append(site)
        self._catching_up = set()
        self.epoch += 1
        self._meetings = {at: one for at, one in self._meetings.items() if one.reply is not None}
        self._state = None
        self._stuck = {}
        self._change.notify_all()

    def _told(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("epoch", "present", "resting", "lost", "refused")}

    def _news(self, site: str, epoch: int) -> Frame | None:
        """Return what a site must know first: the run has stopped or ended, the site is away, or an epoch began."""
        if self._stopped is not None:
            return Frame({"status": "stop", **self._stopped})
        if site not in self.present:
            return Frame({"status": "over" if self.over else "away", **self._told()})
        return Frame({"status": "again", **self._told()}) if epoch != self.epoch else None

    def _wait(self, ready: Callable[[], Frame | None]) -> Frame:
        end = time.monotonic() + self.poll
        while (found := ready()) is None:
            left = end - time.monotonic()
            if left <= 0:
                return Frame({"status": "wait"})
            self._change.wait(left)
        return found

    def _hello(self, site: str, epoch: int, step: int, asked: Frame) -> Frame:
        """Greet a starting process; ``known``: the site has started before, and so has to rejoin."""
        return Frame({"status": "ok", "known": self._lives.greet(site, asked.about["life"])})

    def _beat(self, site: str, epoch: int, step: int, asked: Frame) -> Frame:
        return self._news(site, epoch) or Frame({"status": "ok"})

    def _missing(self, site: str, epoch: int, step: int, asked: Frame) -> Frame:
        """Handle a site that still waits for messages of others."""
        if news := self._news(site, epoch):
            return news
        self._catching_up.discard(site)
        now, names = self._clock(), asked.about.get("sites", [])
        if (meeting := self._meetings.get((epoch, step))) and (why := meeting.apart(site, names)):
            self._stop(StateError("script", why))
        since = self._stuck.setdefault(site, (step, now))
        if since[0] != step:
            since = self._stuck[site] = (step, now)
        passed = [one for one in names if self._at.get(one, (0, 0)) > (epoch, step)]
        if passed and now - since[1] > self._patience:
            LOG.warning("a message from %s to %s was lost: the round is played again", few(passed), site)
            self._lost_at[step, site] = self._lost_at.get((step, site), 0) + 1
            if self._lost_at[step, site] > REPLAYS:
                self._stop(SiteLostError(f"site {site!r}", f"messages from {few(passed)} never come to {site}"))
            self._begin()
        return self._news(site, epoch) or Frame({"status": "ok"})

    def _give(self, site: str, epoch: int, step: int, asked: Frame) -> Frame:
        """Store the public state of the run, given by a site, for rejoining sites."""
        eldest = next((one for one in self.present if one not in self.resting), None)
        if (news := self._news(site, epoch)) is None and self._state is None and site == eldest:
            self._state = Frame({"status": "ok", "run": asked.about.get("run")}, tuple(asked.tensors))
            self._change.notify_all()
        return news or Frame({"status": "ok"})

    def _take(self, site: str, epoch: int, step: int, asked: Frame) -> Frame:
        return self._wait(lambda: self._news(site, epoch) or self._state)

    def _back(self, site: str, epoch: int, step: int, asked: Frame) -> Frame:
        """Queue a site that was left behind for rejoining, and wait until it is admitted."""
        if site not in self.present and site not in self._wanting:
            self._wanting.append(site)

        def admitted() -> Frame | None:
            if self._stopped is not None or (site not in self.present and self.over):
                return self._news(site, epoch)
            return Frame({"status": "ok", **self._told()}) if site in self.present else None

        return self._wait(admitted)

    def _leave(self, site: str, epoch: int, step: int, asked: Frame) -> Frame:
        if site in self._wanting:
            self._wanting.remove(site)
        if site in self.present and self._stopped is None:
            self._leave_behind([site], str(asked.about.get("why")))
        return Frame({"status": "ok"})

    def _fail(self, site: str, epoch: int, step: int, asked: Frame) -> Frame:
        if self._stopped is None and site in self.present:
            self._stop({"site": site, **{part: str(asked.about.get(part)) for part in ERROR}})
        return Frame({"status": "ok"})

    def _finish(self, site: str, epoch: int, step: int, asked: Frame) -> Frame:
        self._done.add(site)
        for meeting in self._meetings.values():
            self._require_all(meeting)
        self._change.notify_all()
        return Frame({"status": "ok"})

    def _stop(self, error: GraphcollabError | dict[str, str]) -> None:
        self._stopped = error if isinstance(error, dict) else as_value(error)
        LOG.error("the run stops: %s", clipped(self.failed))
        self._change.notify_all()

    def _leave_behind(self, sites: Sequence[str], why: str) -> None:
        LOG.warning("%s is left behind: it %s", few(sites), clipped(why))
        self.present = [site for site in self.present if site not in sites]
        self.resting = [site for site in self.resting if site not in sites]
        self._catching_up -= {*sites}
        self.lost |= dict.fromkeys(sites, why)
        if len(self.present) < self.at_least or not {*self.present} - {*self.resting}:
            are = "is" if len(self.present) == 1 else "are"
            left = f"only {few(self.present)} {are} left" if self.present else "no site is left"
            reasons = "; ".join(f"{site} {why}" for site, why in self.lost.items())
            why = f"{left}, and a run needs {self.at_least} (at_least=): {reasons}"
            return self._stop(SiteLostError("at_least", why))
        self._begin()
