"""Runs in several processes of machines that trust each other: `Processes`, over `torch.distributed`.

Start a script by ``torchrun --nproc-per-node 2 script.py``, and every `graphcollab.run` in it is played by all
processes together: docs/scaling.md says how. Without such a launcher nothing of this is used.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import socket
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from graphcollab.files import unwritten
from graphcollab.naming import few
from graphcollab.transport import Transport

__all__ = ["ProcessLostError", "Processes", "deal", "launched", "meet", "one_voice", "speaks"]

T = TypeVar("T")

VERBS = ("status", "everyone", "fetch", "fetch back", "reduce", "gather", "concat", "tell")
PATIENCE = 10.0  # seconds in which survivors look for the process that is gone
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"  # what torchrun shows of a process that has ended


class ProcessLostError(RuntimeError):
    """Another process has ended in the middle of a run; the message names it and its nodes."""


def launched() -> bool:
    """Tell whether a launcher such as torchrun has started several processes of this program.

    Example:
        >>> launched()
        False
    """
    if not dist.is_available():
        return False
    if dist.is_initialized():
        return dist.get_world_size() > 1
    return dist.is_torchelastic_launched() and int(os.environ["WORLD_SIZE"]) > 1


def speaks() -> bool:
    """Tell whether this is the first process, or the only one: the one to print, to draw and to write files."""
    if not launched():
        return True
    return (dist.get_rank() if dist.is_initialized() else int(os.environ["RANK"])) == 0


@contextlib.contextmanager
def one_voice() -> Iterator[None]:
    """Let the first process alone print, and write files by this package's functions; for scripts, as a decorator, too.

    Example:
        >>> with one_voice():
        ...     print("said once")
        said once
    """
    if speaks():
        yield
        return
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), unwritten():
        yield


def deal(work: Tensor, processes: int) -> Tensor:
    """Return the process of every node, [K]: contiguous shares, balanced by the nodes' ``work`` [K].

    Every process gets a node; with fewer nodes than processes that is a ValueError.

    Example:
        >>> deal(torch.tensor([1.0, 1.0, 1.0, 1.0, 4.0]), 2).tolist()
        [0, 0, 0, 0, 1]
    """
    count = len(work)
    if count < processes:
        raise ValueError(
            f"{processes} processes were started, and there are {count} nodes: each needs one, so start fewer"
        )
    middle = work.double().cumsum(0) - work.double() / 2
    owner = (middle * processes / work.double().sum().clamp(min=1e-300)).long().clamp(0, processes - 1)
    place = torch.arange(count)
    # no process begins later than leaves a node for each after it, nor earlier than each before it has one
    first = torch.searchsorted(owner, torch.arange(processes))
    for p in range(processes):
        low = 0 if p == 0 else int(first[p - 1]) + 1
        first[p] = 0 if p == 0 else min(max(int(first[p]), low), count - processes + p)
    return torch.searchsorted(first, place, right=True) - 1


def meet(names: Sequence[str], work: Callable[[], Tensor], owner: Sequence[int] | Tensor | None = None) -> Transport:
    """Return how the processes of a run meet: one owns all nodes, unless a launcher has started several.

    Args:
        names: Names of the nodes.
        work: Returns what a round costs every node, [K].
        owner: The process of every node, [K]. Default: dealt in contiguous shares, balanced by work.

    Raises:
        ValueError: If the processes disagree about who owns which node, or one owns none.
    """
    if not launched():
        if owner is not None and bool(torch.as_tensor(owner).any()):
            raise ValueError("owner= names several processes, and this is the only one: start it by torchrun")
        return Transport()
    _join()
    size = dist.get_world_size()
    given = None if owner is None else torch.as_tensor(owner).long()
    return Processes(names, deal(work(), size) if given is None else given)


def _join() -> None:
    """Let this process find the others, once."""
    if dist.is_initialized():
        return
    shown = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, where: Any) -> None:
        _write_error_file(f"{kind.__name__}: {error}")
        shown(kind, error, where)

    sys.excepthook = note
    atexit.register(_leave)  # threads that still wait for others end a process by an abort
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    try:
        dist.init_process_group(backend)
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise RuntimeError(
            f"the processes cannot meet at {where} ({str(error).splitlines()[0]}): start them by torchrun, with "
            "another --master-port if this one is in use"
        ) from error


def _leave() -> None:
    """Let go of the other processes, at the end of this one."""
    if dist.is_initialized():
        dist.destroy_process_group()


class Processes(Transport):
    """One of several processes that play the same run, verb by verb.

    Every verb begins with a word of each process: which verb, how much follows, and whether it has failed. If one has,
    all raise its error; so nobody waits for somebody who will not come.

    Args:
        names: Names of the nodes.
        owner: The process of every node, [K].

    Attributes:
        rows_moved: Rows of other processes' nodes that have come here so far.
        bytes_moved: Bytes that have come here so far, of rows and of all else.
    """

    def __init__(self, names: Sequence[str], owner: Tensor) -> None:
        self.names, self.owner = names, owner
        self.process, self.size = dist.get_rank(), dist.get_world_size()
        self.rows_moved = self.bytes_moved = 0
        self._told: Exception | None = None
        self.pids = [(os.uname().nodename, os.getpid())] * self.size
        self._agree()
        self.counts = torch.bincount(owner, minlength=self.size).tolist()
        self.nodes = (owner == self.process).nonzero().flatten()
        self.shares = [(owner == p).nonzero().flatten() for p in range(self.size)]
        _write_error_file(f"{self.who(self.process)} was killed")

    @property
    def speaks(self) -> bool:  # type: ignore[override]
        """Whether this is the first process."""
        return self.process == 0

    def _agree(self) -> None:
        """Check that all processes mean the same owners."""
        about = [socket.gethostname(), os.getpid(), len(self.names), self.owner.tolist()]
        told = self.everyone(about)
        self.pids = [(host, pid) for host, pid, _, _ in told]
        many = [count for _, _, count, _ in told]
        if len(set(many)) > 1:
            raise ValueError(f"processes have tasks of {many} nodes: give all of them the same tasks")
        for _, _, count, owner in told:
            if len(owner) != count:
                raise ValueError(f"owner must name a process for each of {count} nodes, got {len(owner)}")
        for node, said in enumerate(zip(*(owner for *_, owner in told), strict=True)):
            claim = [p for p, own in enumerate(said) if own == p]
            if len(claim) > 1:
                raise ValueError(f"{self.names[node]!r} is owned by the processes {claim}: each node needs one owner")
            if not claim:
                raise ValueError(
                    f"{self.names[node]!r} is owned by no process (owner says {sorted(set(said))}, and the processes "
                    f"are 0 to {self.size - 1}): each node needs one owner"
                )
            if len(set(said)) > 1:
                raise ValueError(f"processes differ in who owns {self.names[node]!r}: {list(said)}")
        idle = sorted({*range(self.size)} - {*self.owner.tolist()})
        if idle:
            raise ValueError(f"process {idle[0]} owns no node: give it one, or start fewer processes")

    def who(self, process: int) -> str:
        """Name a process and its nodes."""
        own = [self.names[k] for k in (self.owner == process).nonzero().flatten().tolist()]
        return f"process {process} with {len(own)} node{'s' * (len(own) > 1)} ({few([*map(repr, own)])})"

    def where(self, node: int) -> str:
        """Say in which process a node is that is not owned here."""
        return f"in process {int(self.owner[node])} of {self.size}"

    # What all verbs are made of.

    def _meet(
        self, verb: str, length: int = 0, values: Tensor | None = None, error: Exception | None = None
    ) -> list[int]:
        """Say which verb this process begins, with which kind of values, and return how much all have to tell."""
        text = b"" if error is None else _written(error)
        kind = 0 if values is None else zlib.crc32(f"{values.dtype} {list(values.shape[1:])}".encode())
        word = torch.tensor([VERBS.index(verb), length, len(text), kind])
        words = [torch.empty_like(word) for _ in range(self.size)]
        self._call(lambda: dist.all_gather(words, word))
        every = torch.stack(words)
        if bool(every[:, 2].any()):
            sizes = every[:, 2].tolist()
            texts = self._share(torch.frombuffer(bytearray(text), dtype=torch.uint8) if text else _nothing(), sizes)
            first = next(p for p, size in enumerate(sizes) if size)
            self._told = told = (
                error if first == self.process and error is not None else _read(bytes(texts[first].tolist()))
            )
            raise told
        if len({(verb, kind) for verb, _, _, kind in every.tolist()}) > 1:
            said = [f"{VERBS[verb]} ({kind})" for verb, _, _, kind in every.tolist()]
            raise RuntimeError(f"processes have met in different verbs, or with different values: {said}")
        return cast("list[int]", every[:, 1].tolist())

    def _share(self, values: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        """Return the bytes [n] of all processes, whose numbers are known."""
        most = max(sizes)
        if not most:
            return [values] * self.size
        padded = values.new_zeros(most)
        padded[: len(values)] = values
        found = [torch.empty_like(padded) for _ in sizes]
        self._call(lambda: dist.all_gather(found, padded))
        self.bytes_moved += sum(sizes) - sizes[self.process]
        return [one[:size] for one, size in zip(found, sizes, strict=True)]

    def _of_all(self, values: Tensor, counts: Sequence[int]) -> list[Tensor]:
        """Return values [n, ...] of all processes, whose numbers of entries are known."""
        shape, each = values.shape[1:], values[:0].new_empty(values.shape[1:]).numel() * values.element_size()
        shared = self._share(_bytes(values), [count * each for count in counts])
        return [one.clone().view(values.dtype).view(count, *shape) for one, count in zip(shared, counts, strict=True)]

    def _call(self, send: Callable[[], T]) -> T:
        """Let a call of `torch.distributed` fail with the name of the process that is gone."""
        try:
            return send()
        except RuntimeError as error:
            raise ProcessLostError(f"{self._lost()} ({str(error).splitlines()[0]})") from error

    def _lost(self) -> str:
        """Say which process does not answer any more, as far as that is known here."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for process, (host, pid) in enumerate(self.pids):
                if process != self.process and host == socket.gethostname() and not _lives(pid):
                    return f"{self.who(process)} is gone"
            time.sleep(0.1)
        elsewhere = [self.who(p) for p, (host, _) in enumerate(self.pids) if host != socket.gethostname()]
        return f"a process does not answer any more: {' or '.join(elsewhere) or 'another one'}"

    # The verbs.

    def status(self, error: Exception | None = None) -> None:
        """Say that this process goes on, or what has failed in it, unless all know that already."""
        if isinstance(error, ProcessLostError) or (error is not None and error is self._told):
            return
        try:
            self._meet("status", error=error)
        except Exception as told:
            if told is not error:
                raise

    def everyone(self, value: Any) -> list[Any]:
        """Return the values that all processes have to tell."""
        text = json.dumps(value).encode()
        sizes = self._meet("everyone", len(text))
        shared = self._share(torch.frombuffer(bytearray(text), dtype=torch.uint8), sizes)
        return [json.loads(bytes(one.tolist())) for one in shared]

    def own(self, count: int) -> Tensor:
        """Return the nodes of K that this process owns, ascending, [k]."""
        if count != len(self.owner):
            raise ValueError(f"there are {len(self.owner)} nodes in this run, got {count}")
        return self.nodes

    def mine(self, values: Tensor) -> Tensor:
        """Return the entries of a control-plane value [K, ...] that belong to owned nodes, [k, ...]."""
        return values[self.nodes]

    def here(self, node: Tensor) -> Tensor:
        """Tell which of some nodes [M] are owned, a mask [M]."""
        return self.owner[node] == self.process

    def fetch(self, rows: Tensor, nodes: Tensor, wanted: Tensor) -> Tensor:
        """Return rows of other processes' nodes, [r, P], each sent once to a process that wants it."""
        fetched: Tensor = _Fetch.apply(rows, nodes, wanted, self)
        return fetched

    def reduce(self, value: Tensor) -> Tensor:
        """Return the sum of a value over all processes."""
        self._meet("reduce", values=value[None])
        total = value.detach().clone()
        self._call(lambda: dist.all_reduce(total))
        self.bytes_moved += total.numel() * total.element_size()
        return total

    def gather(self, values: Tensor) -> Tensor:
        """Return the values [K, ...] of all nodes."""
        self._meet("gather", values=values)
        out = values.new_empty(len(self.owner), *values.shape[1:])
        for nodes, some in zip(self.shares, self._of_all(values, self.counts), strict=True):
            out[nodes] = some
        return out

    def concat(self, values: Tensor) -> Tensor:
        """Return the values of all processes, one process's after the other's."""
        return torch.cat(self._of_all(values, self._meet("concat", len(values), values)))

    def tell(self, values: Tensor, owner: Tensor, to: Tensor | None = None) -> Tensor:
        """Return values with what their owners have filled in; everybody gets to know them, whatever ``to`` says."""
        self._meet("tell", values=values)
        by = self.owner[owner]
        places = [(by == p).nonzero().flatten() for p in range(self.size)]
        out = values.clone()
        for place, some in zip(places, self._of_all(values[places[self.process]], [*map(len, places)]), strict=True):
            out[place] = some
        return out

    def _swap(self, give: list[Tensor], take: list[Tensor]) -> None:
        """Send something to every process, and receive something from each, where there is something."""
        sends = [dist.P2POp(dist.isend, one, p) for p, one in enumerate(give) if one.numel()]
        takes = [dist.P2POp(dist.irecv, one, p) for p, one in enumerate(take) if one.numel()]
        if sends or takes:
            self._call(lambda: [work.wait() for work in dist.batch_isend_irecv([*sends, *takes])])
        self.bytes_moved += sum(one.numel() * one.element_size() for one in take)


class _Fetch(torch.autograd.Function):
    """Rows of remote nodes; their gradients go back to the owners."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, nodes: Tensor, wanted: Tensor, meeting: Processes) -> Tensor:
        asked = meeting._of_all(wanted, meeting._meet("fetch", len(wanted), rows))
        give = [torch.searchsorted(nodes, one[meeting.here(one)]) for one in asked]
        places = [(meeting.owner[wanted] == p).nonzero().flatten() for p in range(meeting.size)]
        taken = [rows.new_empty(len(place), *rows.shape[1:]) for place in places]
        meeting._swap([rows.detach()[one.to(rows.device)] for one in give], taken)
        meeting.rows_moved += len(wanted)
        out = rows.new_empty(len(wanted), *rows.shape[1:])
        for place, some in zip(places, taken, strict=True):
            out[place.to(rows.device)] = some
        ctx.meeting, ctx.give, ctx.places, ctx.count = meeting, give, places, len(nodes)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        meeting, gradient = ctx.meeting, gradients[0]
        meeting._meet("fetch back", values=gradient)
        own = gradient.new_zeros(ctx.count, *gradient.shape[1:])
        back = [own.new_empty(len(one), *own.shape[1:]) for one in ctx.give]
        meeting._swap([gradient[place.to(gradient.device)].contiguous() for place in ctx.places], back)
        for place, some in zip(ctx.give, back, strict=True):  # in the order of processes, so sums are always the same
            own.index_add_(0, place.to(own.device), some)
        return own, None, None, None


def _nothing() -> Tensor:
    return torch.empty(0, dtype=torch.uint8)


def _bytes(values: Tensor) -> Tensor:
    return values.detach().contiguous().reshape(-1).view(torch.uint8) if values.numel() else _nothing()


def _written(error: Exception) -> bytes:
    kind = type(error)
    return json.dumps([kind.__module__, kind.__qualname__, str(error)]).encode()


def _read(text: bytes) -> Exception:
    """Return another process's error: of its class where that is known here and takes a text, else a RuntimeError."""
    module, name, told = json.loads(text)
    kind: Any = functools.reduce(lambda at, one: getattr(at, one, None), name.split("."), sys.modules.get(module))
    if isinstance(kind, type) and issubclass(kind, Exception):
        with contextlib.suppress(Exception):
            made = kind(told)
            if str(made) == told:
                return made
    return RuntimeError(f"{name}: {told}")


def _lives(pid: int) -> bool:
    """Tell whether a process of this machine is still at work; one that has ended may wait to be taken note of."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _write_error_file(text: str) -> None:
    """Say what torchrun is to show of this process where it ends by a signal."""
    if path := os.environ.get(ERROR_FILE):
        extra = {"py_callstack": text, "timestamp": str(int(time.time()))}
        Path(path).write_text(json.dumps({"message": {"message": text, "extraInfo": extra}}), encoding="utf-8")
