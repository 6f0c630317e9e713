"""`Leaving`: what would leave a site in a run, determined before anything does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphcollab._base.piece import Reader
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.sites.connection import Connection
from graphcollab.sites.delivery import COORDINATOR
from graphcollab.sites.transport import SUMS

ADDED = "the coordinator; all: the sum"
READERS: dict[Reader, str] = {
    "listeners": "sites that may hear it",
    "coordinator": "the coordinator, to be added up",
    "everybody": "everybody",
}


@dataclass(frozen=True)
class Line:
    """One kind of message that leaves a site.

    Args:
        what: Its content, followed by number types and shapes.
        to: The site that can read it; ``"everybody"``, including the coordinator; or, for summands, ``"the coordinator;
            all: the sum"``.
        messages: Number of messages in the whole run.
        bytes: Their total size.
    """

    what: str
    to: str
    messages: int
    bytes: int


@dataclass(frozen=True)
class Leaving:
    """What would leave a site in a run, as found by a rehearsal among copies of the site; its text is a table.

    Which sites exchange messages may be drawn or determined during the run, so messages to single sites are listed with
    the maximum that one site received in the rehearsal. Models are larger if others have categories or classes that
    this site lacks. Heartbeats, which carry no content, are left out.

    Args:
        site: Name of the site.
        method: Name of the method.
        sites: Number of sites in the rehearsal.
        rounds: Rounds of the run.
        lines: One line for each kind of message and each receiver.
        told: Disclosures declared by the method's pieces, by recipient, see `Piece.told`.
    """

    site: str
    method: str
    sites: int
    rounds: int
    lines: tuple[Line, ...]
    told: dict[Reader, tuple[str, ...]]

    @property
    def bytes(self) -> int:
        """Total number of bytes."""
        return sum(line.bytes for line in self.lines)

    def __str__(self) -> str:
        width, reader = (
            max(len(text) for text in column) for column in zip(*((x.what, x.to) for x in self.lines), strict=True)
        )
        rows = [f"{x.what:{width}}  {x.to:{reader}}  {x.messages:8,}  {x.bytes:14,}" for x in self.lines]
        lines = [
            f"What would leave {self.site} in {self.rounds} rounds of {self.method} among {self.sites} sites "
            "(nothing has left it; samples never do):",
            "",
            f"{'what':{width}}  {'read by':{reader}}  messages  {'bytes':>14}",
            *rows,
            "",
            f"{self.bytes:,} bytes in all. What the method tells, besides scores and counters:",
            *(f"  to {READERS[reader]}: {'; '.join(what) or 'nothing'}" for reader, what in self.told.items()),
            "Whatever the method: of the table its columns, numbers of rows, sums and squared deviations (unless "
            'pooled="per_site"), and names of categories and classes; graphcollab.sites.told_by_site lists them.',
            "Everybody: all sites and the coordinator.",
            "docs/threat_model.md says all of it. Models are larger where other sites have categories or classes "
            "that this one has not.",
        ]
        return "\n".join(lines)


def leaving(
    site: str, listeners: Sequence[str] | None, played: Mapping[str, Connection], method: Method | Phases, rounds: int
) -> Leaving:
    """Return what would leave a site in a rehearsed run, given each site's connection; ``listeners`` None: all."""
    sent, others = played[site].delivery.sent, sorted({*played} - {site})
    lines = []
    for what in sorted({what for what, _ in sent}):
        found = {to: sent[what, to] for to in [COORDINATOR, *others] if (what, to) in sent}
        if summed := found.pop(COORDINATOR, None):
            lines.append(Line(what, ADDED if what.startswith(SUMS) else "everybody", *summed))
        if found:
            most = [max(many) for many in zip(*found.values(), strict=True)]
            lines += [Line(what, to, *most) for to in others if to in found or listeners is None or to in listeners]
    pieces = [*method.walk()]
    told = {one: tuple(dict.fromkeys(piece.told[one] for piece in pieces if one in piece.told)) for one in READERS}
    return Leaving(site, method.name, len(played), rounds, tuple(lines), told)
