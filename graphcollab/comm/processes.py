"""`Processes`: a transport over `torch.distributed`."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from graphcollab._base.errors import MismatchError
from graphcollab._base.naming import few
from graphcollab.comm.meeting import Meeting
from graphcollab.comm.transport import SharedTransport, kinds_of


class Processes(Meeting, SharedTransport):
    """One of several processes that play the same run, verb by verb.

    Args:
        names: Names of the nodes.
        owner: The process of every node, [K].

    Attributes:
        rows_moved: Number of remote rows received so far.
    """

    def __init__(self, names: Sequence[str], owner: Tensor) -> None:
        SharedTransport.__init__(self, dist.get_rank(), owner)
        self.names, self.rows_moved = names, 0
        Meeting.__init__(self)
        self._agree()

    @property
    def is_main(self) -> bool:  # type: ignore[override]
        """Whether this is the main process."""
        return self.process == 0

    def _agree(self) -> None:
        owner, count = self.owner.tolist(), len(self.names)
        counts, owners = zip(*self.all_gather_object([count, owner]), strict=True)
        if len({*counts}) > 1:
            raise MismatchError("tasks", f"processes have tasks of {counts} nodes: give all of them the same tasks")
        if self.owner.shape != (count,) or any(other != owner for other in owners):
            raise MismatchError(
                "placement", f"placement must be the same in all processes, and of {count} nodes, got {owners}"
            )
        if {*owner} != {*range(self.size)}:
            raise MismatchError(
                "placement", f"placement must give nodes to each of the processes 0 to {self.size - 1}, got {owner}"
            )

    def who(self, process: int) -> str:
        own = [self.names[k] for k in (self.owner == process).nonzero().flatten().tolist()]
        return f"process {process} with {len(own)} node{'s' * (len(own) > 1)} ({few([*map(repr, own)])})"

    def where(self, node: int) -> str:
        return f"in process {int(self.owner[node])} of {self.size}"

    def gather(
        self, what: str, values: Sequence[Tensor], by: Tensor | None = None, whole: Sequence[Tensor] = ()
    ) -> dict[int, list[Tensor]]:
        every = [*values, *whole]
        content = _bytes(torch.tensor([*map(len, every)], device=every[0].device), *every)
        told, head = self._share(content, self._meet("gather", len(content), what)), 8 * len(every)
        counts = [one[:head].clone().view(torch.int64).tolist() for one in told]
        return {p: _split(one[head:], every, many) for p, (one, many) in enumerate(zip(told, counts, strict=True))}

    def swap(self, what: str, give: Mapping[int, Tensor], take: Mapping[int, Tensor]) -> Mapping[int, Tensor]:
        self._meet("swap", what=what)
        sends = [dist.P2POp(dist.isend, one.contiguous(), p) for p, one in give.items()]
        takes = [dist.P2POp(dist.irecv, one, p) for p, one in take.items()]
        if sends or takes:
            self._call(lambda: [work.wait() for work in dist.batch_isend_irecv([*sends, *takes])])
        self.rows_moved += sum(map(len, take.values()))
        self.bytes_moved += sum(one.numel() * one.element_size() for one in take.values())
        return take

    def all_reduce(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Return the sums of values over all processes; those of one type are sent together."""
        self._meet("all_reduce", what=kinds_of(value[None] for value in values))
        found: dict[int, Tensor] = {}
        for dtype, device in dict.fromkeys((value.dtype, value.device) for value in values):
            places = [n for n, value in enumerate(values) if (value.dtype, value.device) == (dtype, device)]
            flat = [values[n].detach().reshape(-1) for n in places]
            total = torch.cat(flat).to(torch.uint8 if dtype == torch.bool else dtype)
            self._call(functools.partial(dist.all_reduce, total))
            self.bytes_moved += total.numel() * total.element_size()
            for n, some in zip(places, total.to(dtype).split([*map(len, flat)]), strict=True):
                found[n] = some.view(values[n].shape)
        return tuple(found[n] for n in range(len(values)))


def _bytes(*values: Tensor) -> Tensor:
    flat = [value.detach().contiguous().reshape(-1).view(torch.uint8) for value in values if value.numel()]
    return torch.cat([torch.empty(0, dtype=torch.uint8, device=values[0].device), *flat])


def _size(values: Tensor) -> int:
    """Return the number of bytes per entry of values [n, ...]."""
    return math.prod(values.shape[1:]) * values.element_size()


def _split(content: Tensor, like: Sequence[Tensor], counts: Sequence[int]) -> list[Tensor]:
    """Return values from their bytes, given values of the same types and shapes, and the number of entries of each."""
    parts = content.split([_size(one) * count for one, count in zip(like, counts, strict=True)])
    return [
        part.clone().view(one.dtype).view(count, *one.shape[1:])
        for part, one, count in zip(parts, like, counts, strict=True)
    ]
