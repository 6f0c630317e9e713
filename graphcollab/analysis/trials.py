"""The trials of a comparison, seed by seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from safetensors import SafetensorError

from graphcollab._base.checks import own_filter
from graphcollab._base.errors import EmptyError, InUseError, OtherRunError
from graphcollab._base.memory import used_up
from graphcollab._base.naming import setting
from graphcollab.analysis.budget import Spending
from graphcollab.analysis.shared_samples import identify_samples
from graphcollab.analysis.trial import COLUMNS, Trial
from graphcollab.comm.meeting import ProcessLostError
from graphcollab.data.tasks import Tasks
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.train.callbacks import Progress
from graphcollab.train.graph_input import Graph
from graphcollab.train.identity import identify_tasks
from graphcollab.train.result import Result
from graphcollab.train.run import run
from graphcollab.train.settings import Checkpoint
from graphcollab.train.start import Model, tasks_of

OF_TRIALS = ("patience", "callbacks")
"""Settings of `run` that apply to trials only."""

LOOKS = 20  # number of evaluations of final models
MODEL = "model"  # name of the setting that holds a trial's model if there are several


@dataclass(frozen=True)
class Contestant:
    """One method with one setting, the ``number``-th of its grid, and its budget."""

    name: str
    number: int
    point: Mapping[str, Any]
    make: Callable[..., Method | Phases]
    model: Model
    graph: Graph = None
    spending: Spending | None = None

    def method(self) -> Method | Phases:
        """Make the method."""
        return self.make(**{name: value for name, value in self.point.items() if name != MODEL})

    def play(
        self, settings: Mapping[str, Any], seed: int, tasks: Tasks, rounds: int, method: Method | None = None
    ) -> Result:
        """Run the method, or another one without a graph, for all rounds; nodes that diverge are isolated."""
        own = {name: value for name, value in settings.items() if name not in OF_TRIALS}
        own |= {"rounds": rounds, "evaluate_every": max(1, rounds // LOOKS), "seed": seed, "on_nonfinite": "isolate"}
        return run(method or self.method(), tasks, self.model, self.graph if method is None else None, **own)


Played: TypeAlias = tuple[Trial, Result | None, Exception | None]
"""A trial, and its result or the error with which it failed."""


@dataclass(frozen=True)
class Trials:
    """All contestants, and the data and settings of their runs; arguments are those of `compare`."""

    contestants: Sequence[Contestant]
    tasks: Callable[[int], Tasks]
    settings: Mapping[str, Any]
    checkpoint: Checkpoint | None = None
    progress: bool = False

    def draw(self, seed: int) -> Tasks:
        """Return the tasks of a seed after checking that they suit all contestants."""
        drawn = tasks_of(self.tasks, seed)
        if int(drawn.sizes("test").sum()) == 0:
            raise EmptyError(
                "tasks", f"compare needs test samples, and no node has any: give {setting(test_fraction=0.2)}"
            )
        first = [one for one in self.contestants if one.number == 0]
        if len(self.contestants) > len(first) and int(drawn.sizes("val").sum()) == 0:
            held = setting(val_fraction=0.2)
            raise EmptyError("tasks", f"grids are searched on validation samples, and there are none: hold out {held}")
        for one in first:  # check all methods before the first run
            one.method().check(drawn)
        return drawn

    def play_all(self, seeds: Sequence[int], drawn: Tasks) -> Generator[Played]:
        """Run all contestants on all seeds in order; the first seed's tasks are given."""
        for number, seed in enumerate(seeds):
            yield from self.play(seed, None if number else drawn)

    def play(self, seed: int, drawn: Tasks | None = None) -> Iterator[Played]:
        """Run all contestants on a seed in order, on tasks that may be given."""
        given: Tasks | Exception
        known: dict[str, Any] = {}
        try:
            with own_filter("ignore", code="quality", subject="metric"):  # reported for the first seed
                given = self.draw(seed) if drawn is None else drawn
            known = {"tasks": identify_tasks(given), "samples": identify_samples(given)}
        except Exception as error:
            given = error
        for one in self.contestants:
            try:
                if isinstance(given, Exception):
                    raise given
                result = self._run(one, seed, given)
            except (InUseError, OtherRunError, ProcessLostError):
                raise  # unrelated to the trial; finished ones are in the folders
            except Exception as error:
                if _of_machine(error):  # such as a full disk, also unrelated to the trial
                    error.add_note(f"in the trial of method {one.name!r} with {dict(one.point)} on seed {seed}")
                    raise
                lost = dict.fromkeys(COLUMNS, math.nan)
                about = {"failure": f"{type(error).__name__}: {error}", "tasks": known.get("tasks", "")}
                yield Trial(one.name, seed, one.point, math.nan, lost, **about), None, error
            else:
                if result.interrupted:
                    raise KeyboardInterrupt(f"stopped in method {one.name!r} with {dict(one.point)} on seed {seed}")
                yield Trial.from_result(one.name, seed, one.point, result, **known), result, None

    def _run(self, one: Contestant, seed: int, drawn: Tasks) -> Result:
        place = self.checkpoint and self.checkpoint.within(f"{one.name}-{one.number}-seed-{seed}")
        spent = {} if one.spending is None else vars(one.spending)
        settings = {**self.settings, **spent, "checkpoint": place}
        if self.progress:
            settings["callbacks"] = [*settings.get("callbacks", ()), Progress(one.name)]
        with (  # `compare` warns once for all trials
            own_filter("ignore", code="quality", subject="metric"),
            own_filter("ignore", code="quality", subject="weights"),
            own_filter("ignore", code="diverged", subject="models"),
        ):
            return run(one.method(), drawn, one.model, one.graph, seed=seed, **settings)


def _of_machine(error: Exception) -> bool:
    """Return whether an error is a failure of the machine (disk, memory), here or in another process."""
    disk = isinstance(error, OSError) or (isinstance(error, SafetensorError) and "os error" in str(error))
    return disk or used_up(error)
