"""`Processes`: a transport over `torch.distributed`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from graphcollab.distributed.errors import write_error_file
from graphcollab.distributed.meeting import Meeting
from graphcollab.naming import few
from graphcollab.transport import SharedTransport

__all__ = ["Processes"]


class Processes(Meeting, SharedTransport):
    """One of several processes that play the same run, verb by verb.

    Args:
        names: Names of the nodes.
        owner: The process of every node, [K].

    Attributes:
        rows_moved: Rows of other processes' nodes that have come here so far.
    """

    def __init__(self, names: Sequence[str], owner: Tensor) -> None:
        SharedTransport.__init__(self, dist.get_rank(), owner)
        self.names, self.rows_moved = names, 0
        Meeting.__init__(self)
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
        told = self.everyone([len(self.names), self.owner.tolist()])
        many = [count for count, _ in told]
        if len(set(many)) > 1:
            raise ValueError(f"processes have tasks of {many} nodes: give all of them the same tasks")
        for count, owner in told:
            if len(owner) != count:
                raise ValueError(f"owner must name a process for each of {count} nodes, got {len(owner)}")
        for node, said in enumerate(zip(*(owner for _, owner in told), strict=True)):
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

    def _of_all(self, values: Tensor, counts: Sequence[int]) -> list[Tensor]:
        """Return values [n, ...] of all processes, whose numbers of entries are known."""
        shape, each = values.shape[1:], values[:0].new_empty(values.shape[1:]).numel() * values.element_size()
        shared = self._share(_bytes(values), [count * each for count in counts])
        return [one.clone().view(values.dtype).view(count, *shape) for one, count in zip(shared, counts, strict=True)]

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


def _bytes(values: Tensor) -> Tensor:
    return (
        values.detach().contiguous().reshape(-1).view(torch.uint8)
        if values.numel()
        else torch.empty(0, dtype=torch.uint8)
    )
