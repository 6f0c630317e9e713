"""Transports: how rows and numbers of nodes get from their owning process to those that may read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

from graphcollab._base.errors import MismatchError, StateError

__all__ = ["Halo", "SharedTransport", "Transport", "raise_on_all"]

NUMBERS = "what all are told as numbers: losses, scores, weights"
LISTS = "what all are told as lists: edges, cluster centers"

Act: TypeAlias = Callable[[], None]
Snapshot: TypeAlias = Callable[[], bytes]
Restore: TypeAlias = Callable[[bytes], None]


class _Tells(Protocol):
    def status(self, error: Exception | None = None) -> None:
        """Announce that this process continues, or the error in it."""


@contextmanager
def raise_on_all(others: _Tells) -> Iterator[None]:
    """Make an error in one process fail all of them, with the same error."""
    try:
        yield
    except Exception as error:
        others.status(error)
        raise
    others.status()


class Transport:
    """A run in one process, which owns every node, so nothing has to travel.

    Subclasses are other kinds of runs, and the only code that knows the number of processes. Control-plane values ([K],
    [E]) are in every process; rows ([k, P]) are in the process that owns their nodes, in the order of the nodes. Every
    method except `own` and `local_values` is called by all processes together. One is the main process: it shows
    progress, warns and writes files.
    """

    def status(self, error: Exception | None = None) -> None:
        """Announce that this process continues, or the error in it; raise the error of another process."""

    is_main = True

    cross_silo = False
    """Whether processes belong to parties that disclose to each other only what is declared public."""

    party = ""
    """Name of the party that this process belongs to."""

    participation: Any = None
    """A `graphcollab.components.Participation`, if the transport determines participation."""

    @property
    def refused(self) -> dict[int, str]:
        """Nodes that all processes treat as away in this round, since their summands were implausible, and why."""
        return {}

    def there(self, count: int) -> Tensor | None:
        """Return which of K nodes belong to processes that are present, a mask [K]; None if all do."""
        return None

    def play(self, act: Act, snapshot: Snapshot, restore: Restore, again: bool = False) -> None:
        """Play a round, or what follows it; play it again if a process was lost in between, see `graphcollab.sites`."""
        act()

    def commit(self) -> None:
        """Agree that all processes have played the round."""

    def begin(self, round_: int, evaluated: bool, forget: Act, snapshot: Snapshot, restore: Restore) -> None:
        """Let all processes start from one state, whatever round each has played last, and whether it was evaluated."""

    def all_gather_object(self, value: Any) -> list[Any]:
        """Return the values of all processes, plain values that JSON can hold, the main process's first."""
        return [value]

    def where(self, node: int) -> str:
        """Return the name of the process of a node that is not owned here."""
        return ""

    def own(self, count: int) -> Tensor:
        """Return the nodes of K that this process owns, ascending, [k]."""
        return torch.arange(count)

    def local_values(self, values: Tensor) -> Tensor:
        """Return the entries of a control-plane value [K, ...] that belong to owned nodes, [k, ...]."""
        return values

    def local_mask(self, node: Tensor) -> Tensor | None:
        """Return which of the nodes [M] are owned, a mask [M]; None if all are."""
        return None

    def fetch(self, rows: Tensor, nodes: Tensor, edge_index: Tensor) -> Tensor:
        """Return the remote rows that owned receivers hear, [r, P], each once, ascending by node.

        Inputs are rows [n, P] of owned ``nodes`` [n], ascending, all or those of one architecture, and edges between
        these and their counterparts, [2, E], the same in all processes; each process thus knows what the others need,
        without requests.
        """
        return rows[:0]

    def missing(self, edge_index: Tensor, before: Tensor) -> Tensor:
        """Return which edges of [2, E] take rows to processes that no edge in ``before``, [2, M], took them to."""
        return edge_index[:, :0]

    def all_reduce(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Return the sums of any number of values over all processes, in one meeting."""
        return values

    def all_gather(self, *values: Tensor, counts: Sequence[Tensor] = (), what: str = NUMBERS) -> tuple[Tensor, ...]:
        """Return the values [K, ...] of all nodes, given those of owned ones, [k, ...]; then the sums of counts.

        Several values travel in one meeting. Each process has a part of the counts [K], nonnegative and of any node.
        ``what`` describes in words what is disclosed to all.
        """
        return *values, *counts

    def all_gather_lists(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Return the concatenated values of all processes, [N, ...], given those of this one, [n, ...].

        Several values, of any lengths, travel in one meeting. The first holds the node of each entry, [n]: between
        parties, an entry of another party's node is an error.
        """
        return values

    def all_gather_models(self, *rows: Tensor) -> tuple[Tensor, ...]:
        """Return models of all processes as `all_gather_lists` does: the only way to give all of them all models."""
        return self.all_gather_lists(*rows)

    def neighbor_all_gather(self, owner: Tensor, edge_index: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        """Return what is passed along edges [2, E] to local nodes: the owner of each entry, [N], and values, [N, ...].

        Inputs are entries of owned nodes, [n] and [n, ...]; edges are the same in all processes. A node's out-neighbors
        get all of its entries; other nodes need not.
        """
        return owner[:0], *(one[:0] for one in values)

    def broadcast(self, values: Tensor, owner: Tensor, to: Tensor | None = None, what: str = "") -> Tensor:
        """Return values [M, ...] that processes have filled in for their own nodes, completed by the others' entries.

        Each entry is defined by its ``owner``, a node [M]; entries of others for it are ignored. ``to`` [M] is the node
        that also receives it, by default all, which are told ``what`` it is.
        """
        return values


class SharedTransport(Transport):
    """Base of multi-process runs: the number of this process, and the ``owner`` of every node, [K].

    Subclasses implement three primitives: ``gather``, ``swap`` and ``all_reduce``.
    """

    def __init__(self, process: int, owner: Tensor) -> None:
        self.process, self.owner = process, owner
        self.nodes = (owner == process).nonzero().flatten()

    def own(self, count: int) -> Tensor:
        if count != len(self.owner):
            raise MismatchError("nodes", f"there are {len(self.owner)} nodes in this run, got {count}")
        return self.nodes

    def local_values(self, values: Tensor) -> Tensor:
        return values[self.nodes]

    def local_mask(self, node: Tensor) -> Tensor:
        return self.owner[node] == self.process

    def wanted(self, edge_index: Tensor) -> list[Tensor]:
        """Return for every process the remote nodes that it hears along edges [2, E], ascending, [r] each."""
        sender, receiver = self.owner[edge_index]
        crossing, count = sender != receiver, len(self.owner)
        pairs = (receiver[crossing] * count + edge_index[0, crossing]).unique()
        many = torch.bincount(pairs // count, minlength=int(self.owner.max()) + 1)
        return [*(pairs % count).split(many.tolist())]

    # ------------------------------------------------------------------------------------------------- primitives

    def gather(
        self, what: str, values: Sequence[Tensor], by: Tensor | None = None, whole: Sequence[Tensor] = ()
    ) -> dict[int, list[Tensor]]:
        """Return values [n, ...] of every process that is there, by process, and ``whole`` ones of equal shapes.

        ``by`` [N], if known, is the process of each entry over all processes.
        """
        raise NotImplementedError

    def swap(self, what: str, give: Mapping[int, Tensor], take: Mapping[int, Tensor]) -> Mapping[int, Tensor]:
        """Send a tensor each to some processes, and return those from others, of the types and shapes in ``take``."""
        raise NotImplementedError

    @property
    def others(self) -> list[int]:
        """The other processes that are there."""
        return [p for p in range(int(self.owner.max()) + 1) if p != self.process]

    def unknown(self, values: Tensor, count: int) -> Tensor:
        """Return placeholders [count, ...] for unknown values: NaN, False or -1."""
        nothing = torch.nan if values.is_floating_point() else False if values.dtype is torch.bool else -1
        return values.new_full((count, *values.shape[1:]), nothing)

    def wrong(self, process: int, why: str) -> Exception:
        """Return the error that a process has sent what it must not send."""
        return StateError("processes", f"process {process} has sent a wrong message: {why}")

    def require_readers(self, processes: Iterable[int]) -> None:
        """Check that rows of models may go to some processes."""

    # ------------------------------------------------------------------------------------------ verbs made of them

    def all_gather(self, *values: Tensor, counts: Sequence[Tensor] = (), what: str = NUMBERS) -> tuple[Tensor, ...]:
        kinds = kinds_of([*values, *(one[None] for one in counts)])
        told = self.gather(f"{what} ({kinds})", values, self.owner, counts)
        totals = [torch.zeros_like(one) for one in counts]
        for process, many in told.items():
            for total, some in zip(totals, many[len(values) :], strict=True):
                if not bool((some >= 0).all()):
                    raise self.wrong(process, "it counts less than nothing")
                total += some.to(total.device)
        return *self.placed(values, told), *totals

    def placed(self, values: Sequence[Tensor], told: Mapping[int, Sequence[Tensor]]) -> tuple[Tensor, ...]:
        """Return values [K, ...], of the kinds of ``values``, from those that processes have of their own nodes."""
        out = tuple(self.unknown(one, len(self.owner)) for one in values)
        for process, many in told.items():
            for one, some in zip(out, many, strict=False):
                one[self.owner == process] = some.to(one.device)
        return out

    def all_gather_lists(self, *values: Tensor) -> tuple[Tensor, ...]:
        told = self.gather(f"{LISTS} ({kinds_of(values)})", values)
        for process, (nodes, *_) in told.items():
            self.require_own(process, nodes)
        every = zip(*told.values(), strict=True)
        return tuple(torch.cat([some.to(one.device) for some in many]) for one, many in zip(values, every, strict=True))

    def require_own(self, process: int, nodes: Tensor) -> None:
        """Check that a process has spoken of its own nodes only."""
        if not bool(torch.isin(nodes.cpu(), (self.owner == process).nonzero()).all()):
            raise self.wrong(process, "it speaks for nodes of others")

    def broadcast(self, values: Tensor, owner: Tensor, to: Tensor | None = None, what: str = "") -> Tensor:
        """Return values [M, ...] as filled in by their owners; with ``to``, sent from process to process.

        Values of absent owners stay as they are known here: they have not changed.
        """
        by, out = self.owner[owner], self.unknown(values, len(values))
        own = by == self.process
        kept = own if (there := self.there(len(self.owner))) is None else own | ~there[owner]
        out[kept] = values[kept]
        if to is None:
            told = self.gather(f"{what or NUMBERS} ({kinds_of([values])})", [values[own]], by)
            for process, (some,) in told.items():
                out[by == process] = some.to(out.device)
            return out
        hears = self.owner[to]
        give = {p: values[own & (hears == p)] for p in self.others}
        wait = {p: (by == p) & (hears == self.process) for p in self.others}
        take = {p: values[mask] for p, mask in wait.items()}
        what = f"{what or 'gradients or their products, for one site'} ({kinds_of([values])})"
        for process, some in self._swapped(what, give, take).items():
            out[wait[process]] = some.to(out.device)
        return out

    def fetch(self, rows: Tensor, nodes: Tensor, edge_index: Tensor) -> Tensor:
        heard = self.wanted(edge_index)
        wanted = heard[self.process]
        if not any(map(len, heard)):
            return rows[:0]
        asked = {p: torch.searchsorted(nodes, heard[p][self.local_mask(heard[p])]) for p in self.others}
        self.require_readers(p for p, at in asked.items() if len(at))
        give = {p: rows[at.to(rows.device)] for p, at in asked.items()}
        places = {p: (self.owner[wanted] == p).nonzero().flatten() for p in self.others}
        take = {p: rows.new_empty(len(at), *rows.shape[1:]) for p, at in places.items()}
        out = self.unknown(rows, len(wanted))
        for p, some in self._swapped(f"models or updates ({kinds_of([rows])})", give, take).items():
            out[places[p].to(rows.device)] = some.to(rows.device)
        return out

    def _swapped(self, what: str, give: Mapping[int, Tensor], take: Mapping[int, Tensor]) -> Mapping[int, Tensor]:
        given, taken = ({p: one for p, one in some.items() if len(one)} for some in (give, take))
        return self.swap(what, given, taken)

    def neighbor_all_gather(self, owner: Tensor, edge_index: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        """Send to all processes, and keep what local nodes hear."""
        owner, *found = self.all_gather_lists(owner, *values)
        heard = torch.isin(owner, self.wanted(edge_index)[self.process])
        return owner[heard], *(one[heard] for one in found)

    def missing(self, edge_index: Tensor, before: Tensor) -> Tensor:
        want, had = (self.owner[edges[1]] * len(self.owner) + edges[0] for edges in (edge_index, before))
        elsewhere = self.owner[edge_index[0]] != self.owner[edge_index[1]]
        return edge_index[:, elsewhere & ~torch.isin(want, had)]


def kinds_of(values: Iterable[Tensor]) -> str:
    """Describe the number types and entry shapes of values [n, ...]; for more than two, only their number types."""
    kinds = [(str(one.dtype).removeprefix("torch."), list(one.shape[1:])) for one in values]
    if len(kinds) > 2:
        return f"{len(kinds)} tensors of {', '.join(dict.fromkeys(name for name, _ in kinds))}"
    return " and ".join(f"{name} {shape}" for name, shape in kinds)


@dataclass(frozen=True)
class Halo:
    """Rows that are readable here, [k + r, P], owned ones first, of ``nodes`` [k + r], and the edges between them.

    ``edge_index`` has the positions of senders among the rows, and of receivers among owned nodes, [2, e]. ``edges``
    are the positions of these among all edges, [e]; None if they are all, in their order.
    """

    rows: Tensor
    edge_index: Tensor
    edges: Tensor | None
    nodes: Tensor

    def place(self, nodes: Tensor) -> Tensor:
        """Return the positions of nodes among the rows."""
        if self.edges is None:
            return nodes
        order = self.nodes.argsort()
        return order[torch.searchsorted(self.nodes[order], nodes)]

    def take(self, values: Tensor) -> Tensor:
        """Return the values of these edges, [e], given those of all, [E]."""
        return values if self.edges is None else values[self.edges]

    def put(self, values: Tensor, count: int) -> Tensor:
        """Return values of all edges, [E], given those of these, [e]; unknown ones are NaN."""
        if self.edges is None:
            return values
        unknown = values.new_full((count, *values.shape[1:]), torch.nan)
        return unknown.index_put((self.edges,), values)
