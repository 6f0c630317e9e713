"""`Session`: a run that has been prepared, and is then played."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Event
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Data

from graphcollab.checks import warn
from graphcollab.method import Method
from graphcollab.metrics import Metric
from graphcollab.phases import Phases
from graphcollab.tasks import Tasks
from graphcollab.threads import same_threads
from graphcollab.train.callbacks import Callback
from graphcollab.train.check import warn_of_undefined
from graphcollab.train.evaluate import evaluate
from graphcollab.train.guards import finish_round_on_interrupt
from graphcollab.train.history import History
from graphcollab.train.result import Result
from graphcollab.train.saver import Saver
from graphcollab.typing import Env

__all__ = ["Evaluation", "ReportIsolated", "Session"]


@dataclass(eq=False)
class Session:
    """A run between two rounds: `graphcollab.train.run` prepares one, and `play` plays what is left of it.

    It plays rounds and calls callbacks; all else is theirs. Files and messages belong to some of them (`Saver`,
    `ReportIsolated`, the user's), without which the others compute the same, so one process of several can have them.

    Args:
        method: What is played.
        tasks: The nodes' data.
        modules: One module per architecture.
        env: What pieces may use; the user's callbacks are its observers.
        data: The state.
        history: What has been evaluated.
        rounds: After how many rounds the run ends.
        threads: How many threads compute.
        callbacks: What else happens, in the order of `Callback`.
        saver: Who holds the folder of the checkpoints, if there is one.
        about: What the run is, for its checkpoints.
    """

    method: Method | Phases
    tasks: Tasks
    modules: Sequence[nn.Module]
    env: Env
    data: Data
    history: History
    rounds: int
    threads: int
    callbacks: Sequence[Callback] = ()
    saver: Saver | None = None
    about: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        self.interrupt = Event()
        self._decided: tuple[int, bool] | None = None
        self._before, self._began = (self.history.seconds[-1] if self.history.seconds else 0.0), time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since the start, those before a resume included."""
        return self._before + time.perf_counter() - self._began

    @property
    def over(self) -> bool:
        """Whether all rounds have been played, or the method or a callback has nothing left to do.

        It is decided once after every round: a callback that looks at the clock would otherwise end a run between two
        questions, and its last round would not be evaluated.
        """
        if self._decided is None or self._decided[0] != self.data.round:
            ends = self.data.round >= self.rounds or self.method.ends(self.data)
            ends = ends or any(callback.ends(self.data, self.history) for callback in self.callbacks)
            self._decided = self.data.round, ends
        return self._decided[1]

    def play(self) -> Result:
        """Play the rounds that are left, and return what came of them."""
        held = nullcontext() if self.saver is None else self.saver.hold(self.about or {})
        with torch.enable_grad(), same_threads(self.threads), held, finish_round_on_interrupt() as self.interrupt:
            try:
                self._decided = None  # it may have been asked before there were callbacks
                for callback in self.callbacks:
                    callback.on_start(self.data, self.history, self.rounds)
                self._decided = None  # what was made up for at the start may decide otherwise
                while not self.over and not self.interrupt.is_set():
                    self._play_round()
                for callback in reversed(self.callbacks):
                    callback.on_stop(self.data, self.history)
            finally:
                for callback in self.callbacks:
                    callback.on_end(self.data, self.history)
        env, interrupted = self.env._replace(observers=()), self.interrupt.is_set()
        return Result(self.method, self.data, self.history, self.tasks, self.modules, env, interrupted)

    def _play_round(self) -> None:
        try:
            self.data = self.method.play(self.data, self.env)
        except Exception:
            self.fail()
            raise
        for callback in self.callbacks:
            callback.on_round(self.data, self.history)

    def fail(self) -> None:
        """Tell callbacks that a round or its evaluation has failed."""
        for callback in self.callbacks:
            callback.on_error(self.data, self.history)


class ReportIsolated(Callback):
    """Warns of the nodes that were left behind, and notes them in the history."""

    def on_round(self, data: Data, history: History) -> None:
        """Report those of this round."""
        for node in data.isolated.nonzero().flatten().tolist():
            name = history.names[node]
            if name in history.isolated:
                continue
            history.isolated[name], why = data.round, data.isolated_because[node]
            history.isolated_because[name] = why
            warn(
                f"{name} was isolated in round {data.round - 1} because {why}: it keeps its last good model and takes "
                "no further part"
            )


class Evaluation(Callback):
    """Evaluates when it is time: after some rounds, and after the last one, whenever that comes.

    A resumed run makes up for an evaluation that failed. Where Ctrl-C has ended a run before anything was evaluated, it
    is evaluated once, after its state was saved, so that a resumed run knows nothing of it.
    """

    def __init__(self, session: Session, metric: Metric, every: int) -> None:
        self.session, self.metric, self.every = session, metric, every
        self.told: set[str] = set()
        data, history = session.data, session.history
        if data.round % every and not session.over and "best" not in data:
            history.forget(data.round)  # made because the round was the last one then

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        """Make up for what is missing."""
        if data.round:
            self.on_round(data, history)

    def on_round(self, data: Data, history: History) -> None:
        """Evaluate if it is time."""
        if history.rounds[-1:] != [data.round] and (data.round % self.every == 0 or self.session.over):
            self._judge()

    def on_stop(self, data: Data, history: History) -> None:
        """Evaluate once where Ctrl-C came early."""
        if self.session.interrupt.is_set() and not len(history):
            self._judge()

    def _judge(self) -> None:
        session = self.session
        data, history = session.data, session.history
        try:
            history.add(data.round, session.seconds, evaluate(session.method, data, session.env, self.metric))
            warn_of_undefined(history, self.metric, self.told)
            for callback in session.callbacks:
                callback.on_evaluate(session.data, history)
        except Exception:
            history.forget(data.round)
            session.fail()
            raise
