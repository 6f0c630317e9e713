"""`Lockstep`: several simulated processes in one, each holding the rows of its own nodes and nothing else."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.errors import MismatchError, StateError
from graphcollab.comm.plane import Plane
from graphcollab.comm.transport import SharedTransport
from graphcollab.components import Env
from graphcollab.components.state import LOOP, keep_own
from graphcollab.data.tasks import Tasks
from graphcollab.engine import Engine
from graphcollab.engine.stack import ParamSpec
from graphcollab.testing import Scene
from graphcollab.testing.claims import AnyMethod
from graphcollab.train.start import build_graph

T = TypeVar("T")


def poison(values: Tensor) -> Tensor:
    """Return a tensor of the same shape that spoils every result: NaN, -2^62 for integers, or inverted booleans."""
    if values.is_floating_point():
        return torch.full_like(values, torch.nan)
    return ~values if values.dtype == torch.bool else torch.full_like(values, -(2**62))


class Meeting:
    """Meeting point of the processes of a lockstep run; ``owners``: the nodes of each, ascending, [k], together all."""

    def __init__(self, owners: Sequence[Tensor]) -> None:
        self.owners = owners
        self.moved: list[list[Tensor]] = [[] for _ in owners]  # per process and fetch, remote nodes of rows received
        self.verbs: list[str] = []  # the collective operations so far
        self.told: Exception | None = None  # the error that all processes raised in an exchange
        self.failure: BaseException | None = None  # the first; all processes raise it
        self.barrier = threading.Barrier(len(owners))
        self.posted: list[Any] = [None] * len(owners)

    def exchange(self, process: int, verb: str, value: T) -> list[T]:
        """Post a value and return those of all processes once each has posted one for the same verb."""
        self.posted[process] = (verb, value)
        if process == 0:
            self.verbs.append(verb)
        self._wait()
        posted = list(self.posted)
        self._wait()
        failed = [error for verb, error in posted if verb == "failed"]
        if failed:
            self.told = failed[0]
            raise failed[0]
        verbs = {verb for verb, _ in posted}
        if len(verbs) > 1:
            raise StateError("processes", f"processes met in different verbs: {[verb for verb, _ in posted]}")
        return [value for _, value in posted]

    def _wait(self) -> None:
        try:
            self.barrier.wait(timeout=60)
        except threading.BrokenBarrierError:
            raise self.failure or RuntimeError("a process did not come to the meeting within a minute") from None

    def fail(self, error: BaseException) -> None:
        """Make all processes raise an error."""
        self.failure = self.failure or error
        self.barrier.abort()


class Lockstep(SharedTransport):
    """One of several processes simulated in threads, which play the same run and synchronize at ``meeting``."""

    def __init__(self, process: int, meeting: Meeting) -> None:
        owner = torch.empty(sum(map(len, meeting.owners)), dtype=torch.int64)
        for p, nodes in enumerate(meeting.owners):
            owner[nodes] = p
        super().__init__(process, owner)
        self.meeting = meeting

    def status(self, error: Exception | None = None) -> None:
        if error is None or error is not self.meeting.told:
            self.meeting.exchange(self.process, "status" if error is None else "failed", error)

    def fetch(self, rows: Tensor, nodes: Tensor, edge_index: Tensor) -> Tensor:
        if len(rows) != len(nodes) or not bool(self.local_mask(nodes).all()):
            raise MismatchError(
                f"process {self.process}",
                f"process {self.process} owns {self.nodes.tolist()} and has rows of {nodes.tolist()}",
            )
        wanted = self.wanted(edge_index)
        if any(map(len, wanted)):
            self.meeting.moved[self.process].append(wanted[self.process])
        return super().fetch(rows, nodes, edge_index)

    def gather(
        self, what: str, values: Sequence[Tensor], by: Tensor | None = None, whole: Sequence[Tensor] = ()
    ) -> dict[int, list[Tensor]]:
        return dict(enumerate(self.meeting.exchange(self.process, "gather", [*values, *whole])))

    def swap(self, what: str, give: Mapping[int, Tensor], take: Mapping[int, Tensor]) -> Mapping[int, Tensor]:
        posted = self.meeting.exchange(self.process, "swap", give)
        return {p: posted[p][self.process] for p in take}

    def unknown(self, values: Tensor, count: int) -> Tensor:
        return poison(values.new_empty(count, *values.shape[1:]))

    def all_reduce(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Return the sums of values over all processes, added in process order."""
        many = self.meeting.exchange(self.process, "all_reduce", values)
        return tuple(reduce(torch.add, same) for same in zip(*many, strict=True))


def in_lockstep(owners: Sequence[Tensor], play: Callable[[Lockstep], T]) -> tuple[list[T], Meeting]:
    """Play a run with one process per entry of ``owners``; return all results and the meeting, or raise the error."""
    meeting = Meeting([nodes.sort().values for nodes in owners])

    def work(process: int) -> T:
        try:
            return play(Lockstep(process, meeting))
        except BaseException as error:
            meeting.fail(error)
            raise

    with ThreadPoolExecutor(len(owners)) as threads:
        found = [threads.submit(work, process) for process in range(len(owners))]
    if meeting.failure is not None:
        raise meeting.failure
    return [one.result() for one in found], meeting


def begin(
    scene: Scene, method: AnyMethod, transport: SharedTransport | None, make: type[Plane] = Plane
) -> tuple[Data, Env]:
    """Return the state before the first round and the `Env` of one process, without samples of other processes."""
    if transport is None:
        return scene.begin(method)
    specs = [ParamSpec.from_module(module) for module in scene.modules]
    engine = Engine(scene.tasks, scene.modules, specs, backend=scene.backend, chunk=scene.chunk)
    plane = make(
        scene.tasks.num_nodes,
        transport,
        None if scene.architecture is None else torch.tensor(scene.architecture),
    )
    env = Env(engine, plane, scene.seed, scene.isolate, scene.participation)
    method.check(scene.tasks)
    data = build_graph(scene.tasks, scene.modules, scene.edge_index, scene.architecture, method)
    engine.tasks = only_own(scene.tasks, plane.own)
    return method.start(keep_own(data, LOOP, plane), env), env


def only_own(tasks: Tasks, nodes: Tensor) -> Tasks:
    """Return the tasks with all samples poisoned except those of some nodes."""
    pools = {}
    for name, pool in tasks.pools.items():
        kept = [split.of(k) for split in tasks.splits.values() if split.pool == name for k in nodes.tolist()]
        own = torch.cat(kept).unique() if kept else nodes[:0]
        pools[name] = copy.copy(pool)  # a new one would refuse the poison
        for kind, values in vars(pool).items():
            if values is not None:
                object.__setattr__(pools[name], kind, poison(values).index_copy(0, own, values[own]))
    poisoned = copy.copy(tasks)
    vars(poisoned).pop("mean_weight", None)  # cached for the original samples
    object.__setattr__(poisoned, "pools", pools)
    return poisoned
