"""`Rounds`: how sites play rounds that somebody may miss, and learn what they have missed."""

from __future__ import annotations

from graphcollab._base.checks import issue
from graphcollab._base.errors import ConflictError
from graphcollab.comm.transport import Act, Restore, Snapshot
from graphcollab.sites.connection import Connection
from graphcollab.sites.errors import LeftBehind, RoundLost, SiteLostError


class Rounds:
    """The rounds of a run between sites: those that are lost are left behind, and come back between two rounds."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._begun = False
        self._handed = 0  # the epoch in which those that came back were told what they had missed

    def commit(self) -> None:
        """Agree that a round has been played.

        Who has told something has got all before it; so where nothing was sent from site to site since all have told
        something, they have agreed already.
        """
        here = self.connection
        if here.unsure or here.wanted or here.resting:
            here.tell("that a round has been played", commit=True)

    def play(self, act: Act, snapshot: Snapshot, restore: Restore, again: bool = False) -> None:
        """Play a round, or what follows one; from its beginning where a site was lost in the middle of it.

        ``act`` changes nothing of the state before all have agreed that it has been done. ``restore`` takes a
        ``snapshot`` over where this site has missed rounds: they have been played then, unless ``again`` asks for the
        one at hand.
        """
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
        """Let sites that have played fewer rounds than others, as their checkpoints say, learn what they have missed.

        A job may end while the last round is evaluated, so that some sites have saved what has come of that and others
        have not. Then all ``forget`` it and make it again, since they have to take the same steps.
        """
        here = self.connection
        self._begun = True
        if here.past.recalls:  # this site has begun before, and will hear in the first round that it was left behind
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
            except ValueError as error:  # such as: another phase has begun
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
                continue  # somebody else was lost in the meantime
            except ValueError as error:
                here = self.connection.name
                raise SiteLostError(f"site {here!r}", f"{here} was left behind: {error}") from error

    @property
    def _eldest(self) -> str:
        """The first site that has not just come back."""
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
