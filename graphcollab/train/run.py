"""`run`: the only outer loop, prepared here and played by a `Session`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from graphcollab._base.checks import issue, own_filter
from graphcollab._base.errors import ConflictError, StateError, UnsupportedError
from graphcollab._base.memory import let_go
from graphcollab._base.settings import Count, Natural, Seed, checked
from graphcollab._base.threads import same_threads, threads_here
from graphcollab.analysis.metrics import as_metric
from graphcollab.comm.launch import meet
from graphcollab.comm.plane import Plane
from graphcollab.components.env import Attendance, Env, Isolate
from graphcollab.components.state import LOOP, keep_own, to_device
from graphcollab.data import Tasks
from graphcollab.engine import Engine, Plan
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.persistence.history import History
from graphcollab.persistence.lock import hold_folder
from graphcollab.persistence.saver import Saver
from graphcollab.train.beginning import same_beginning, warn_of_unlike
from graphcollab.train.callbacks import Callback, Progress
from graphcollab.train.check_outputs import check_ids, check_outputs
from graphcollab.train.graph_input import Graph
from graphcollab.train.identity import describe_run, require_alike, require_same, require_same_run
from graphcollab.train.result import Result
from graphcollab.train.session import Session, name_limits
from graphcollab.train.start import Architecture, Model, build_graph, build_modules, check_device, for_tasks

BETWEEN_PARTIES = {
    "attend": "those take part who are there",
    "patience": "the best state would have to be kept of all sites, and a site may be gone by then",
}
"""Settings that cannot be given where nodes are of parties that keep their data, and why."""

ENDING = 60.0  # seconds in which a site's last job, which was aborted, may let its folder go
LARGE = 2**18  # parameters of a stacked model whose matrix products are worth sharing between threads

AMethod = Annotated[Method | Phases, "a method, such as fedavg()"]
Owner = Annotated[Sequence[Natural] | Tensor | None, "the number of a process for every node, or None"]
SomeTasks = Annotated[Tasks, "Tasks, made by Tasks.from_frame, Tasks.from_samples or a partition"]


@checked
def run(
    method: AMethod,
    tasks: SomeTasks,
    model: Model,
    graph: Graph = None,
    *,
    rounds: Count = 100,
    seed: Seed = 0,
    architecture: Architecture = None,
    evaluate_every: Count = 1,
    callbacks: Iterable[Callback] = (),
    progress: bool | str = False,
    checkpoint: str | Path | None = None,
    checkpoint_every: Count | None = None,
    resume: bool = True,
    patience: Count | None = None,
    on_nonfinite: Literal["stop", "isolate"] | Isolate = "stop",
    attend: Attendance | None = None,
    device: torch.device | str = "cpu",
    backend: Literal["auto", "vmap", "loop", "shared"] = "auto",
    chunk: Count | None = None,
    microbatch: Count | None = None,
    threads: Count | None = None,
    autocast: bool = False,
    owner: Owner = None,
) -> Result:
    """Train personalized models and the graph between them.

    Ctrl-C finishes the round, saves, evaluates if nothing was evaluated yet, and returns; pressed again it stops at
    once.

    Args:
        method: What to do in a round, for example ``graphcollab.methods.meta_l2c()``.
        tasks: The nodes' data.
        model: A module, or a function that makes one (initialized from the seed), or one per architecture; a function
            may make several, such as one that calls `graphcollab.models.split_models`. One that takes an argument is
            given the tasks: ``lambda tasks: build_model("mlp", tasks.input_shape, 2)``.
        graph: Who may hear whom: a ``Data``, an ``edge_index``, a topology transform, or a list of pairs (sender,
            receiver) by name or position, with or without weights behind (`Graph`). None: all pairs (unlisted where
            nodes look for their peers, such as ``dac``; no edges where the method sends nothing along them, such as
            ``local`` and ``fedavg``). Nobody hears along another edge, whatever route models take: servers average
            inside connected components, whose nodes must all be allowed to hear each other (``fedavg`` with
            ``incomplete="average"`` takes others too), and a node without neighbors sends nothing.
        rounds: Rounds to play.
        seed: Seed of everything random.
        architecture: Architecture of every node, [K] or by name, where there are several.
        evaluate_every: Rounds between evaluations; the last round is always evaluated.
        callbacks: See `Callback`.
        progress: Show a progress bar, with a label if it is a string.
        checkpoint: Folder for checkpoints. Default: none are written. One run at a time may use it.
        checkpoint_every: Rounds between checkpoints. Default: as often as saving takes at most a tenth of the time, so
            a killed run loses at most one round and ten times what a checkpoint takes. The last state is always saved,
            also after Ctrl-C and before a round that fails.
        resume: Go on from the newest complete checkpoint in the folder if there is one; it must be of the same run:
            method, seed, data, models (with their layers' settings and code), edges, and versions. On a CPU the result
            then equals that of an uninterrupted run bit for bit. More rounds may be asked for, but not fewer than were
            played. If False, start afresh and remove the checkpoints in the folder.
        patience: Stop when the mean validation metric has not improved for this many evaluations, and return the state
            after the best.
        on_nonfinite: ``"stop"`` at a loss that is not finite, or ``"isolate"`` its node, with a warning, and go on: the
            node keeps its last good model, rests, and loses its edges. Nodes are judged before others hear of their
            models, by the bounds of `Isolate` (``Isolate(factor)`` for others): a gradient and a loss
            on all training samples a round. A resumed run may begin or cease to isolate, but not by another factor.
        attend: Who takes part in which round, with any method: `Attendance` drops and delays nodes,
            and lets them join and leave. Default: everyone always does.
        device: Where to compute. ``"auto"``: on the GPU, if there is one.
        backend: ``"auto"``, ``"vmap"``, ``"loop"`` or ``"shared"``.
        chunk: Rows computed at a time. Default: by rule.
        microbatch: Samples of a node that go through its model at once in training, at most (gradient accumulation),
            so memory is that of a part of the batch. Default: by rule, 1,024 tokens (16,384 on a GPU) where nodes share
            most of a model, as under adapters, else all of a batch.
        threads: CPU threads. Default: all that ``torch.set_num_threads`` allows for convolutions and large stacked
            models, else one. The caller's setting is restored, and runs in several threads do not change each other's.
        autocast: Compute forward passes in bfloat16.
        owner: In a run of several processes (docs/scaling.md) the process of every node, [K], as numbers from 0.
            Default: that which has a node's samples, where each has those of some (`Tasks.share`); else contiguous
            shares, balanced by local steps of a round (by samples where those are not known).

    Raises:
        ValueError: If the input is not usable; nothing has been trained then.
        RuntimeError: If another run is under way in the folder for checkpoints, or in ``torch.inference_mode()``.
        TypeError: If a model is something else, or returns something else than one tensor.
        NonFiniteLossError: If a node's loss is not finite; the last checkpoint is intact. (After an error while models
            are judged, the checkpoint is of the round that was just played.)

    Example:
        >>> from graphcollab.methods import local
        >>> x, y = torch.randn(20, 3), torch.randint(2, (20,))
        >>> result = run(local(), Tasks.from_samples([(x, y), (x, y)]), torch.nn.Linear(3, 2), rounds=2)
        >>> result.history.rounds
        [1, 2]
    """
    callbacks = tuple(callbacks)
    if torch.is_inference_mode_enabled():
        raise StateError("run", "nothing can be trained inside torch.inference_mode(): call it outside")
    if patience is not None:
        tasks.require("val", "early stopping needs")
    transport = meet(tasks.names, partial(_work, method, tasks), owner, tasks.elsewhere)
    plane = Plane(tasks.num_nodes, transport)
    if plane.private:
        for name, value in {"attend": attend, "patience": patience}.items():
            if value is not None:
                raise UnsupportedError(name, f"{name} cannot be given between sites: {BETWEEN_PARTIES[name]}")
        attend = transport.attendance
    with ExitStack() as held, plane.agreed():
        held.callback(let_go)
        if not plane.alone:
            alike: dict[str, Any] = {"rounds": rounds, "evaluate_every": evaluate_every, "patience": patience}
            alike |= {"on_nonfinite": on_nonfinite}
            if not plane.private:  # each site has a disk and a machine of its own
                alike |= {"checkpoint": str(checkpoint), "checkpoint_every": checkpoint_every, "resume": resume}
                alike |= {"backend": backend, "chunk": chunk, "microbatch": microbatch, "threads": threads}
            alike |= {"callbacks": [type(one).__name__ for one in callbacks if one.everywhere]}
            require_alike(alike, plane)
        if checkpoint is not None and plane.speaks:
            held.enter_context(hold_folder(checkpoint, wait=ENDING if plane.private else 0.0))
        if not plane.speaks:
            held.enter_context(own_filter("ignore"))  # what there is to say, the first process says
        device = check_device(device)
        tasks = tasks.to(device) if plane.alone else tasks.share(plane.own, device)
        modules = build_modules(for_tasks(model, tasks), seed, device)
        same_beginning(modules, plane)
        metric = as_metric(tasks.metric)
        attend = None if attend is None else attend.by_id(tasks.names, tasks.ids)
        data = build_graph(tasks, modules, graph, architecture, method)
        check_ids(tasks, modules, data.x.members)
        check_outputs(tasks if plane.alone else tasks.select(plane.own), modules, metric)
        fields = (*LOOP, *method.fields)
        saver = None if checkpoint is None else Saver(checkpoint, checkpoint_every, plane, fields)
        history = History(tasks.names, metric.name, metric.higher_is_better)
        saved = saver.resume() if saver and resume else None
        before = saved[2] if saved else {}
        isolate: Isolate | bool = on_nonfinite if isinstance(on_nonfinite, Isolate) else on_nonfinite == "isolate"
        about: dict[str, Any] = {}
        if saver or not plane.alone:
            about = describe_run(method, tasks, data, modules, seed, autocast, attend, isolate, plane)
        require_same_run(about, plane)
        if saved:
            about = require_same(before, about, str(checkpoint))
        kinds, data = data.x.kinds, keep_own(data, fields, plane)
        if not plane.alone and len(modules) > 1:
            plane.kind = kinds
        plans = _plans(before, backend, chunk, microbatch) if saved else None
        specs = [ParamSpec.from_module(module) for module in modules]
        how: dict[str, Any] = {"backend": backend, "chunk": chunk, "microbatch": microbatch, "plans": plans}
        engine = Engine(tasks, modules, specs, autocast=autocast, **how)
        callbacks = tuple(one for one in callbacks if one.everywhere or plane.speaks)
        env = Env(engine, plane, seed, isolate, attend, callbacks)
        for callback in callbacks:
            for split in callback.needs:
                tasks.require(split, f"{type(callback).__name__} needs")
        method.check(tasks)
        threads = _threads(before.get("threads"), threads, engine)
        about |= {"plans": [asdict(plan) for plan in engine.plans], "threads": threads}
        if not saved or plane.private:  # a site meets others in the start, whose run may be new
            with same_threads(threads), name_limits(engine.plans), own_filter("ignore") if saved else nullcontext():
                data = method.start(data, env)
        if saved:
            data, history = to_device(saved[0], method.fields, device), saved[1]
            data = data if plane.private else keep_own(data, fields, plane)  # between sites nobody has saved more
            if data.round > rounds:
                raise ConflictError(
                    "rounds",
                    f"the run in {checkpoint} has played {data.round} rounds, more than rounds={rounds}: ask for as "
                    "many or more, use another folder, or resume=False to start afresh",
                )
        _warn_of_phases(method, rounds)
        warn_of_unlike(method, modules)
        if progress and plane.speaks:
            callbacks += (Progress(progress if isinstance(progress, str) else method.name),)
        if saver:
            saver.begin(about, data, afresh=not resume)
        return Session(
            method, modules, env, data, history, rounds, threads, metric, evaluate_every, patience, callbacks, saver
        ).play()


def _work(method: Method | Phases, tasks: Tasks) -> Tensor:
    """Return what a round costs every node, [K]: local steps, whose batches take equally long, or samples."""
    sizes = tasks.sizes("train")
    steps = method.local_steps(sizes, 1)
    return torch.where(steps > 0, sizes.double(), 1.0) if bool(steps.isnan().any()) else steps.clamp(min=1.0)


def _plans(before: Mapping[str, Any], backend: str, chunk: int | None, microbatch: int | None) -> list[Plan]:
    """Return the plans of the run that is resumed; another way of computing would give other last bits."""
    plans = [Plan(**plan) for plan in before["plans"]]
    for plan in plans:
        settings = {"backend": (backend, "auto"), "chunk": (chunk, None), "microbatch": (microbatch, None)}
        for name, (wanted, default) in settings.items():
            if wanted not in (default, getattr(plan, name)):
                raise ConflictError(
                    name,
                    f"the run began with {name}={getattr(plan, name)!r} and cannot be resumed with {wanted!r}: leave "
                    "it out, or start afresh with resume=False",
                )
    return plans


def _threads(stored: int | None, wanted: int | None, engine: Engine) -> int:
    if stored is not None and wanted not in (None, stored):
        raise ConflictError(
            "threads",
            f"the run began with threads={stored} and cannot be resumed with {wanted}, which would give other last "
            "bits: leave threads out, or start afresh with resume=False",
        )
    return stored or wanted or choose_threads([backend.module for backend in engine.backends], engine.plans)


def choose_threads(modules: Sequence[nn.Module], plans: Sequence[Plan]) -> int:
    """Return how many threads suit the work: all that the caller's setting allows where they pay, else one.

    They pay for convolutions and for large models (`LARGE`) computed together. Steps of others are too short to be
    shared: recurrent layers lose by it, and where another process takes a core threads wait for each other.
    """
    for module, plan in zip(modules, plans, strict=True):
        convolves = any(isinstance(m, nn.modules.conv._ConvNd) for m in module.modules())
        if convolves or (plan.backend != "loop" and sum(p.numel() for p in module.parameters()) >= LARGE):
            return threads_here()
    return 1


def _warn_of_phases(method: Method | Phases, rounds: int) -> None:
    """Warn of a phase that a run ends before."""
    while isinstance(method, Phases) and rounds > method.until:
        method = method.next
    if isinstance(method, Phases):
        message = (
            f"{method.next.name} begins in round {method.until}, counted from 0, and the run ends after {rounds}: "
            "this phase is never played; ask for more rounds, or let it begin earlier"
        )
        issue("no-effect", "rounds", message)
