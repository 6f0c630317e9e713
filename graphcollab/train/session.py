"""`Session`: a run that has been prepared, and is then played; `evaluate`: how good every node's model is."""

from __future__ import annotations

import copy
import itertools
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphcollab.checks import warn
from graphcollab.control.guard import large_targets
from graphcollab.control.shares import tell_all
from graphcollab.control.state import LOOP
from graphcollab.engine import NonFiniteLossError, Rows
from graphcollab.method import Method
from graphcollab.metrics import Metric, score_rows
from graphcollab.phases import Phases
from graphcollab.threads import same_threads
from graphcollab.train.callbacks import Callback, Progress
from graphcollab.train.collapse import may_have_dropped, note_dropped, report_collapse
from graphcollab.train.history import History
from graphcollab.train.identity import require_one_state
from graphcollab.train.missed import hand_over, take_over
from graphcollab.train.result import Result
from graphcollab.train.saver import Saver
from graphcollab.train.undefined import Undefined, told_by_table
from graphcollab.typing import Env

__all__ = ["Session", "evaluate", "out_of_patience", "remember_best"]

SENT = ("bytes_sent", "messages_sent")


@dataclass(eq=False)
class Session:
    """A run between two rounds: `graphcollab.train.run` prepares one, and `play` plays what is left of it.

    It plays, evaluates and tells when it is over; all else is for callbacks and the saver, without which it computes
    the same. An evaluation that failed is made up for when the run is resumed. With patience the best state is kept in
    the ``Data``, so that a resumed run ends at the same evaluation. Its arguments are those of `run`, and what that has
    made of them.
    """

    method: Method | Phases
    modules: Sequence[nn.Module]
    env: Env
    data: Data
    history: History
    rounds: int
    threads: int
    metric: Metric
    every: int = 1
    patience: int | None = None
    callbacks: Sequence[Callback] = ()
    saver: Saver | None = None

    def __post_init__(self) -> None:
        self.over = self.asked = self._due = self._told = self._looked_at = False
        self._interrupt = threading.Event()
        self._shown: Data | None = None
        self._before, self._began = (self.history.seconds[-1] if self.history.seconds else 0.0), time.perf_counter()
        if self.data.round % self.every and not self._finished() and "best" not in self.data:
            self.history.forget(self.data.round)  # made because the round was the last one then

    def play(self) -> Result:
        """Play the rounds that are left, and return what came of them."""
        plane = self.env.plane
        with torch.enable_grad(), same_threads(self.threads), _finish_round_on_interrupt() as self._interrupt:
            try:
                looks = any(not isinstance(callback, Progress) for callback in self.callbacks)
                self._looked_at = looks if plane.private else any(plane.everyone(looks))
                with plane.agreed():
                    plane.begin(self.data.round, self._told_to_others, self._take_over)
                    for callback in self.callbacks:
                        callback.on_start(self.seen, self.history, self.rounds)
                self._play(self._close_round, again=True)
                while not (self.over or self.asked):
                    self._play_round()
                self._play(self._stop, again=True)
            finally:
                for callback in self.callbacks:
                    callback.on_end(self.data, self.history)
        env = self.env._replace(observers=())
        return Result(self.method, self.shown, self.history, env.engine.tasks, self.modules, env, self.asked)

    def _play(self, act: Callable[[], None], again: bool = False) -> None:
        """Do something in all processes, again where one was lost in the middle of it."""
        self.env.plane.play(act, self._told_to_others, self._take_over, again)

    def _play_round(self) -> None:
        try:
            self._play(self._take_round)
        except Exception:
            self._fail()
            raise
        self._shown = None
        self._play(self._end_round, again=True)
        if self._due and self.saver:
            self.saver.save(self.data, self.history)

    def _take_round(self) -> None:
        data = self.method.play(self.data, self.env)
        self.env.plane.commit()
        self.data = data

    def _end_round(self) -> None:
        with self.env.plane.agreed():
            _report_isolated(self.data, self.history)
            if may_have_dropped(self.method, self.data):
                note_dropped(self.method, self.shown, self.env, self.history)
            for callback in self.callbacks:
                callback.on_round(self.seen, self.history)
        self._close_round()

    def _close_round(self) -> None:
        """Evaluate, and decide whether this was the last round, and whether it is time to save."""
        # decided once after every round, in one meeting: a callback that looks at the clock would otherwise end a run
        # between two questions, and its last round would not be evaluated
        round_ = self.data.round
        missing = round_ > 0 and self.history.rounds[-1:] != [round_]
        if missing and round_ % self.every == 0:
            self._evaluate()
            missing = False
        over = (
            self._finished()
            or any(callback.ends(self.seen, self.history) for callback in self.callbacks)
            or (self.patience is not None and out_of_patience(self.data, self.history, self.patience))
        )
        due = self.saver is not None and self.saver.due(round_)
        self.asked, self.over, self._due = self._decided(self._interrupt.is_set(), over, due)
        if missing and self.over:
            self._evaluate()

    def _decided(self, asked: bool, over: bool, due: bool) -> tuple[bool, bool, bool]:
        """Return what is decided for all: whether an interrupt was asked for, the run is over, and it is to be saved.

        Between sites each saves, and is interrupted, by itself; and they know alike when a run is over, unless
        something looks on that may end it.
        """
        plane = self.env.plane
        if plane.private:
            looks = any(type(callback).ends is not Callback.ends for callback in self.callbacks)
            return asked, plane.everyone(over)[0] if looks else over, due
        told = plane.everyone([asked, over, due])
        return any(one[0] for one in told), told[0][1], told[0][2]

    def _told_to_others(self) -> bytes:
        return hand_over(self.data, self.history, (*LOOP, *self.method.fields))

    def _take_over(self, content: bytes) -> None:
        """Go on from where others are, who have played rounds without this site."""
        self.data, history = take_over(content, self.data, (*LOOP, *self.method.fields), self.history)
        vars(self.history).update(vars(history))
        self._shown = None

    @property
    def shown(self) -> Data:
        """The state for those who look on: what nodes know by themselves is told to all."""
        if self._shown is None:
            self._shown = tell_all(self.data, (*LOOP, *self.method.fields), self.env.plane)
        return self._shown

    @property
    def seen(self) -> Data:
        """The state that callbacks are given: what only some know is told to all if one of them may look at it."""
        return self.shown if self._looked_at else self.data

    def _finished(self) -> bool:
        return self.data.round >= self.rounds or self.method.ends(self.data)

    def _evaluate(self) -> None:
        data, history = self.data, self.history
        seconds = self._before + time.perf_counter() - self._began  # those before a resume included
        try:
            require_one_state(data, (*LOOP, *self.method.fields), self.env.plane)
            with self.env.plane.agreed():
                values = evaluate(self.method, data, self.env, self.metric)
                if self.env.plane.private and len(history):  # what sites have counted that are not there is not told
                    values |= {name: torch.maximum(values[name], history.last(name)) for name in SENT}
                history.add(data.round, seconds, values)
                self._warn_of_undefined()
                for callback in self.callbacks:
                    callback.on_evaluate(self.seen, history)
            if self.patience is not None:
                self.data = remember_best(data, history)
        except BaseException as error:  # also where a site was lost, and it is done again
            history.forget(data.round)
            if isinstance(error, Exception):
                self._fail()
            raise

    def _fail(self) -> None:
        for callback in self.callbacks:
            callback.on_error(self.data, self.history)
        if self.saver:
            self.saver.finish(self.data, self.history)

    def _stop(self) -> None:
        """Save the last state; what is done after it a resumed run knows nothing of."""
        if self.saver:
            self.saver.finish(self.data, self.history)
        if self.asked and not len(self.history):
            self._evaluate()
        if self.patience is not None and "best" in self.data:
            self.history.returned = self.data.best["evaluation"]
            self.data, self._shown = Data(**self.data.best["state"]), None
        with self.env.plane.agreed():
            report_collapse(self.method, self.shown, self.env, self.history)
            for callback in reversed(self.callbacks):
                callback.on_stop(self.shown, self.history)

    def _warn_of_undefined(self) -> None:
        """Say, once per run, which nodes have no value of the metric although they have samples."""
        if not self._told:
            found = Undefined()
            found.add(self.history)
            if found.nodes:
                told = told_by_table(self.env.engine.tasks)
                if not self.env.plane.private:  # a party reads its own warnings only
                    told = [*itertools.chain(*self.env.plane.everyone(told))]
                self._told = found.warn(self.metric, len(self.history.names), told)


@contextmanager
def _finish_round_on_interrupt() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into a request that is met after the round; the second one interrupts."""
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
            warn(
                f"{name} was isolated in round {data.round - 1} because {why}: it keeps its last good model and takes "
                "no further part"
            )


def remember_best(data: Data, history: History) -> Data:
    """Keep the state after the best evaluation so far; one without a value (NaN) is neither better nor worse."""
    value = history.mean("val_metric")[-1] * (1 if history.higher_is_better else -1)
    if math.isnan(value) or ("best" in data and value <= data.best["value"]):
        return data
    data = copy.copy(data)
    state = {name: data[name] for name in sorted(data.keys()) if name != "best"}
    data.best = {"value": value, "evaluation": len(history) - 1, "state": state}
    return data


def out_of_patience(data: Data, history: History, patience: int) -> bool:
    """Tell whether the best evaluation is long ago; evaluations without a value do not count."""
    since = history.values["val_metric"][data.best["evaluation"] + 1 :] if "best" in data else []
    return sum(not bool(values.isnan().all()) for values in since) >= patience


def evaluate(method: Method | Phases, data: Data, env: Env, metric: Metric) -> dict[str, Tensor]:
    """Return loss and metric of every node's model on its validation and test samples, and what else is known of it.

    That is training loss, bytes, messages, and what the run's observers have seen (`Callback.values`). Nodes that did
    not belong to the collaboration in the last round (`Attendance`) have NaN for all but bytes and messages, so that
    means are over the others.

    A node has diverged if its loss or one of its model's predictions is not finite on a split where it has samples;
    nodes that have neither validation nor test samples are judged on their training samples. A metric without a value
    (an AUC of one class) is something else: it is NaN, and the loss finite.

    Raises:
        NonFiniteLossError: If a node has diverged. Where the run isolates such nodes its loss is infinite instead, in
            case that it was not found in training: an infinite validation or test loss, and no metric.
        ValueError: If a callback observed something other than one value per node, or under a name that is taken.
    """
    models, tasks, attend = method.models(data, env), env.engine.tasks, env.attend
    member = torch.ones_like(data.isolated) if attend is None else attend.members(data, max(data.round - 1, 0))
    judged = unseen = member & ~data.isolated
    parts = {"train_loss": env.plane.part(data.train_loss), **{name: data[name] for name in SENT}}
    for split in ("val", "test"):
        if int(tasks.sizes(split).sum()) == 0:
            continue
        scored = score_rows(env.engine, Rows.own(models), split, metric)
        for what, value in zip(("loss", "metric"), scored, strict=True):
            parts[f"{split}_{what}"] = env.plane.part(env.plane.here(value, data.num_nodes))
        unseen = unseen & (tasks.sizes(split) == 0)
    if bool(unseen.any()):
        loss, own = torch.zeros(len(unseen), dtype=torch.float64), env.plane.at_home(unseen.nonzero().flatten())
        loss[own] = score_rows(env.engine, Rows.own(models, own), "train", metric)[0]
        parts["loss"] = loss
    told = env.plane.fill_in("losses and scores of the site, and how much it has sent", *parts.values())
    values = dict(zip(parts, told, strict=True))
    for split, whose in (("val", judged), ("test", judged), ("train", unseen)):
        if (name := f"{split}_loss" if split != "train" else "loss") in values:
            _require_finite(values[name], whose, data, env, split)
    values.pop("loss", None)
    for observer in env.observers:
        observer.before_evaluate(models, env)
        for name, value in observer.values().items():
            where = f"{type(observer).__name__}.values()[{name!r}]"
            if name in values:
                raise ValueError(f"{where} would replace what the evaluation has under that name: choose another")
            if not isinstance(value, Tensor) or value.shape != unseen.shape:
                got = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise ValueError(f"{where} must be one value per node, a tensor of shape [{len(unseen)}], got {got}")
            values[name] = value.cpu()
    known = member if env.plane.complete else member & env.plane.there
    if bool(known.all()):
        return values
    return {name: v if name in SENT else v.masked_fill(~known, torch.nan) for name, v in values.items()}


def _require_finite(loss: Tensor, judged: Tensor, data: Data, env: Env, split: str) -> None:
    """Stop the run at a node that has diverged; where such nodes are to be isolated, say that it was not found."""
    bad = (torch.isinf(loss) & judged).nonzero().flatten()
    if not len(bad):
        return
    others = f" (and {len(bad) - 1} more nodes)" if len(bad) > 1 else ""
    found = (
        f"{env.engine.tasks.names[int(bad[0])]}{others}: loss or predictions are not finite on its {split} samples "
        f"after {data.round} round{'' if data.round == 1 else 's'}"
    )
    if not env.isolate:
        raise NonFiniteLossError(f"{found}: use a smaller step size, or check the node's data{large_targets(env)}")
    warn(f"{found}: its training samples are fine, so it is not isolated, and there is no mean over nodes")
