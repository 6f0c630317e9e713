"""`Processes`: a transport over `torch.distributed`."""

from __future__ import annotations

import json
import os
import socket
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from graphcollab.distributed.errors import ProcessLostError, lives, read, write_error_file, written
from graphcollab.naming import few
from graphcollab.transport import SharedTransport

__all__ = ["Processes"]

T = TypeVar("T")

VERBS = ("status", "everyone", "fetch", "fetch back", "reduce", "gather", "concat", "tell")
PATIENCE = 10.0  # seconds in which survivors look for the process that is gone


class Processes(SharedTransport):
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
        super().__init__(dist.get_rank(), owner)
        self.names, self.size = names, dist.get_world_size()
        self.rows_moved = self.bytes_moved = 0
        self._told: Exception | None = None
        self.pids = [(os.uname().nodename, os.getpid())] * self.size
        self._agree()
        self.counts = torch.bincount(owner, minlength=self.size).tolist()
        self.shares = [(owner == p).nonzero().flatten() for p in range(self.size)]
        write_error_file(f"{self.who(self.process)} was killed")

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
        text = b"" if error is None else written(error)
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
                error if first == self.process and error is not None else read(bytes(texts[first].tolist()))
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
                if process != self.process and host == socket.gethostname() and not lives(pid):
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
