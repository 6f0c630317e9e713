"""`site`: one party of a run between parties, each of which keeps its data."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from graphcollab._base.checks import own_filter, unlogged
from graphcollab._base.errors import (
    ConflictError,
    EmptyError,
    FormatError,
    InUseError,
    MismatchError,
    StateError,
    UnknownError,
    UnsupportedError,
)
from graphcollab._base.naming import few
from graphcollab._base.settings import Count, check_setting, checked, settings_of
from graphcollab.analysis import Benefit, Comparison
from graphcollab.analysis.benefit import benefit
from graphcollab.analysis.compare import compare
from graphcollab.comm.transport import raise_on_all
from graphcollab.data.tasks import Tasks
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.persistence.lock import hold_folder
from graphcollab.sites.connection import Connection
from graphcollab.sites.coordinator import LOG as COORDINATOR_LOG
from graphcollab.sites.hall import Hall
from graphcollab.sites.leaving import Leaving, leaving
from graphcollab.sites.ledger import Ledger
from graphcollab.sites.tasks_of_site import tasks_of_site, told_by_site
from graphcollab.sites.transport import CONNECTION, Gathering, connected
from graphcollab.train import Result
from graphcollab.train.prepare import BETWEEN_PARTIES
from graphcollab.train.run import run
from graphcollab.train.settings import Checkpoint, Checkpoints, Compute

LOG = logging.getLogger(__name__)
T = TypeVar("T")
Name = Annotated[str, "the name on this site's certificate, as text"]
Names = Annotated[Sequence[str], "a list of names of sites"]

GHOSTS = 3  # other sites of a rehearsal, where their names are not known

ONE_RUN: Mapping[str, str] = {
    "tasks": "each site has its own samples, which it gives to site(...)",
    "graph": "each site says by listeners= who hears it",
    **BETWEEN_PARTIES,
}
"""Settings of `Site.run` that are refused."""

MANY_RUNS: Mapping[str, str] = {"n_jobs": "all sites play the same run at a time", **BETWEEN_PARTIES}
"""Settings of `Site.compare` and `Site.benefit` that are refused."""


@checked
def site(
    name: Name,
    data: Any,
    *,
    target: str | None = None,
    listeners: Names | None = None,
    dry_run: bool | Names = False,
    ledger: str | Path | None = None,
    tell_changes: bool = False,
    **settings: Any,
) -> Site:
    """Take part in a run between sites, each of which keeps its data: say who this is, what it has, and who may listen.

    Every site runs a script of its own, which calls this once and then, like all others, `Site.run`, `Site.benefit` or
    `Site.compare`. NVIDIA FLARE starts it and connects the sites: docs/deploying.md says how, docs/threat_model.md what
    is told to whom. Started by hand, a script can be rehearsed, by ``dry_run``.

    Args:
        name: Name of this site, as on its certificate.
        data: Its own samples: a table, see `Tasks.from_frame`, or a pair (inputs, targets), see `Tasks.from_arrays`.
        target: Column of targets, the same at all sites. Default: ``"y"``, if it is a table.
        listeners: Sites that may hear this one's models. Default: all.
        dry_run: Whether nothing is to leave this site: what is called returns a `Leaving`, which lists what would, and
            all rounds are rehearsed in this process, among copies of the site, without callbacks. Names are of the
            other sites; ``True`` stands for the listeners, or three others.
        ledger: File of the counts and sums of its columns that others were told, so that later jobs tell the same ones,
            or none. Default: ``NAME.told.json`` beside the script that FLARE starts. A rehearsal only reads it, if
            named.
        tell_changes: Whether others may be told of other rows than before, and so compute what the changed rows hold.
        settings: Other settings of how tasks are made, the same at all sites: those of `Tasks.from_frame`, or of
            `Tasks.from_arrays`.

    Example:
        >>> import torch
        >>> from graphcollab.methods import fedavg
        >>> table = {"age": list(range(20)), "ill": [0, 1] * 10}
        >>> here = site("Bern", table, target="ill", dry_run=True)
        >>> told = here.run(fedavg(), lambda tasks: torch.nn.Linear(*tasks.input_shape, 2), rounds=10)
        >>> sorted({line.to for line in told.lines})
        ['everybody', 'site 2', 'site 3', 'site 4', 'the coordinator; all: the sum']
    """
    if dry_run and (connection := CONNECTION.get()) is not None:
        with raise_on_all(Gathering(connection)):
            raise ConflictError(
                "dry_run", f"{connection.name} rehearses (dry_run=) in a job: take dry_run= out of its script"
            )
    names = dry_run if isinstance(dry_run, bool) else tuple(dry_run)
    if not isinstance(names, bool) and not {*names} - {name}:
        raise EmptyError("dry_run", "dry_run= names no other site: name them, or say dry_run=True")
    said = settings if target is None else {"target": target, **settings}
    heard = None if listeners is None else tuple(listeners)
    return Site(name, data, heard, names, said, None if ledger is None else Path(ledger), tell_changes)


@dataclass(frozen=True)
class Site:
    """A site that takes part in runs with others; `site` makes it, and says what its fields mean."""

    name: str
    data: Any = dataclasses.field(repr=False)
    listeners: tuple[str, ...] | None
    dry_run: bool | tuple[str, ...]
    settings: dict[str, Any]
    ledger: Path | None = None
    tell_changes: bool = False

    def run(self, method: Method | Phases, model: Any, *, rounds: Count, **settings: Any) -> Result | Leaving:
        """Let the sites train their models together; the same call at all of them.

        Where a site is lost the others go on without it, and it may come back: `graphcollab.sites`; started again, it
        goes on from a ``checkpoint=`` folder of its own.

        Args:
            method: The method.
            model: A module, or a function that makes one, of the tasks if it takes an argument; see `graphcollab.run`.
            rounds: Rounds to play.
            settings: Other settings of `graphcollab.run`, such as ``seed`` and ``checkpoint``.

        Returns:
            What `graphcollab.run` returns: the history of all sites, and the model of this one.
        """

        def play(here: Site) -> Result:
            def act(connection: Connection) -> Result:
                _refuse(settings, ONE_RUN)
                settings_of(run, settings)
                tasks = here._tasks(connection, 0)
                graph = here._graph(connection, tasks)
                if graph is not None and method.beyond_edges and len(groups := _apart(tasks.names, graph)) > 1:
                    raise ConflictError(
                        "listeners",
                        f"{method.name} tells all sites the averages of those who may hear each other, and listeners= "
                        f"keep {few(groups[0])} apart from others: play a run of their own",
                    )
                if not self.dry_run:
                    return run(method, tasks, model, graph, rounds=rounds, **settings)
                with own_filter("ignore"):  # what copies of one site find out says nothing
                    return run(method, tasks, model, graph, rounds=rounds, **settings | {"checkpoint": None})

            return here._meet(act)

        if not self.dry_run:
            return play(self)
        if settings.get("callbacks"):
            raise ConflictError(
                "callbacks", "a rehearsal plays no callbacks, as they may write files: leave callbacks= out of it"
            )
        return self._rehearse_run(play, method, rounds, settings.get("checkpoint"))

    def compare(self, methods: Any, model: Any, **settings: Any) -> Comparison:
        """Compare methods as `graphcollab.compare` does, on the sites' own samples, split anew for every seed."""
        return self._many("compare", settings, lambda: compare(methods, self.tasks, model, **settings))

    def benefit(self, model: Any, **settings: Any) -> Benefit:
        """Find out which sites gain by collaborating, as `graphcollab.benefit` does, each with its own samples."""
        return self._many("benefit", settings, lambda: benefit(self.tasks, model, **settings))

    def tasks(self, seed: int = 0) -> Tasks:
        """Return the tasks of all sites, of which this one has its own samples, split by a seed."""
        return self._meet(lambda connection: self._tasks(connection, seed))

    def _rehearse_run(
        self, play: Callable[[Site], object], method: Method | Phases, rounds: int, checkpoint: Checkpoints
    ) -> Leaving:
        if given := Checkpoint.of(check_setting("checkpoint", Checkpoints, checkpoint)):
            with suppress(InUseError), hold_folder(given.folder):
                pass  # it can be written to
        try:  # what is wrong with the own samples, before others get copies of them
            with own_filter("ignore"):  # the rehearsal warns
                told_by_site(self.name, self.data, **{"seed": 0, **self.settings})
        except ValueError as told:
            raise told.__cause__ or told from None
        return leaving(self.name, self.listeners, self.rehearse(play), method, rounds)

    def _many(self, what: str, settings: Mapping[str, Any], act: Callable[[], T]) -> T:
        if self.dry_run:
            fedavg = " with fedavg() and" if what == "benefit" else ""
            raise UnsupportedError(
                "dry_run",
                f"{what} plays many runs and cannot be rehearsed as a whole: rehearse run(...){fedavg} with each of "
                "its methods, which lists what leaves this site in one (docs/deploying.md says how many there are)",
            )
        if self.listeners is not None:
            raise ConflictError(
                "listeners",
                f"{what} lets all sites hear all others, which listeners= forbids: leave it out, or play a run",
            )

        def together(_: Connection) -> T:
            _refuse(settings, MANY_RUNS)
            return act()

        return self._meet(together)

    def _tasks(self, connection: Connection, seed: int) -> Tasks:
        connection.listeners = self.listeners
        own = {"seed": seed, "rehearsed": bool(self.dry_run), "ledger": self._ledger(connection), **self.settings}
        return tasks_of_site(Gathering(connection), self.name, self.data, **own)

    def _ledger(self, connection: Connection) -> Ledger | None:
        """Return what this site has told before, which nobody keeps outside of jobs unless a file is named for it."""
        path = self.ledger
        if path is None and connection.folder is not None:
            path = connection.folder / f"{quote(self.name, safe=' ')}.told.json"
        return None if path is None else Ledger(path, self.name, self.tell_changes, writes=not self.dry_run)

    def _meet(self, act: Callable[[Connection], T]) -> T:
        """Do something with the other sites; what fails here fails at all of them."""
        connection = CONNECTION.get()
        if connection is None:
            raise StateError(
                f"site {self.name!r}",
                f"{self.name} is not connected to other sites: let NVIDIA FLARE start this script (docs/deploying.md), "
                "or rehearse it by dry_run=True",
            )
        with raise_on_all(Gathering(connection)):
            if connection.name != self.name:
                raise MismatchError(
                    "name",
                    f"the certificate of {connection.name} is given, and its script says {self.name!r}: write "
                    f"site({connection.name!r}, ...) in it, or start it with the startup kit of {self.name}",
                )
            if not connection.greeted:
                connection.greeted = True
                LOG.info("this run is of %s", ", ".join(connection.sites))
            return act(connection)

    def _graph(self, connection: Connection, tasks: Tasks) -> list[tuple[str, str]] | None:
        """Return who may hear whom, as all sites say; None if everybody may hear everybody."""
        values, _ = connection.tell("who may hear this site", None if self.listeners is None else list(self.listeners))
        known = {*tasks.names}
        for sender, heard in values.items():
            if heard is not None and not (isinstance(heard, list) and all(isinstance(one, str) for one in heard)):
                raise FormatError("listeners", f"{sender} does not tell its listeners as a list of names")
            if strange := sorted({*(heard or ())} - known):
                raise UnknownError(
                    "listeners", f"{sender} lets {few(strange)} listen, and the sites are {few(list(tasks.names))}"
                )
        if all(heard is None or known <= {sender, *heard} for sender, heard in values.items()):
            return None
        every = {sender: known if heard is None else {*heard} for sender, heard in values.items()}
        return [(sender, to) for sender in tasks.names for to in tasks.names if to in every[sender] - {sender}]

    def rehearse(self, act: Callable[[Site], object]) -> dict[str, Connection]:
        """Let this site and others, with copies of its data, act in this process; return connections, by name."""
        named = self.listeners if isinstance(self.dry_run, bool) else self.dry_run
        others = [name for name in named or [f"site {k}" for k in range(2, GHOSTS + 2)] if name != self.name]
        ghosts = {name: dataclasses.replace(self, name=name, listeners=None, ledger=None) for name in others}
        every = {self.name: self, **ghosts}

        def play(connection: Connection) -> Connection:
            own = connection.name == self.name
            with connected(connection), nullcontext() if own else own_filter("ignore"):
                act(every[connection.name])
            return connection

        with unlogged(COORDINATOR_LOG), unlogged(LOG):  # nobody runs a server here
            return Hall(sorted(every), poll=1.0).play(play, here=self.name)


def _refuse(settings: Mapping[str, Any], refused: Mapping[str, str]) -> None:
    compute = settings.get("compute")
    placed = isinstance(compute, Compute) and compute.placement is not None
    for name in (*settings, *["placement"] * placed):
        if name in refused:
            raise UnsupportedError(name, f"{name} cannot be given between sites: {refused[name]}")


def _apart(names: Sequence[str], graph: Sequence[tuple[str, str]]) -> list[list[str]]:
    groups = {name: [name] for name in names}
    for one, other in graph:
        if groups[one] is not groups[other]:
            groups[one] += groups[other]
            groups |= dict.fromkeys(groups[other], groups[one])
    return [*{id(group): group for group in groups.values()}.values()]
