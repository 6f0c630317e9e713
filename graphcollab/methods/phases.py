"""`Phases`: one method up to a given round, then another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.checks import own_filter
from graphcollab._base.errors import ConflictError
from graphcollab._base.piece import Piece
from graphcollab._base.settings import Count, check_settings
from graphcollab.components import Env
from graphcollab.components.state import end_phase
from graphcollab.data.tasks import Tasks
from graphcollab.engine.stack import Stacks
from graphcollab.methods.method import Method, Playable, in_step

__all__ = ["Phases"]


@dataclass(frozen=True)
class Phases(Playable):
    """One method up to a given round, then another.

    The next method starts from the same models. It takes over the state in the ``Data`` that its own pieces keep as
    well: personal models continue under a second Ditto and are dropped under any other method.

    Args:
        method: The method of the first rounds.
        until: First round, counted from 0, that the next method plays; at least 1.
        next: A method, or further phases, whose ``until`` is later.

    Raises:
        ValueError: If further phases do not start later.
    """

    method: Method | Phases
    until: Count
    next: Method | Phases

    def __post_init__(self) -> None:
        check_settings(self)
        if isinstance(self.next, Phases) and self.next.until <= self.until:
            raise ConflictError(
                "until",
                f"{self.next.method.name} begins in round {self.until}, and ends in {self.next.until}: end it later",
            )

    @property
    def name(self) -> str:
        """Both names, or the common name if they are equal."""
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
        """Return whether nothing is left to do: all nodes have stopped and no phase wakes them up."""
        now = self.at(data.round)
        return now.should_stop(data) and (now is self.next or self.next.stops)

    def walk(self) -> Iterator[Piece]:
        yield from self.method.walk()
        yield from self.next.walk()

    def local_steps(self, sizes: Tensor, rounds: int, start: int = 0) -> Tensor:
        first = self.method.local_steps(sizes, min(rounds, self.until), start)
        return first + self.next.local_steps(sizes, rounds, max(start, self.until))

    def at(self, round_: int) -> Method | Phases:
        """Return the method, or the further phases, of a round."""
        return self.method if round_ < self.until else self.next

    def last(self, played: int) -> Method:
        """Return the method that played last after ``played`` rounds; before the first, the one that will play."""
        return self.at(max(played - 1, 0)).last(played)

    def check(self, tasks: Tasks) -> None:
        self.method.check(tasks)
        self.next.check(tasks)

    @in_step
    def start(self, data: Data, env: Env) -> Data:
        """Start the first phase, and try the next, so that it fails now if at all; it issues its warnings when due."""
        started = self.method.start(data, env)
        with own_filter("ignore"):
            self._begin_next(started, env)
        return started

    def play(self, data: Data, env: Env) -> Data:
        """Play one round of the current phase; start the next phase when its round comes."""
        if data.round == self.until:
            data = self._begin_next(data, env)
        return self.at(data.round).play(data, env)

    def models(self, data: Data, env: Env) -> Stacks:
        """Return the evaluated models of the phase that played last."""
        return self.last(data.round).models(data, env)

    def _begin_next(self, data: Data, env: Env) -> Data:
        """Start the next phase, without the state that only this one kept."""
        return self.next.start(end_phase(data, self.method.fields, self.next.last(self.until + 1).fields), env)
