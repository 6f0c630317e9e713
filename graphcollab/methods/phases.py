"""`Phases`: one method until a round, then another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.checks import own_filter
from graphcollab._base.errors import ConflictError
from graphcollab._base.piece import Piece
from graphcollab._base.settings import Count, check_settings
from graphcollab.components.env import Env
from graphcollab.components.state import end_phase
from graphcollab.data.tasks import Tasks
from graphcollab.engine.stack import Stacks
from graphcollab.methods.method import Method, Playable, in_step

__all__ = ["Phases"]


@dataclass(frozen=True)
class Phases(Playable):
    """One method until a round, then another.

    The next one starts from the same models. Of what the first one kept in the ``Data`` it finds what its own pieces
    keep too: personal models go on under a second Ditto, and are forgotten under anything else.

    Args:
        method: The method of the first rounds.
        until: First round, from 0, that is played by the next one; at least 1.
        next: A method, or further phases, whose ``until`` is later.

    Raises:
        ValueError: If further phases do not begin later.
    """

    method: Method | Phases
    until: Count
    next: Method | Phases

    def __post_init__(self) -> None:
        check_settings(self)
        if isinstance(self.next, Phases) and self.next.until <= self.until:
            raise ConflictError(
                "until",
                f"{self.next.method.name} begins in round {self.until} and would end before round {self.next.until}: "
                "phases must end one after the other, at rounds counted from the run's start",
            )

    @property
    def name(self) -> str:
        """Both names; the one name of phases that have the same."""
        return self.next.name if self.method.name == self.next.name else f"{self.method.name}→{self.next.name}"

    @property
    def finds_peers(self) -> bool:
        """Whether the first phase that uses edges draws them anew every round."""
        return self.method.finds_peers or (not self.method.along_edges and self.next.finds_peers)

    @property
    def stops(self) -> bool:
        """Whether nodes may stop early in all phases."""
        return self.method.stops and self.next.stops

    def should_stop(self, data: Data) -> bool:
        """Tell whether there is nothing left to do: all nodes have stopped and no phase wakes them up."""
        now = self.at(data.round)
        return now.should_stop(data) and (now is self.next or self.next.stops)

    def walk(self) -> Iterator[Piece]:
        yield from self.method.walk()
        yield from self.next.walk()

    def local_steps(self, sizes: Tensor, rounds: int, start: int = 0) -> Tensor:
        first = self.method.local_steps(sizes, min(rounds, self.until), start)
        return first + self.next.local_steps(sizes, rounds, max(start, self.until))

    def at(self, round_: int) -> Method | Phases:
        """Return the method, or the further phases, that a round belongs to."""
        return self.method if round_ < self.until else self.next

    def last(self, played: int) -> Method:
        """Return the method that played last, after a number of rounds; before the first, the one that will."""
        return self.at(max(played - 1, 0)).last(played)

    def check(self, tasks: Tasks) -> None:
        self.method.check(tasks)
        self.next.check(tasks)

    @in_step
    def start(self, data: Data, env: Env) -> Data:
        """Start the first phase, and try the next one, so that it is refused now; its warnings come in its time."""
        started = self.method.start(data, env)
        with own_filter("ignore"):
            self._begin_next(started, env)
        return started

    def play(self, data: Data, env: Env) -> Data:
        """Play one round of the phase at hand; the next phase is started when its time comes."""
        if data.round == self.until:
            data = self._begin_next(data, env)
        return self.at(data.round).play(data, env)

    def models(self, data: Data, env: Env) -> Stacks:
        """Return the models of the phase that played last."""
        return self.last(data.round).models(data, env)

    def _begin_next(self, data: Data, env: Env) -> Data:
        """Start the next phase, without what only this one kept."""
        return self.next.start(end_phase(data, self.method.fields, self.next.last(self.until + 1).fields), env)
