"""`prepare`: turn the settings of a run into the `Session` that plays it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphcollab._base.checks import own_filter
from graphcollab._base.errors import ConflictError, UnsupportedError
from graphcollab._base.threads import same_threads, threads_here
from graphcollab.analysis.metrics import as_metric
from graphcollab.comm.launch import meet
from graphcollab.comm.plane import Plane
from graphcollab.components import Env
from graphcollab.components.state import keep_own, to_device
from graphcollab.data.tasks import Tasks
from graphcollab.engine import Engine
from graphcollab.engine.plan import Plan
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.persistence.history import History
from graphcollab.persistence.lock import hold_folder
from graphcollab.persistence.saver import Saver
from graphcollab.train.check_outputs import check_outputs
from graphcollab.train.identity import describe_run, require_alike, require_same, require_same_run, require_same_start
from graphcollab.train.session import Session
from graphcollab.train.settings import Compute, RunSettings
from graphcollab.train.start import Start, build_graph, build_modules, for_tasks

BETWEEN_PARTIES = {
    "participation": "those take part who are there",
    "patience": "the best state would have to be kept of all sites, and a site may be gone by then",
    "placement": "each site has its own samples, and no others",
}
"""Settings that are not available if nodes belong to parties that keep their data, and the reasons."""

ENDING = 60.0  # seconds in which an aborted previous job of a site may release its folder
LARGE = 2**18  # parameters from which the matrix products of a stacked model are worth several threads


@dataclass(frozen=True)
class Saved:
    """Saved state from which a run resumes: a checkpoint's state, history and identity; empty without one."""

    saver: Saver | None
    about: dict[str, Any]
    state: tuple[Data, History] | None = None
    before: Mapping[str, Any] = field(default_factory=dict)


def meet_others(settings: RunSettings) -> tuple[RunSettings, Plane]:
    """Return the settings and the plane by which the processes of a run meet."""
    tasks = settings.tasks
    work = partial(_work, settings.method, tasks)
    transport = meet(tasks.names, work, settings.compute.placement, tasks.elsewhere)
    plane = Plane(tasks.num_nodes, transport)
    if not plane.cross_silo:
        return settings, plane
    for name, why in BETWEEN_PARTIES.items():
        if getattr(settings, name, None) is not None:
            raise UnsupportedError(name, f"{name} cannot be given between sites: {why}")
    return replace(settings, participation=transport.participation), plane


def prepare(settings: RunSettings, plane: Plane, held: ExitStack) -> Session:
    """Return a run that is ready to be played; resources that it has to hold, such as its folder, are in ``held``."""
    _require_alike(settings, plane)
    if not plane.is_main:
        held.enter_context(own_filter("ignore"))  # only the main process warns
    start = _begin(settings, plane)
    if settings.checkpoint is not None and plane.is_main:
        held.enter_context(hold_folder(settings.checkpoint.folder, wait=ENDING if plane.cross_silo else 0.0))
    if settings.participation is not None:
        named = settings.participation.by_id(start.tasks.names, start.tasks.ids)
        settings = replace(settings, participation=named)
    saved = _saved(settings, start, plane)
    kinds, data = start.data.x.kinds, keep_own(start.data, settings.fields, plane)
    if not plane.alone and len(start.modules) > 1:
        plane.kind = kinds
    env = Env(
        _engine(settings, start, saved),
        plane,
        settings.seed,
        settings.isolate,
        settings.participation,
        tuple(one for one in settings.callbacks if one.everywhere or plane.is_main),
    )
    for callback in env.observers:
        for split in callback.needs:
            start.tasks.require(split, f"{type(callback).__name__} needs")
    settings.method.check(start.tasks)
    return _session(settings, start, saved, env, data)


def _require_alike(settings: RunSettings, plane: Plane) -> None:
    """Check that all processes were given the same settings, except those that are specific to a site."""
    if plane.alone:
        return
    alike: dict[str, Any] = {name: getattr(settings, name) for name in ("rounds", "evaluate_every", "patience")}
    alike["on_nonfinite"] = str(settings.on_nonfinite)
    alike["callbacks"] = [type(one).__name__ for one in settings.callbacks if one.everywhere]
    if not plane.cross_silo:  # each site has its own disk and machine
        compute = {name: value for name, value in vars(settings.compute).items() if name not in ("device", "placement")}
        alike |= {"checkpoint": str(settings.checkpoint), **compute}
    require_alike(alike, plane)


def _begin(settings: RunSettings, plane: Plane) -> Start:
    device, tasks = settings.compute.found_device(), settings.tasks
    tasks = tasks.to(device) if plane.alone else tasks.share(plane.own, device)
    modules = build_modules(for_tasks(settings.model, tasks), settings.seed, device)
    metric = as_metric(tasks.metric)
    data = build_graph(tasks, modules, settings.graph, settings.architecture, settings.method)
    check_outputs(tasks if plane.alone else tasks.select(plane.own), modules, metric)
    return Start(tasks, modules, data, metric)


def _saved(settings: RunSettings, start: Start, plane: Plane) -> Saved:
    """Return the saved state of the run, if it is to be resumed; raise an error if it is of another run."""
    given = settings.checkpoint
    saver = None if given is None else Saver(given.folder, given.every, plane, settings.fields)
    found = saver.resume() if saver and given and given.resume else None
    about: dict[str, Any] = {}
    if saver or not plane.alone:
        about = describe_run(settings, start, plane)
    require_same_run(about, plane)
    require_same_start(start.data.x, plane)
    if found is None or given is None:
        return Saved(saver, about)
    data, history, before = found
    return Saved(saver, require_same(before, about, str(given.folder)), (data, history), before)


def _engine(settings: RunSettings, start: Start, saved: Saved) -> Engine:
    compute, specs = settings.compute, [ParamSpec.from_module(module) for module in start.modules]
    how: dict[str, Any] = {name: getattr(compute, name) for name in ("autocast", "backend", "chunk", "microbatch")}
    return Engine(
        start.tasks, start.modules, specs, **how, plans=_plans(saved.before, compute) if saved.state else None
    )


def _session(settings: RunSettings, start: Start, saved: Saved, env: Env, data: Data) -> Session:
    """Return the run in its initial state, or in the saved one."""
    plane, method = env.plane, settings.method
    history = History(start.tasks.names, start.metric.name, start.metric.higher_is_better)
    threads = _num_threads(saved.before.get("threads"), settings.compute.num_threads, env.engine)
    about = saved.about | {"plans": [asdict(plan) for plan in env.engine.plans], "threads": threads}
    if saved.state is None or plane.cross_silo:  # a site meets others at the start, and their run may be new
        quiet = own_filter("ignore") if saved.state else nullcontext()
        with same_threads(threads), quiet:
            data = method.start(data, env)
    if saved.state is not None:
        state, history = saved.state
        data = to_device(state, method.fields, start.tasks.device)
        data = (
            data if plane.cross_silo else keep_own(data, settings.fields, plane)
        )  # between sites no other site has saved more
        _require_rounds(data.round, settings)
    if saved.saver and settings.checkpoint:
        saved.saver.begin(about, data, afresh=not settings.checkpoint.resume)
    return Session(settings, start.modules, env, data, history, threads, start.metric, saved.saver)


def _require_rounds(played: int, settings: RunSettings) -> None:
    if settings.checkpoint and played > settings.rounds:
        raise ConflictError(
            "rounds",
            f"{played} rounds are played, more than rounds={settings.rounds}: ask for more, or give resume=False",
        )


def _work(method: Method | Phases, tasks: Tasks) -> Tensor:
    """Return the cost of a round for every node, [K]: local steps, whose batches take equal time, or samples."""
    sizes = tasks.sizes("train")
    steps = method.local_steps(sizes, 1)
    return torch.where(steps > 0, sizes.double(), 1.0) if bool(steps.isnan().any()) else steps.clamp(min=1.0)


def _plans(before: Mapping[str, Any], compute: Compute) -> list[Plan]:
    """Return the plans of the resumed run; another way of computing would change the last bits."""
    plans = [Plan(**plan) for plan in before["plans"]]
    for plan in plans:
        for name, default in {"backend": "auto", "chunk": None, "microbatch": None}.items():
            wanted, there = getattr(compute, name), getattr(plan, name)
            if wanted not in (default, there):
                raise ConflictError(
                    name, f"the run began with {name}={there!r} and cannot be resumed with {wanted!r}: leave it out"
                )
    return plans


def _num_threads(stored: int | None, wanted: int | None, engine: Engine) -> int:
    if stored is not None and wanted not in (None, stored):
        raise ConflictError(
            "num_threads",
            f"the run began with {stored}, and {wanted} would give other last bits: leave num_threads out",
        )
    return stored or wanted or choose_threads([backend.module for backend in engine.backends], engine.plans)


def choose_threads(modules: Sequence[nn.Module], plans: Sequence[Plan]) -> int:
    """Return the number of threads that suit the work: all that the caller's setting allows if they pay off, else one.

    They pay off for convolutions and for large models (`LARGE`) that are computed together. The steps of other models
    are too short to be shared: recurrent layers get slower, and threads wait for each other if another process takes a
    core.
    """
    for module, plan in zip(modules, plans, strict=True):
        convolves = any(isinstance(m, nn.modules.conv._ConvNd) for m in module.modules())
        if convolves or (plan.backend != "loop" and sum(p.numel() for p in module.parameters()) >= LARGE):
            return threads_here()
    return 1
