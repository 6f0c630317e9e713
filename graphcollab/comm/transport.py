"""How rows and numbers of nodes get from the process that owns them to those that may read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

from graphcollab._base.errors import MismatchError

__all__ = ["Halo", "SharedTransport", "Transport", "raise_on_all"]

Act: TypeAlias = Callable[[], None]
Snapshot: TypeAlias = Callable[[], bytes]
Restore: TypeAlias = Callable[[bytes], None]


class _Tells(Protocol):
    def status(self, error: Exception | None = None) -> None:
        """Say that this process goes on, or what has failed in it."""


@contextmanager
def raise_on_all(others: _Tells) -> Iterator[None]:
    """Let what fails in one process fail in all of them, with the same error."""
    try:
        yield
    except Exception as error:
        others.status(error)
        raise
    others.status()


class Transport:
    """A run in one process, which owns every node: nothing has to travel.

    A subclass is another kind of run, and the only code that knows how many processes there are. Control-plane values
    ([K], [E]) are in every process; rows ([k, P]) are in the process that owns their nodes, in the order of the nodes.
    Every method but `own` and `local_values` is called by all processes together. One is the main process: it shows
    progress, warns and writes files.
    """

    def status(self, error: Exception | None = None) -> None:
        """Say that this process goes on, or what has failed in it; raise what has failed in another one.

        A subclass begins every other verb with that word: wherever the others meet a process that has failed, all raise
        the error of the first process that has one.
        """

    is_main = True

    cross_silo = False
    """Whether processes are of parties who tell each other no more than what is declared to be public."""

    party = ""
    """What the party is called whose process this is."""

    participation: Any = None
    """A `graphcollab.components.Participation`, where the transport says who takes part."""

    @property
    def refused(self) -> dict[int, str]:
        """Nodes that all count as away in this round, as what they sent to be added up could be no model, and why."""
        return {}

    def there(self, count: int) -> Tensor | None:
        """Return which of K nodes belong to processes that are there, a mask [K]; None if all do."""
        return None

    def play(self, act: Act, snapshot: Snapshot, restore: Restore, again: bool = False) -> None:
        """Play a round, or what follows it: again where somebody was lost in the middle, see `graphcollab.sites`."""
        act()

    def commit(self) -> None:
        """Agree that the round has been played by all."""

    def begin(self, round_: int, evaluated: bool, forget: Act, snapshot: Snapshot, restore: Restore) -> None:
        """Let all go on from one place, whatever round each has played last, and whether it has evaluated that."""

    def all_gather_object(self, value: Any) -> list[Any]:
        """Return what all processes have to tell, plain values that JSON can hold, the first process's first.

        What depends on a clock, a signal or a disk, the first process decides.
        """
        return [value]

    def where(self, node: int) -> str:
        """Say in which process a node is that is not owned here."""
        return ""

    def own(self, count: int) -> Tensor:
        """Return the nodes of K that this process owns, ascending, [k]."""
        return torch.arange(count)

    def local_values(self, values: Tensor) -> Tensor:
        """Return the entries of a control-plane value [K, ...] that belong to owned nodes, [k, ...]."""
        return values

    def local_mask(self, node: Tensor) -> Tensor | None:
        """Tell which of some nodes [M] are owned, a mask [M]; None if all are."""
        return None

    def fetch(self, rows: Tensor, nodes: Tensor, edge_index: Tensor) -> Tensor:
        """Return the rows of others that owned receivers hear, [r, P], each once, ascending by node.

        Given are rows [n, P] of owned ``nodes`` [n], ascending, all or those of one architecture, and edges from these
        and their like, [2, E], the same in all processes: so each knows what another is to get, and nobody asks.
        """
        return rows[:0]

    def missing(self, edge_index: Tensor, before: Tensor) -> Tensor:
        """Return which edges of [2, E] lead rows to processes that none of the edges ``before``, [2, M], led to."""
        return edge_index[:, :0]

    def all_reduce(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Return the sums of values over all processes: of as many as there are, in one meeting."""
        return values

    def all_reduce_disjoint(self, what: str, values: Sequence[Tensor], counts: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return values [K] of all nodes, of which each process has filled in its own, others 0; then sums of counts.

        Of counts [K] each process has a part, of any node. ``what`` says in words what everybody is told so.
        """
        return self.all_reduce(*values, *counts)

    def all_gather_nodes(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Return the values [K, ...] of all nodes, given those of owned ones, [k, ...]; of several in one meeting."""
        return values

    def all_gather(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Return the values of all processes, [n, ...] of this one, one process's after the other's, [N, ...].

        Several, of any lengths, come in one meeting. The first says whose node each entry is of, [n]: between parties
        an entry of another one's node is an error.
        """
        return values

    def all_gather_models(self, *rows: Tensor) -> tuple[Tensor, ...]:
        """Return models of all processes as `all_gather` does: the only way by which everybody gets those of others."""
        return self.all_gather(*rows)

    def neighbor_all_gather(self, owner: Tensor, edge_index: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        """Return what is passed on along edges [2, E] to nodes here: whose it is, [N], and values, [N, ...].

        Given are entries of owned nodes, [n] and [n, ...]; edges are the same in all processes. Who hears a node along
        one of them gets all its entries, and nobody else has to.
        """
        return owner[:0], *(one[:0] for one in values)

    def broadcast(self, values: Tensor, owner: Tensor, to: Tensor | None = None, what: str = "") -> Tensor:
        """Return values [M, ...] that processes have filled in for their own nodes, with what others have filled in.

        Each is known to its ``owner``, a node [M], and what others say of it is ignored; ``to`` [M] is the node that
        gets to know it too, by default everybody, who is told ``what`` it is.
        """
        return values


class SharedTransport(Transport):
    """Base of runs of several processes: which this is, and the ``owner`` of every node among them, [K]."""

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
        """Return for every process the nodes of others that it hears along edges [2, E], ascending, [r] each."""
        sender, receiver = self.owner[edge_index]
        crossing, count = sender != receiver, len(self.owner)
        pairs = (receiver[crossing] * count + edge_index[0, crossing]).unique()
        many = torch.bincount(pairs // count, minlength=int(self.owner.max()) + 1)
        return [*(pairs % count).split(many.tolist())]

    def in_place(self, values: Sequence[Tensor], told: Iterable[Sequence[Tensor]]) -> tuple[Tensor, ...]:
        """Return values [K, ...], given those of owned nodes, [k, ...], and what each process has told of its own."""
        out = tuple(one.new_empty(len(self.owner), *one.shape[1:]) for one in values)
        for process, many in enumerate(told):
            for one, some in zip(out, many, strict=True):
                one[self.owner == process] = some
        return out

    def neighbor_all_gather(self, owner: Tensor, edge_index: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        """Tell all, and take what nodes here hear."""
        owner, *found = self.all_gather(owner, *values)
        heard = torch.isin(owner, self.wanted(edge_index)[self.process])
        return owner[heard], *(one[heard] for one in found)

    def missing(self, edge_index: Tensor, before: Tensor) -> Tensor:
        want, had = (self.owner[edges[1]] * len(self.owner) + edges[0] for edges in (edge_index, before))
        elsewhere = self.owner[edge_index[0]] != self.owner[edge_index[1]]
        return edge_index[:, elsewhere & ~torch.isin(want, had)]


@dataclass(frozen=True)
class Halo:
    """Rows that may be read here, [k + r, P], owned ones first, of ``nodes`` [k + r], and the edges between them.

    ``edge_index`` has the places of senders among the rows, of receivers among owned nodes, [2, e]. ``edges`` says
    which of all edges these are, [e]; None where they are all, in their order.
    """

    rows: Tensor
    edge_index: Tensor
    edges: Tensor | None
    nodes: Tensor

    def place(self, nodes: Tensor) -> Tensor:
        """Return the rows of some of these nodes."""
        if self.edges is None:
            return nodes
        order = self.nodes.argsort()
        return order[torch.searchsorted(self.nodes[order], nodes)]

    def take(self, values: Tensor) -> Tensor:
        """Return the values of these edges, [e], given those of all, [E]."""
        return values if self.edges is None else values[self.edges]

    def put(self, values: Tensor, count: int) -> Tensor:
        """Return values of all edges, [E], given those of these, [e]; the others are not known here: NaN."""
        if self.edges is None:
            return values
        unknown = values.new_full((count, *values.shape[1:]), torch.nan)
        return unknown.index_put((self.edges,), values)
