"""`Connection`: step-by-step participation of a site in a run over any `Link`, across restarts of its script."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphcollab._base.checks import issue
from graphcollab._base.errors import MismatchError
from graphcollab._base.naming import few
from graphcollab.sites.delivery import COORDINATOR, Delivery, Link, Mailbox
from graphcollab.sites.errors import LeftBehind, RoundLost, SiteLostError, as_shared, failure, received
from graphcollab.sites.frame import Frame, FrameError, wrong_message

HEAD = struct.Struct("<16sI")  # checksum of what this site sent, and the number of messages received
ITEM = struct.Struct("<IQ")  # lengths of the sender's name and of its message


class Past:
    """Replay log: a file of the messages received outside of rounds, which a restarted script reads instead of asking.

    A script makes the same requests in the same order whenever it is started. If this site is not ``known`` to the
    others, the content of the file belongs to another run. Without a ``path`` nothing is kept.
    """

    def __init__(self, path: Path | None, known: bool = False) -> None:
        self.path, self._records = path, list[tuple[bytes, dict[str, Frame]]]()
        if path is None:
            return
        length = self._read(path.read_bytes()) if known and path.is_file() else 0
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.truncate(length)  # drops a record cut off by a kill, or all of another run
        self._records.reverse()

    @property
    def recalls(self) -> bool:
        """Whether the log has records left to replay."""
        return bool(self._records)

    def recall(self, told: bytes | None) -> dict[str, Frame]:
        """Replay the next record: messages by sender; a ValueError unless the checksum ``told`` matches (None: any)."""
        before, frames = self._records.pop()
        if told not in (None, before):
            raise MismatchError(
                "data",
                "this site tells something else than before: give it the data and the script that the run began with",
            )
        return frames

    def keep(self, told: bytes, frames: Mapping[str, Frame]) -> None:
        """Append received messages to the log."""
        if self.path is None:
            return
        parts = [HEAD.pack(told, len(frames))]
        for sender, frame in frames.items():
            name, content = sender.encode(), frame.pack()
            parts += [ITEM.pack(len(name), len(content)), name, content]
        with self.path.open("ab") as file:
            file.write(b"".join(parts))
            file.flush()
            os.fsync(file.fileno())

    def _read(self, content: bytes) -> int:
        """Read all complete records and return the end of the last one."""
        end = 0
        while True:
            try:
                told, many = HEAD.unpack_from(content, end)
                at, frames = end + HEAD.size, dict[str, Frame]()
                for _ in range(many):
                    name, length = ITEM.unpack_from(content, at)
                    at += ITEM.size + name
                    frames[content[at - name : at].decode()] = Frame.unpack(content[at : at + length])
                    at += length
            except (struct.error, FrameError, UnicodeDecodeError):
                return end
            self._records.append((told, frames))
            end = at


class Connection:
    """A site's view of the run, with two operations: all-gather values (`tell`), and send to some sites (`swap`).

    ``patience`` is the time in seconds for which an unresponsive coordinator is asked again, ``beat`` the seconds
    between heartbeats, and ``past`` the replay log of a restarted script. ``resting`` sites only listen in this round:
    they have just rejoined, or are ``refused`` because their summands cannot be a model. ``unsure``: something was sent
    from site to site since the last all-gather; ``wanted``: a site wanted to rejoin at that time; ``replays``: the
    current round can be replayed. ``folder`` is the folder of the script, for files that outlast the run. If
    ``listeners`` is None, all sites may hear this one.
    """

    def __init__(self, link: Link, patience: float = 600.0, beat: float = 5.0, past: Path | None = None) -> None:
        self.name, self.sites, self.delivery = link.name, tuple(link.sites), Delivery(link, patience)
        self.present, self.resting, self.refused = self.sites, tuple[str, ...](), dict[str, str]()
        self.epoch = self.step = self.exchanges = self.runs = 0
        self.unsure = self.wanted = self.greeted = self.replays = False
        self.listeners: tuple[str, ...] | None = None
        self.folder: Path | None = None
        self.mailbox = Mailbox(set(self.sites) - {self.name})
        self._received: Exception | None = None
        self._look = min(beat, 1.0)
        link.open(self.mailbox)
        known = bool(self._until({"verb": "hello"}).about["known"])
        self.delivery.say({"verb": "beat"}, 10.0)  # from now on this process speaks for its site
        try:
            self.past = Past(past, known)
        except OSError as error:  # such as a full disk: the others need not wait
            self.leave(error)
            raise
        if known and not self.past.recalls:
            raise SiteLostError(
                f"site {self.name!r}", f"{self.name} has taken part in this run before, and has kept nothing of it"
            )
        self.delivery.beat(beat)

    # ------------------------------------------------------------------------------------------ the two operations

    def tell(
        self, what: str, value: Any = None, tensors: Sequence[Tensor] = (), add: bool = False, **said: Any
    ) -> tuple[dict[str, Any], dict[str, list[Tensor]]]:
        """All-gather a plain value and tensors, and return those of all present sites, by site.

        With ``add``, return the sums of tensors instead, under this site's name. After a ``commit`` all sites have
        played the round; with ``round``, sites that have played fewer rounds rest until the next commit.
        """
        about = {"verb": "meet", "what": what, "value": value, "sum": add, **said}
        if self.past.recalls and not self.replays:
            reply = self.past.recall(_checksum(about, tensors))[COORDINATOR]
        else:
            reply = self._until(about, tensors, what)
            self.exchanges += 1
            self.unsure, self.wanted = False, bool(reply.about["wanting"])
            self._turn(self.step + 1)
            if not self.replays:
                self.past.keep(_checksum(about, tensors), {COORDINATOR: reply})
        names = self.present
        if "resting" in reply.about:
            self.resting = tuple(reply.about["resting"])
        if told := reply.about.get("next"):
            self.enter(told)
        if add:
            return {}, {self.name: list(reply.tensors)}
        counts, rest = reply.about["counts"], iter(reply.tensors)
        values = dict(zip(names, reply.about["values"], strict=True))
        found = {site: [next(rest) for _ in range(count)] for site, count in zip(names, counts, strict=True)}
        if _checksum({"value": value}, tensors) != _checksum({"value": values[self.name]}, found[self.name]):
            raise wrong_message(self.name, f"the coordinator has returned other values than were sent ({what})")
        return values, found

    def swap(
        self, what: str, give: Mapping[str, Sequence[Tensor]], take: Mapping[str, Sequence[Any]]
    ) -> dict[str, tuple[Tensor, ...]]:
        """Send tensors to some sites and return those from others, whose dtypes and shapes are given in ``take``."""
        flat = [one for some in give.values() for one in some]
        told = b"" if self.replays else _checksum({"what": what, "to": [*give]}, flat)
        if self.past.recalls and not self.replays:
            return {sender: tuple(frame.tensors) for sender, frame in self.past.recall(told).items()}
        self.unsure = True
        frames = {to: self.delivery.frame({"verb": "push", "what": what}, some) for to, some in give.items()}
        for to, content in frames.items():
            self.delivery.push(what, to, content)
        while missing := self.mailbox.wait([*take], self._look):
            self._heed(self.delivery.ask(self.delivery.frame({"verb": "missing", "sites": missing})))
        found, came = {}, {sender: self.mailbox.take(sender) for sender in take}
        for sender, kinds in take.items():
            frame = came[sender]
            try:
                if frame.about.get("what") != what:
                    raise FrameError(f"site {sender!r}", f"{what} was due, and {frame.about.get('what')} came")
                found[sender] = tuple(frame.require(*kinds).tensors)
            except FrameError as error:
                raise wrong_message(sender, error) from error
        self.exchanges += 1
        self._turn(self.step + 1)
        if not self.replays:
            self.past.keep(told, came)
        return found

    # ------------------------------------------------------------------------------------- leaving and rejoining

    def enter(self, told: Mapping[str, Any]) -> None:
        """Begin a new epoch."""
        gone = [site for site in self.present if site not in told["present"]]
        for site in gone:
            why = told["lost"].get(site, "is gone")
            message = f"{site} {why}: the run goes on without it, and its part goes to the others"
            issue("lost", f"site {site!r}", message)
        back = [site for site in told["present"] if site not in self.present]
        if back:
            issue("lost", f"site {back[0]!r}", f"{few(back)} {'is' if len(back) == 1 else 'are'} back")
        self._begin(told)

    def _begin(self, told: Mapping[str, Any]) -> None:
        self.present, self.resting = tuple(told["present"]), tuple(told["resting"])
        self.refused = dict(told["refused"])
        self.epoch = int(told["epoch"])
        self._turn(0)

    def come_back(self) -> None:
        """Wait until the others readmit this site."""
        issue("lost", f"site {self.name!r}", f"{self.name} was left behind, and waits to be let in again")
        reply = self._until({"verb": "back"})
        if reply.about["status"] == "over":
            raise SiteLostError(
                f"site {self.name!r}", f"the run has ended while {self.name} was left behind: use its last checkpoint"
            )
        self.enter(reply.about)

    def give(self, content: bytes) -> None:
        """Hand the public state of the run to rejoining sites."""
        state = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        self._until({"verb": "give", "run": self.runs}, [state], "state for a site that comes back")

    def take(self) -> bytes:
        """Return the state handed over by another site."""
        reply = self._until({"verb": "take"})
        if reply.about["run"] != self.runs:
            raise MismatchError(
                "checkpoint",
                "the others have come to another run of their scripts: give each run a checkpoint= folder of its own",
            )
        (content,) = reply.require((torch.uint8, (None,))).tensors
        return bytes(content.numpy().tobytes())

    def fail(self, error: Exception) -> None:
        """Raise an error of this site at all sites, unless it comes from another one; see `as_shared`."""
        if not (error is self._received or isinstance(error, SiteLostError)):
            self.delivery.say({"verb": "fail", **as_shared(error, self.name)}, 10.0)

    def leave(self, why: str | BaseException) -> None:
        """Leave the run for a reason, or by an error; the others get the reason, or `failure` of it, and go on."""
        if not isinstance(why, str):
            why = failure(why)
        self.delivery.say({"verb": "leave", "why": why}, 10.0)
        self.delivery.close()

    def finish(self) -> None:
        """Report that this site has finished, after sending all outstanding messages."""
        self.delivery.drain()
        self.delivery.say({"verb": "finish"}, 30.0)
        self.delivery.close()

    # ------------------------------------------------------------------------------------------------ internals

    def _turn(self, step: int) -> None:
        self.step = step
        self.delivery.place = (self.epoch, step)
        self.mailbox.turn_to(self.epoch, step)

    def _until(self, about: Mapping[str, Any], tensors: Sequence[Tensor] = (), what: str = "") -> Frame:
        content, again = self.delivery.frame(about, tensors), self.delivery.frame(about)
        if what:
            self.delivery.count(what, COORDINATOR, len(content))
        while True:
            reply = self.delivery.ask(content)
            if reply.about["status"] != "wait":
                return self._heed(reply, about["verb"])
            if about["verb"] == "meet":
                content = again  # the coordinator has the tensors

    def _heed(self, reply: Frame, verb: str = "") -> Frame:
        """Return an answer, or raise the error that it reports instead."""
        about = reply.about
        match about.get("status"):
            case "ok":
                return reply
            case "over" if verb == "back":
                return reply
            case "again" if self.replays:
                raise RoundLost(about)
            case "away" | "over" if self.replays:
                raise LeftBehind(about)
            case "again" | "away" | "over":
                error = SiteLostError("sites", self._why_lost(about))
                self._begin(about)  # later requests are answered by the sites present
                raise error
            case "stop":
                self._received = received(about)
                raise self._received
        raise SiteLostError(
            f"site {self.name!r}", f"the coordinator does not take what {self.name} says: {about.get('why')}"
        )

    def _why_lost(self, about: Mapping[str, Any]) -> str:
        if self.name not in about["present"]:
            return f"{self.name} was left behind by the others, who have heard nothing of it for too long"
        reasons = {**about["lost"], **about["refused"]}
        lost = "; ".join(f"{site} {why}" for site, why in reasons.items() if site in self.present)
        return f"all sites must be there before the first round and between runs: {lost or 'a message was lost'}"


def _checksum(about: Mapping[str, Any], tensors: Sequence[Tensor]) -> bytes:
    made = hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=16)
    made.update(Frame({}, tensors).pack())
    return made.digest()
