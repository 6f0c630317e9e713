"""`Sites`: the transport of a run between parties that keep their data; `Gathering`: the sites of a connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.errors import ConflictError, ContractError
from graphcollab._base.naming import few
from graphcollab.comm.launch import among
from graphcollab.comm.transport import SharedTransport
from graphcollab.components import Env, Participation
from graphcollab.sites.connection import Connection
from graphcollab.sites.errors import SiteLostError
from graphcollab.sites.frame import Frame, FrameError, wrong_message
from graphcollab.sites.rounds import Rounds

NUMBERS = "what all are told as numbers: losses, scores, weights"
SUMS = "what is added up: models, gradients, counters"
VALUES = "what is agreed on, and how tables are prepared"

CONNECTION: ContextVar[Connection | None] = ContextVar("connection", default=None)
"""The site's connection in the job that has started its script; None if the script was started by hand."""


@dataclass(frozen=True)
class Presence(Participation):
    """Participation in a round between sites: the nodes of all working sites."""

    def at_work(self, data: Data, env: Env) -> tuple[Tensor, Tensor]:
        there = cast(Any, env.plane.transport).working  # of `Sites`
        return there, there


class Sites(Rounds, SharedTransport):
    """One of several sites that play the same run. Each shows its own progress and keeps its own checkpoints.

    Models travel from site to site along edges, and nowhere else; sums and public values pass through the coordinator.
    If a site is lost, the round is replayed without it (`play`). Values of absent nodes are NaN, -1 or False here, so
    that their use does not go unnoticed.
    """

    is_main = True
    cross_silo = True
    participation = Presence()

    def __init__(self, connection: Connection, owner: Tensor) -> None:
        Rounds.__init__(self, connection)
        self.party = connection.name
        SharedTransport.__init__(self, connection.sites.index(connection.name), owner)

    @property
    def working(self) -> Tensor:
        """Mask of the nodes whose sites are present and not resting, [K]."""
        there = [site in self.connection.present and site not in self.connection.resting for site in self._sites]
        return torch.tensor(there)[self.owner]

    def there(self, count: int) -> Tensor | None:
        if len(self.connection.present) == len(self._sites):
            return None
        return torch.tensor([site in self.connection.present for site in self._sites])[self.owner]

    @property
    def refused(self) -> dict[int, str]:
        why = {self._sites.index(site): why for site, why in self.connection.refused.items()}
        return {node: why[site] for node, site in enumerate(self.owner.tolist()) if site in why}

    @property
    def _sites(self) -> tuple[str, ...]:
        return self.connection.sites

    @property
    def _others(self) -> list[tuple[int, str]]:
        """The other present sites, by number and name."""
        return [(p, one) for p, one in enumerate(self._sites) if one in self.connection.present and p != self.process]

    def where(self, node: int) -> str:
        return f"at {self._sites[int(self.owner[node])]}"

    def status(self, error: Exception | None = None) -> None:
        """Raise an error of this site at all sites; success needs no message.

        Once rounds have begun, a site with an ``OSError``, such as a full disk, leaves instead: the others go on.
        """
        if isinstance(error, OSError) and self._begun:
            self.connection.leave(error)
            error.add_note(
                f"{self.connection.name} has left the run, and the others go on without it. Started again, it goes on "
                "from its last checkpoint."
            )
        elif error is not None:
            self.connection.fail(error)

    def all_gather_object(self, value: Any) -> list[Any]:
        values, _ = self.connection.tell(VALUES, value)
        return [*values.values()]

    def all_reduce(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Return the sums of values over all present sites, computed by the coordinator."""
        kinds = _kinds_of(value[None] for value in values)
        _, told = self.connection.tell(f"{SUMS} ({kinds})", tensors=values, add=True)
        sums = Frame({}, told[self.connection.name]).require(*((one.dtype, tuple(one.shape)) for one in values))
        return tuple(total.to(value.device) for total, value in zip(sums.tensors, values, strict=True))

    def all_reduce_disjoint(self, what: str, values: Sequence[Tensor], counts: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return values [K], those of its own nodes from each site, and sums of counts [K], added up locally."""
        told = self._hear(what, [self.local_values(one) for one in values], self.owner, counts)
        totals = [torch.zeros_like(one) for one in counts]
        for site, many in told.items():
            for total, some in zip(totals, many[len(values) :], strict=True):
                if not bool((some >= 0).all()):
                    raise wrong_message(site, "it counts less than nothing")
                total += some
        return *self._placed(values, told), *totals

    def all_gather_nodes(self, *values: Tensor) -> tuple[Tensor, ...]:
        return self._placed(values, self._hear(NUMBERS, values, self.owner))

    def _placed(self, values: Sequence[Tensor], told: Mapping[str, Sequence[Tensor]]) -> tuple[Tensor, ...]:
        """Return values [K, ...], of the kinds of ``values``, from those that sites have sent for their own nodes."""
        out = tuple(_unknown(one, len(self.owner)) for one in values)
        for site, many in told.items():
            for one, some in zip(out, many, strict=False):
                one[self.owner == self._sites.index(site)] = some.to(one.device)
        return out

    def all_gather(self, *values: Tensor) -> tuple[Tensor, ...]:
        told = self._hear("what all are told as lists: edges, cluster centers", values)
        for site, (nodes, *_) in told.items():
            self._require_own(site, nodes)
        every = zip(*told.values(), strict=True)
        return tuple(torch.cat(many).to(one.device) for one, many in zip(values, every, strict=True))

    def all_gather_models(self, *rows: Tensor) -> tuple[Tensor, ...]:
        """Refuse to send a model to all sites: between sites, models go to listeners or into a sum."""
        message = f"{self.party} would tell all sites its model, and models go only to sites that may hear it"
        raise ContractError("method", message)

    def _require_own(self, site: str, nodes: Tensor) -> None:
        if not bool(torch.isin(nodes.cpu(), (self.owner == self._sites.index(site)).nonzero()).all()):
            raise wrong_message(site, "it speaks for nodes of other sites")

    def broadcast(self, values: Tensor, owner: Tensor, to: Tensor | None = None, what: str = "") -> Tensor:
        """Return values [M, ...] as filled in by their owners; with ``to``, sent from site to site.

        Values of absent owners stay as they are known here: they have not changed.
        """
        by, out = self.owner[owner], _unknown(values, len(values))
        own = by == self.process
        kept = own if (there := self.there(len(self.owner))) is None else own | ~there[owner]
        out[kept] = values[kept]
        if to is None:
            for site, (some,) in self._hear(what or NUMBERS, [values[own]], by).items():
                out[by == self._sites.index(site)] = some
            return out
        hears = self.owner[to]
        due = {p: (own & (hears == p), (by == p) & (hears == self.process)) for p, _ in self._others}
        give = {name: [values[due[p][0]]] for p, name in self._others if bool(due[p][0].any())}
        wait = {name: due[p][1] for p, name in self._others if bool(due[p][1].any())}
        shapes = {name: [(values.dtype, (int(mask.sum()), *values.shape[1:]))] for name, mask in wait.items()}
        told = f"{what or 'gradients or their products, for one site'} ({_kinds_of([values])})"
        for name, (some,) in self.connection.swap(told, give, shapes).items():
            out[wait[name]] = some.to(values.device)
        return out

    def _hear(
        self, what: str, values: Sequence[Tensor], by: Tensor | None = None, whole: Sequence[Tensor] = ()
    ) -> dict[str, list[Tensor]]:
        """All-gather values [n, ...] and ``whole`` ones; return those of every site, checked to be of the same kinds.

        ``by`` [N], if known, is the owner of each value over all sites.
        """
        kinds = _kinds_of([*values, *(one[None] for one in whole)])
        _, told = self.connection.tell(f"{what} ({kinds})", tensors=[*values, *whole])
        for site, some in told.items():
            count = None if by is None else int((by == self._sites.index(site)).sum())
            due = [(one.dtype, (count, *one.shape[1:])) for one in values]
            try:
                Frame({}, some).require(*due, *((one.dtype, tuple(one.shape)) for one in whole))
            except FrameError as error:
                raise wrong_message(site, error) from error
        return told

    def require_listeners(self, names: Iterable[str]) -> None:
        """Check that some sites may hear this one, whatever others claim about its listeners."""
        here = self.connection
        if here.listeners is not None and (strange := sorted({*names} - {*here.listeners})):
            message = f"{here.name} would send its model to {few(strange)}, and its listeners= does not say so"
            raise ConflictError("listeners", message)

    def neighbor_all_gather(self, owner: Tensor, edge_index: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        wanted, give, take = self.wanted(edge_index), {}, {}
        entries = (owner, *values)
        for p, name in self._others:
            if bool(self.local_mask(wanted[p]).any()):
                heard = torch.isin(owner, wanted[p])
                give[name] = [one[heard] for one in entries]
            if bool((self.owner[wanted[self.process]] == p).any()):
                take[name] = [(one.dtype, (None, *one.shape[1:])) for one in entries]
        self.require_listeners(give)
        found = self.connection.swap(f"what it knows of others: similarities ({_kinds_of(values)})", give, take)
        for name, (of, *some) in found.items():
            self._require_own(name, of)
            _require_finite(name, some)
        return tuple(torch.cat([one[:0], *(some[n] for some in found.values())]) for n, one in enumerate(entries))

    def fetch(self, rows: Tensor, nodes: Tensor, edge_index: Tensor) -> Tensor:
        """Return the rows of other sites' nodes that own receivers hear, [r, P]; each is sent once per site."""
        heard = self.wanted(edge_index)
        wanted = heard[self.process]
        places = {name: (self.owner[wanted] == p).nonzero().flatten() for p, name in self._others}
        asked = {name: torch.searchsorted(nodes, heard[p][self.local_mask(heard[p])]) for p, name in self._others}
        give, take = ({name: at for name, at in some.items() if len(at)} for some in (asked, places))
        self.require_listeners(give)
        rows_to = {name: [rows[at.to(rows.device)]] for name, at in give.items()}
        kinds = {name: [(rows.dtype, (len(at), *rows.shape[1:]))] for name, at in take.items()}
        out = _unknown(rows, len(wanted))
        found = self.connection.swap(f"models or updates ({_kinds_of([rows])})", rows_to, kinds)
        for name, (some,) in found.items():
            out[take[name].to(rows.device)] = some.to(rows.device)
        return out


def _kinds_of(values: Iterable[Tensor]) -> str:
    """Describe the number types and entry shapes of values [n, ...]; for more than two, only their number types."""
    kinds = [(str(one.dtype).removeprefix("torch."), list(one.shape[1:])) for one in values]
    if len(kinds) > 2:
        return f"{len(kinds)} tensors of {', '.join(dict.fromkeys(name for name, _ in kinds))}"
    return " and ".join(f"{name} {shape}" for name, shape in kinds)


def _require_finite(site: str, values: Iterable[Tensor]) -> None:
    if not all(bool(torch.isfinite(one).all()) for one in values):
        raise wrong_message(site, "it holds values that are not finite")


def _unknown(values: Tensor, count: int) -> Tensor:
    """Return placeholders [count, ...] for unknown values: NaN, False or -1."""
    nothing = torch.nan if values.is_floating_point() else False if values.dtype is torch.bool else -1
    return values.new_full((count, *values.shape[1:]), nothing)


class Gathering:
    """The sites of a connection, as the participants of runs."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the present sites, by their certificates, in the order of their values."""
        return self.connection.present

    def status(self, error: Exception | None = None) -> None:
        """Raise an error of this site at all sites."""
        if error is not None:
            self.connection.fail(error)

    def all_gather_object(self, value: Any) -> list[Any]:
        values, _ = self.connection.tell(VALUES, value)
        return [*values.values()]

    def join(self, names: Sequence[str], owner: Tensor) -> Sites:
        if lost := [one for one in self.connection.sites if one not in self.connection.present]:
            are = "is" if len(lost) == 1 else "are"
            raise SiteLostError(f"site {lost[0]!r}", f"a run begins with all sites, and {few(lost)} {are} not there")
        self.connection.runs += 1
        return Sites(self.connection, owner)


@contextmanager
def connected(connection: Connection) -> Iterator[None]:
    """Play runs in this context with the sites of a connection."""
    token = CONNECTION.set(connection)
    try:
        with among(Gathering(connection)):
            yield
    finally:
        CONNECTION.reset(token)
