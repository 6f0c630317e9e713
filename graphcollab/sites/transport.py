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
from graphcollab.comm.transport import SharedTransport, kinds_of
from graphcollab.components import Env, Participation
from graphcollab.sites.connection import Connection
from graphcollab.sites.errors import SiteLostError
from graphcollab.sites.frame import Frame, FrameError, wrong_message
from graphcollab.sites.rounds import Rounds

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
    """One of several sites that play the same run. Each shows its own progress and keeps its own checkpoints."""

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
    def others(self) -> list[int]:
        return [p for p, one in enumerate(self._sites) if one in self.connection.present and p != self.process]

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
        kinds = kinds_of(value[None] for value in values)
        _, told = self.connection.tell(f"{SUMS} ({kinds})", tensors=values, add=True)
        sums = Frame({}, told[self.connection.name]).require(*((one.dtype, tuple(one.shape)) for one in values))
        return tuple(total.to(value.device) for total, value in zip(sums.tensors, values, strict=True))

    def all_gather_models(self, *rows: Tensor) -> tuple[Tensor, ...]:
        """Refuse to send a model to all sites: between sites, models go to listeners or into a sum."""
        message = f"{self.party} would tell all sites its model, and models go only to sites that may hear it"
        raise ContractError("method", message)

    def gather(
        self, what: str, values: Sequence[Tensor], by: Tensor | None = None, whole: Sequence[Tensor] = ()
    ) -> dict[int, list[Tensor]]:
        _, told = self.connection.tell(what, tensors=[*values, *whole])
        found = {self._sites.index(site): some for site, some in told.items()}
        for process, some in found.items():
            count = None if by is None else int((by == process).sum())
            due = [(one.dtype, (count, *one.shape[1:])) for one in values]
            try:
                Frame({}, some).require(*due, *((one.dtype, tuple(one.shape)) for one in whole))
            except FrameError as error:
                raise self.wrong(process, error) from error
        return found

    def swap(self, what: str, give: Mapping[int, Tensor], take: Mapping[int, Tensor]) -> Mapping[int, Tensor]:
        given = {self._sites[p]: [one] for p, one in give.items()}
        kinds = {self._sites[p]: [(one.dtype, tuple(one.shape))] for p, one in take.items()}
        found = self.connection.swap(what, given, kinds)
        return {self._sites.index(site): one for site, (one,) in found.items()}

    def wrong(self, process: int, why: object) -> Exception:
        return wrong_message(self._sites[process], why)

    def require_readers(self, processes: Iterable[int]) -> None:
        """Check that some sites may hear this one, whatever others claim about its listeners."""
        here, names = self.connection, {self._sites[p] for p in processes}
        if here.listeners is not None and (strange := sorted(names - {*here.listeners})):
            message = f"{here.name} would send its model to {few(strange)}, and its listeners= does not say so"
            raise ConflictError("listeners", message)

    def neighbor_all_gather(self, owner: Tensor, edge_index: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        """Send entries of own nodes to the sites that hear them, and to no others."""
        wanted, entries = self.wanted(edge_index), (owner, *values)
        give = {p: torch.isin(owner, wanted[p]) for p in self.others if bool(self.local_mask(wanted[p]).any())}
        take = [p for p in self.others if bool((self.owner[wanted[self.process]] == p).any())]
        self.require_readers(give)
        told = {self._sites[p]: [one[heard] for one in entries] for p, heard in give.items()}
        kinds = [(one.dtype, (None, *one.shape[1:])) for one in entries]
        what = f"what it knows of others ({kinds_of(values)})"
        found = self.connection.swap(what, told, {self._sites[p]: kinds for p in take})
        for name, (of, *some) in found.items():
            self.require_own(self._sites.index(name), of)
            _require_finite(name, some)
        return tuple(torch.cat([one[:0], *(some[n] for some in found.values())]) for n, one in enumerate(entries))


def _require_finite(site: str, values: Iterable[Tensor]) -> None:
    if not all(bool(torch.isfinite(one).all()) for one in values):
        raise wrong_message(site, "it holds values that are not finite")


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
