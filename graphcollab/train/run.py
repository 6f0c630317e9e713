"""`run`: the only outer loop."""

from __future__ import annotations

import copy
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.comm import Comm
from graphcollab.local import Engine, Plan, Rows
from graphcollab.method import Method, Phases
from graphcollab.metrics import Metric, as_metric
from graphcollab.stack import ParamSpec, Stacks
from graphcollab.tasks import Tasks
from graphcollab.train.callbacks import Callback, Progress
from graphcollab.train.check import check_outputs
from graphcollab.train.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from graphcollab.train.history import History
from graphcollab.train.result import Result
from graphcollab.train.start import Graph, Model, build_graph, build_modules
from graphcollab.typing import Env

__all__ = ["evaluate", "run"]


def run(
    method: Method | Phases,
    tasks: Tasks,
    model: Model,
    graph: Graph = None,
    *,
    rounds: int = 100,
    seed: int = 0,
    architecture: Sequence[int] | Tensor | None = None,
    evaluate_every: int = 1,
    callbacks: Sequence[Callback] = (),
    progress: bool | str = False,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 1,
    resume: bool = True,
    patience: int | None = None,
    on_nonfinite: str = "stop",
    device: torch.device | str = "cpu",
    backend: str = "auto",
    chunk: int | None = None,
    autocast: bool = False,
) -> Result:
    """Train personalised models and the graph between them.

    Ctrl-C finishes the round, saves, and returns; pressed again it stops at once.

    Args:
        method: What to do in a round, for example ``graphcollab.meta_l2c()``.
        tasks: The nodes' data.
        model: A module, or a function that makes one (initialised from the seed), or one per architecture.
        graph: Allowed edges: a ``Data``, an ``edge_index``, a topology transform, or None for all pairs.
        rounds: Rounds to play.
        seed: Seed of everything random.
        architecture: Architecture of every node, [K], where there are several.
        evaluate_every: Rounds between evaluations; the last round is always evaluated.
        callbacks: See `Callback`.
        progress: Show a progress bar, with a label if it is a string.
        checkpoint: Folder for checkpoints. Default: none are written.
        checkpoint_every: Rounds between checkpoints.
        resume: Go on from the newest checkpoint in the folder if there is one; it must be of the same run.
        patience: Stop when the mean validation metric has not improved for this many evaluations, and return the best
            models.
        on_nonfinite: ``"stop"`` at a loss that is not finite, or ``"isolate"`` its node and go on.
        device: Where to compute.
        backend: ``"auto"``, ``"vmap"`` or ``"loop"``.
        chunk: Rows computed at a time. Default: by rule.
        autocast: Compute forward passes in bfloat16.

    Raises:
        ValueError: If the input is not usable; nothing has been trained then.
        NonFiniteLossError: If a node's loss is not finite; the last checkpoint is intact.

    Example:
        >>> from graphcollab.methods import local
        >>> x, y = torch.randn(20, 3), torch.randint(2, (20,))
        >>> result = run(local(), Tasks.from_samples([(x, y), (x, y)]), torch.nn.Linear(3, 2), rounds=2)
        >>> result.history.rounds
        [1, 2]
    """
    if rounds < 1 or evaluate_every < 1 or checkpoint_every < 1:
        raise ValueError(
            f"rounds, evaluate_every, checkpoint_every must be positive: {rounds, evaluate_every, checkpoint_every}"
        )
    if on_nonfinite not in ("stop", "isolate"):
        raise ValueError(f"on_nonfinite must be 'stop' or 'isolate', got {on_nonfinite!r}")
    if patience is not None:
        tasks.require("val", "early stopping needs")
    tasks = tasks.to(device)
    modules = [module.to(device) for module in build_modules(model, seed)]
    check_outputs(tasks, modules)
    specs = [ParamSpec.from_module(module) for module in modules]
    saved = _resume(checkpoint, device) if resume else None
    plans = [Plan(**plan) for plan in saved[2]["plans"]] if saved else None
    engine = Engine(tasks, modules, specs, backend=backend, chunk=chunk, plans=plans, autocast=autocast)
    env = Env(engine, Comm(), seed, on_nonfinite == "isolate")
    method.check(env)
    metric = as_metric(tasks.metric, *_direction(tasks.metric))
    data = build_graph(tasks, modules, graph, architecture)
    about = _about(method, seed, data, autocast)
    if saved:
        _same_run(saved[2], about, Path(str(checkpoint)))
        data, history, about = saved
    else:
        data = method.start(data, env)
        history = History(tasks.names, metric.name, metric.higher_is_better)
        about["plans"] = [plan.as_dict() for plan in engine.plans]
        about["threads"] = torch.get_num_threads()
    watchers = [*callbacks, *([Progress(progress if isinstance(progress, str) else method.name)] if progress else [])]
    before, started = (history.seconds[-1] if history.seconds else 0.0), time.perf_counter()
    stopped = False
    with _threads(about["threads"]), _finish_round_on_interrupt() as interrupt:
        for watcher in watchers:
            watcher.on_start(data, history, rounds)
        while data.round < rounds and not stopped and not interrupt.is_set():
            data = method.play(data, env)
            for watcher in watchers:
                watcher.on_round(data, history)
            if data.round % evaluate_every == 0 or data.round == rounds:
                values = evaluate(method, data, env, metric)
                history.add(data.round, before + time.perf_counter() - started, values)
                for watcher in watchers:
                    watcher.on_evaluate(data, history)
                if patience is not None:
                    data, stopped = _early_stop(data, history, method.models(data, env), patience)
            if checkpoint is not None and (
                data.round % checkpoint_every == 0 or data.round == rounds or interrupt.is_set()
            ):
                save_checkpoint(checkpoint, data, history, about)
        if patience is not None and "best_x" in data:
            data = copy.copy(data)
            data.x = data.best_x
        for watcher in watchers:
            watcher.on_end(data, history)
    return Result(method, data, history, tasks, modules, env, interrupt.is_set())


def evaluate(method: Method | Phases, data: Data, env: Env, metric: Metric) -> dict[str, Tensor]:
    """Return loss and metric of every node's model on its validation and test samples, with training loss and bytes."""
    values = {"train_loss": data.train_loss, "bytes_sent": data.bytes_sent}
    rows = Rows.own(method.models(data, env))
    for split in ("val", "test"):
        if int(env.engine.tasks.sizes(split).sum()) == 0:
            continue
        loss = torch.full((data.num_nodes,), float("nan"), dtype=torch.float64, device=data.node_id.device)
        score = loss.clone()
        for chunk in env.engine.predict(rows, split):
            loss[chunk.rows] = env.engine.losses_of(chunk).double()
            score[chunk.rows] = metric(chunk.outputs, chunk.targets, chunk.mask).to(loss)
        values[f"{split}_loss"], values[f"{split}_metric"] = loss, score
    return values


def _direction(metric: Any) -> tuple[bool, ...]:
    """Return whether a user's own metric is better when bigger; named metrics know it themselves."""
    if isinstance(metric, str | Metric):
        return ()
    return (bool(getattr(metric, "higher_is_better", True)),)


def _early_stop(data: Data, history: History, models: Stacks, patience: int) -> tuple[Data, bool]:
    """Remember the best models and tell whether patience is at its end."""
    value = history.mean("val_metric")[-1] * (1 if history.higher_is_better else -1)
    if "best_x" not in data or value > data.best_value:
        data = copy.copy(data)
        data.best_x, data.best_value, data.best_evaluation = models, value, len(history)
    return data, len(history) - data.best_evaluation >= patience


def _about(method: Method | Phases, seed: int, data: Data, autocast: bool) -> dict[str, Any]:
    """Describe a run, so that only the same run is resumed."""
    return {
        "method": repr(method),
        "seed": seed,
        "nodes": data.num_nodes,
        "shapes": [[list(shape) for shape in spec.shapes] for spec in data.x.specs],
        "autocast": autocast,
    }


def _resume(folder: str | Path | None, device: torch.device | str) -> tuple[Data, History, dict[str, Any]] | None:
    path = latest_checkpoint(folder) if folder is not None else None
    return None if path is None else load_checkpoint(path, device)


def _same_run(saved: Mapping[str, Any], wanted: Mapping[str, Any], folder: Path) -> None:
    for key, value in wanted.items():
        if saved.get(key) != value:
            raise ValueError(
                f"the checkpoints in {folder} are of another run: their {key} is {saved.get(key)}, this run's is "
                f"{value}; use another folder, or resume=False to start afresh"
            )


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Compute with as many threads as the run began with, so that a resumed run repeats its sums."""
    now = torch.get_num_threads()
    if count != now and count <= (os.cpu_count() or 1):
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if torch.get_num_threads() != now:
            torch.set_num_threads(now)


@contextmanager
def _finish_round_on_interrupt() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into a request that is met after the round; the second one interrupts."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    previous = signal.getsignal(signal.SIGINT)

    def ask(number: int, frame: Any) -> None:
        asked.set()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, previous)
