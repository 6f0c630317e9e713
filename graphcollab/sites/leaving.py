"""`Leaving`: what would leave a site in a run, found out before anything does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphcollab.method import Method
from graphcollab.phases import Phases

if TYPE_CHECKING:
    from graphcollab.sites.site import Site

__all__ = ["Leaving", "Line", "leaving"]

COORDINATOR = "the coordinator"


@dataclass(frozen=True)
class Line:
    """One kind of message that leaves a site.

    Args:
        what: What it holds.
        to: The site that can read it, or the coordinator, which passes on to all what all are told.
        before: Bytes before the first round.
        each: Bytes in every round that is evaluated.
    """

    what: str
    to: str
    before: int
    each: int


@dataclass(frozen=True)
class Leaving:
    """What would leave a site in a run, as found by a rehearsal among copies of it; its text is a table.

    Args:
        site: The site.
        method: The method's name.
        rounds: Rounds of the run.
        lines: One for each kind of message and each receiver.
        travels: What the method's pieces declare to travel because of them.
    """

    site: str
    method: str
    rounds: int
    lines: tuple[Line, ...]
    travels: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Bytes in all."""
        return sum(line.before + self.rounds * line.each for line in self.lines)

    def __str__(self) -> str:
        width = max(len(line.what) for line in self.lines)
        reader = max(len(line.to) for line in self.lines)
        head = f"{'what':{width}}  {'read by':{reader}}  {'at first':>12}  {'each round':>12}  {'in all':>14}"
        rows = [
            f"{line.what:{width}}  {line.to:{reader}}  {line.before:12,}  {line.each:12,}  "
            f"{line.before + self.rounds * line.each:14,}"
            for line in self.lines
        ]
        travels = [f"  {one}" for one in self.travels]
        return "\n".join(
            [
                f"What would leave {self.site} in {self.rounds} rounds of {self.method}, in bytes "
                "(nothing has left it; samples never do):",
                "",
                head,
                *rows,
                "",
                f"{self.bytes:,} bytes in all. What the method sends, as its pieces declare it:",
                *travels,
            ]
        )


def leaving(site: Site, act: Callable[[Site, int], object], method: Method | Phases, rounds: int) -> Leaving:
    """Rehearse a run of one round and of two, and return what would leave the site in the whole of it.

    Args:
        site: The site.
        act: Plays a run of so many rounds at a site.
        method: The run's method.
        rounds: Rounds of the run itself.
    """
    once, twice = (
        site.rehearse(lambda one, count=count: act(one, count))[site.name].sent  # type: ignore[misc]
        for count in (1, 2)
    )
    lines = []
    for what, to in sorted({*once, *twice}):
        each = twice.get((what, to), 0) - once.get((what, to), 0)
        reader = COORDINATOR if to == "coordinator" else to
        lines.append(Line(what, reader, max(once.get((what, to), 0) - each, 0), each))
    travels = dict.fromkeys(piece.travels for piece in copy.copy(method).walk() if piece.travels)
    return Leaving(site.name, method.name, rounds, tuple(lines), tuple(travels))
