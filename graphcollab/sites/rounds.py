"""`Rounds`: rounds that sites may miss, and how these sites catch up."""

from __future__ import annotations

from graphcollab._base.checks import issue
from graphcollab._base.errors import ConflictError
from graphcollab.comm.transport import Act, Restore, Snapshot
from graphcollab.sites.connection import Connection
from graphcollab.sites.errors import LeftBehind, RoundLost, SiteLostError


class Rounds:
    """Rounds of a run between sites: lost sites are left behind, and rejoin between two rounds."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._begun = False
        self._handed = 0  # the epoch in which rejoining sites received the state

    def commit(self) -> None:
        """Agree that a round has been played."""
        here = self.connection
        if here.unsure or here.wanted or here.resting:
            here.tell("that a round has been played", commit=True)

    def play(self, act: Act, snapshot: Snapshot, restore: Restore, again: bool = False) -> None:
        """Play a round, or what follows one; replay it if a site is lost: ``act`` changes no state before all agree."""
        self.connection.replays = True
        try:
            while True:
                try:
                    act()
                    break
                except LeftBehind:
                    self._come_back(snapshot, restore)
                    if not again:
                        return
                except RoundLost as lost:
                    self.connection.enter(lost.told)
            if {*self.connection.resting} - {*self.connection.refused}:
                self._hand_over(snapshot, restore)
        finally:
            self.connection.replays = False

    def begin(self, round_: int, evaluated: bool, forget: Act, snapshot: Snapshot, restore: Restore) -> None:
        """Let sites whose checkpoints have fewer rounds than others catch up."""
        here = self.connection
        self._begun = True
        if here.past.recalls:  # this site has begun before: the first round reports that it was left behind
            here.past.recall(None)
            return
        told, _ = here.tell("rounds played so far", [round_, evaluated], round=round_)
        if not all(has for played, has in told.values() if played == max(told.values())[0]):
            forget()
        if here.name in here.resting:
            played = f"{here.name} has played {round_} rounds, as its checkpoints say"
            goes_on = "it goes on from where they are with its own model as it was then"
            issue("other-run", f"site {here.name!r}", f"{played}, and others have played more: {goes_on}")
            try:
                restore(here.take())
            except ValueError as error:  # for example, another phase has begun
                cure = "Bring its newer checkpoints back, or let all sites start afresh, in other checkpoint= folders"
                message = f"{played}, and cannot go on where others are: {error}. {cure}"
                raise ConflictError("checkpoint", message) from error
        elif here.resting and here.name == self._eldest:
            here.give(snapshot())

    def _come_back(self, snapshot: Snapshot, restore: Restore) -> None:
        while True:
            try:
                self.connection.come_back()
                return restore(self.connection.take())
            except RoundLost:
                continue  # another site was lost in the meantime
            except ValueError as error:
                here = self.connection.name
                raise SiteLostError(f"site {here!r}", f"{here} was left behind: {error}") from error

    @property
    def _eldest(self) -> str:
        """The first site that has not just rejoined."""
        here = self.connection
        return next(site for site in here.present if site not in here.resting)

    def _hand_over(self, snapshot: Snapshot, restore: Restore) -> None:
        here = self.connection
        if here.name != self._eldest or self._handed == here.epoch:
            return
        self._handed = here.epoch
        try:
            here.give(snapshot())
        except LeftBehind:
            self._come_back(snapshot, restore)
        except RoundLost as lost:
            here.enter(lost.told)
