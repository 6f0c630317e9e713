"""`Session`: a prepared run, ready to be played."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Data

from graphcollab._base.checks import issue
from graphcollab._base.threads import same_threads
from graphcollab.analysis.metrics import Metric
from graphcollab.comm.plane import Plane
from graphcollab.components import Env
from graphcollab.components.state import LOOP, tell_all
from graphcollab.persistence.history import History
from graphcollab.persistence.saver import Saver
from graphcollab.train.callbacks import Callback, Progress
from graphcollab.train.evaluation import SENT, evaluate, out_of_patience, remember_best
from graphcollab.train.findings import (
    may_have_dropped,
    note_dropped,
    report_collapse,
    report_divergence,
    told_by_table,
    warn_of_undefined,
)
from graphcollab.train.identity import require_one_state
from graphcollab.train.missed import hand_over, take_over
from graphcollab.train.result import Result
from graphcollab.train.settings import RunSettings


@dataclass(eq=False)
class Session:
    """A run between two rounds: `graphcollab.run` prepares one, and `play` plays the remaining rounds."""

    settings: RunSettings
    modules: Sequence[nn.Module]
    env: Env
    data: Data
    history: History
    threads: int
    metric: Metric
    saver: Saver | None = None

    def __post_init__(self) -> None:
        self.over = self.asked = self._due = self._told = self._looked_at = False
        self._interrupt = threading.Event()
        self._shown: Data | None = None
        self._before, self._began = (self.history.seconds[-1] if self.history.seconds else 0.0), time.perf_counter()
        if self.data.round % self.settings.evaluate_every and not self._finished() and "best" not in self.data:
            self.history.forget(self.data.round)  # made only because the round was the last one then

    def play(self) -> Result:
        """Play the remaining rounds and return the result."""
        plane = self.env.plane
        with torch.enable_grad(), same_threads(self.threads), _finish_round_on_interrupt() as self._interrupt:
            try:
                looks = any(not isinstance(callback, Progress) for callback in self.env.observers)
                self._looked_at = looks if plane.cross_silo else any(plane.all_gather_object(looks))
                with plane.raise_on_all():
                    self._begin()
                    for callback in self.env.observers:
                        callback.on_start(self.seen, self.history, self.settings.rounds)
                self._play(self._close_round, again=True)
                while not (self.over or self.asked):
                    self._play_round()
                self._play(self._stop, again=True)
            finally:
                for callback in self.env.observers:
                    callback.on_end(self.data, self.history)
        env = self.env._replace(observers=())
        return Result(self.settings.method, self.shown, self.history, env.engine.tasks, self.modules, env, self.asked)

    def _begin(self) -> None:
        """Continue from the same state as all other processes."""
        round_ = self.data.round
        evaluated = self.history.rounds[-1:] == [round_]
        forget = partial(self.history.forget, round_)
        self.env.plane.begin(round_, evaluated, forget, self._told_to_others, self._take_over)

    def _play(self, act: Callable[[], None], again: bool = False) -> None:
        """Run ``act`` in all processes, and again if a process was lost in the middle of it."""
        self.env.plane.play(act, self._told_to_others, self._take_over, again)

    def _play_round(self) -> None:
        try:
            self._play(self._take_round)
        except Exception:
            self._save()
            raise
        self._shown = None
        self._play(self._end_round, again=True)
        if self._due and self.saver:
            self.saver.save(self.data, self.history)

    def _take_round(self) -> None:
        data = self.settings.method.play(self.data, self.env)
        self.env.plane.commit()
        self.data = data

    def _end_round(self) -> None:
        with self.env.plane.raise_on_all():
            _report_isolated(self.data, self.history)
            _report_refused(self.env.plane, self.data.round, self.history)
            if may_have_dropped(self.settings.method, self.data):
                note_dropped(self.settings.method, self.shown, self.env, self.history)
            for callback in self.env.observers:
                callback.on_round(self.seen, self.history)
        self._close_round()

    def _close_round(self) -> None:
        # decided once after every round, in one meeting: otherwise a callback that looks at the clock could end a run
        # between two questions, and its last round would not be evaluated
        round_ = self.data.round
        missing = round_ > 0 and self.history.rounds[-1:] != [round_]
        if missing and round_ % self.settings.evaluate_every == 0:
            self._evaluate()
            missing = False
        over = (
            self._finished()
            or any(callback.should_stop(self.seen, self.history) for callback in self.env.observers)
            or (self.settings.patience is not None and out_of_patience(self.data, self.history, self.settings.patience))
        )
        due = self.saver is not None and self.saver.due(round_)
        self.asked, self.over, self._due = self._decided(self._interrupt.is_set(), over, due)
        if missing and self.over:
            self._evaluate()

    def _decided(self, asked: bool, over: bool, due: bool) -> tuple[bool, bool, bool]:
        """Return the decisions for all processes: whether an interrupt was requested, the run is over, and to save."""
        plane = self.env.plane
        if plane.cross_silo:
            looks = any(type(callback).should_stop is not Callback.should_stop for callback in self.env.observers)
            met = looks and not self._finished()  # a site that comes back after the end finds no other site
            return asked, plane.all_gather_object(over)[0] if met else over, due
        told = plane.all_gather_object([asked, over, due])
        return any(one[0] for one in told), told[0][1], told[0][2]

    def _told_to_others(self) -> bytes:
        return hand_over(self.data, self.history, (*LOOP, *self.settings.method.fields))

    def _take_over(self, content: bytes) -> None:
        """Continue from the state of the other sites, which have played rounds without this one."""
        self.data, history = take_over(content, self.data, (*LOOP, *self.settings.method.fields), self.history)
        vars(self.history).update(vars(history))
        self._shown = None

    @property
    def shown(self) -> Data:
        """The state for observers: values that nodes know by themselves are published."""
        if self._shown is None:
            self._shown = tell_all(self.data, (*LOOP, *self.settings.method.fields), self.env.plane)
        return self._shown

    @property
    def seen(self) -> Data:
        """The state that callbacks get: values that only some processes know are published if one may read them."""
        return self.shown if self._looked_at else self.data

    def _finished(self) -> bool:
        return self.data.round >= self.settings.rounds or self.settings.method.should_stop(self.data)

    def _evaluate(self) -> None:
        data, history = self.data, self.history
        seconds = self._before + time.perf_counter() - self._began  # including those before a resume
        try:
            require_one_state(data, (*LOOP, *self.settings.method.fields), self.env.plane)
            with self.env.plane.raise_on_all():
                values = evaluate(self.settings.method, data, self.env, self.metric)
                if self.env.plane.cross_silo and len(history):  # counts of absent sites are not known
                    values |= {name: torch.maximum(values[name], history.last(name)) for name in SENT}
                history.add(data.round, seconds, values)
                self._warn_of_undefined()
                for callback in self.env.observers:
                    callback.on_evaluate(self.seen, history)
            if self.settings.patience is not None:
                self.data = remember_best(data, history)
        except BaseException as error:  # also if a site was lost, and the evaluation is repeated
            history.forget(data.round)
            if isinstance(error, Exception):
                self._save()
            raise

    def _save(self) -> None:
        if self.saver:
            self.saver.finish(self.data, self.history)

    def _stop(self) -> None:
        """Save the last state; a resumed run does not know of anything done after it."""
        self._save()
        if self.asked and not len(self.history):
            self._evaluate()
        if self.settings.patience is not None and "best" in self.data:
            self.history.returned = self.data.best["evaluation"]
            self.data, self._shown = Data(**self.data.best["state"]), None
        with self.env.plane.raise_on_all():
            report_collapse(self.settings.method, self.shown, self.env, self.history)
            report_divergence(self.settings.method, self.data, self.env, self.history)

    def _warn_of_undefined(self) -> None:
        if not self._told and any(map(self.history.undefined, ("val", "test"))):
            known = told_by_table(self.env.engine.tasks)
            if not self.env.plane.cross_silo:  # a party only reads its own warnings
                known = [*itertools.chain(*self.env.plane.all_gather_object(known))]
            self._told = warn_of_undefined([self.history], self.metric, len(self.history.names), known)


@contextmanager
def _finish_round_on_interrupt() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into a request that is honored after the round; the second one interrupts."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    previous = signal.getsignal(signal.SIGINT) or signal.SIG_DFL

    def ask(number: int, frame: Any) -> None:
        asked.set()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, previous)


def _report_isolated(data: Data, history: History) -> None:
    for node in data.isolated.nonzero().flatten().tolist():
        name = history.names[node]
        if name not in history.isolated:
            history.isolated[name], why = data.round, data.isolated_because[node]
            history.isolated_because[name] = why
            issue(
                "diverged",
                f"node {name!r}",
                f"{name} was isolated in round {data.round - 1} because {why}: it keeps its last good model and takes "
                "no further part",
            )


def _report_refused(plane: Plane, round_: int, history: History) -> None:
    for node, why in plane.refused.items():
        name = history.names[node]
        if name not in history.refused:
            issue(
                "diverged",
                f"node {name!r}",
                f"{name} {why}: it counts as away in round {round_} (from 1); history.refused lists all such rounds",
            )
        rounds = history.refused.setdefault(name, [])
        rounds += [round_] * (round_ not in rounds)
