"""`site`: one party of a run between parties that keep their data."""

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

GHOSTS = 3  # other sites of a rehearsal if their names are unknown

ONE_RUN: Mapping[str, str] = {
    "tasks": "each site has its own samples, which it gives to site(...)",
    "graph": "each site says by listeners= who hears it",
    **BETWEEN_PARTIES,
}
"""Settings that `Site.run` refuses, with reasons."""

MANY_RUNS: Mapping[str, str] = {"n_jobs": "all sites play the same run at a time", **BETWEEN_PARTIES}
"""Settings that `Site.compare` and `Site.benefit` refuse, with reasons."""


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
    """Take part in a run between sites that keep their data: set this site's name, samples and listeners.

    Every site runs its own script, which calls this function once and then, like all others, `Site.run`, `Site.benefit`
    or `Site.compare`. NVIDIA FLARE starts the scripts and connects the sites: docs/deploying.md explains how, and
    docs/threat_model.md what is disclosed to whom. A script started by hand can be rehearsed with ``dry_run``.

    Args:
        name: Name of this site, as on its certificate.
        data: The site's own samples: a table, see `Tasks.from_frame`, or a pair (inputs, targets), see
            `Tasks.from_arrays`.
        target: Column of targets, the same at all sites. Default: ``"y"``, if the data is a table.
        listeners: Sites that may hear this site's models. Default: all.
        dry_run: Rehearse: nothing leaves this site. All rounds are played in this process among copies of the site,
            without callbacks, and `Site.run` returns a `Leaving`, which lists what would leave. Give the names of the
            other sites, or ``True`` for the listeners or, if they are not named, three others.
        ledger: File of the counts and sums of columns that were disclosed to others, so that later jobs disclose the
            same ones, or none. Default: ``NAME.told.json`` beside the script that FLARE starts. A rehearsal only reads
            it, if named.
        tell_changes: Whether others may be told of other rows than before, and so compute what the changed rows hold.
        settings: Other settings for making tasks, the same at all sites: those of `Tasks.from_frame` or
            `Tasks.from_arrays`.

    Example:
        >>> import torch
        >>> from graphcollab.methods import fedavg
        >>> table = {"age": list(range(20)), "ill": [0, 1] * 10}
        >>> here = site("Bern", table, target="ill", dry_run=True)
        >>> told = here.run(fedavg(), lambda tasks: torch.nn.Linear(*tasks.input_shape, 2), rounds=10)
        >>> sorted({line.to for line in told.lines})
        ['everybody', 'the coordinator; all: the sum']
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
    """A site that takes part in runs with others; made by `site`, which documents its fields."""

    name: str
    data: Any = dataclasses.field(repr=False)
    listeners: tuple[str, ...] | None
    dry_run: bool | tuple[str, ...]
    settings: dict[str, Any]
    ledger: Path | None = None
    tell_changes: bool = False

    def run(self, method: Method | Phases, model: Any, *, rounds: Count, **settings: Any) -> Result | Leaving:
        """Train the models of all sites together; all sites make the same call.

        If a site is lost, the others go on without it, and it may rejoin: see `graphcollab.sites`. A restarted site
        resumes from its own ``checkpoint=`` folder.

        Args:
            method: The collaboration method.
            model: A module, or a function that makes one, of the tasks if it takes an argument; see `graphcollab.run`.
            rounds: Number of rounds.
            settings: Other settings of `graphcollab.run`, such as ``seed`` and ``checkpoint``.

        Returns:
            The result of `graphcollab.run`: the history of all sites, and the model of this one. In a rehearsal, a
            `Leaving`.
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
                with own_filter("ignore"):  # findings about copies of one site are meaningless
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
        """Compare methods like `graphcollab.compare`, on the sites' own samples, split anew for every seed."""
        return self._many("compare", settings, lambda: compare(methods, self.tasks, model, **settings))

    def benefit(self, model: Any, **settings: Any) -> Benefit:
        """Determine which sites benefit from collaborating, like `graphcollab.benefit`, each with its own samples."""
        return self._many("benefit", settings, lambda: benefit(self.tasks, model, **settings))

    def tasks(self, seed: int = 0) -> Tasks:
        """Return the tasks of all sites, with the samples of this one only, split by a seed."""
        return self._meet(lambda connection: self._tasks(connection, seed))

    def _rehearse_run(
        self, play: Callable[[Site], object], method: Method | Phases, rounds: int, checkpoint: Checkpoints
    ) -> Leaving:
        if given := Checkpoint.of(check_setting("checkpoint", Checkpoints, checkpoint)):
            new = not Path(given.folder).exists()
            with suppress(InUseError), hold_folder(given.folder):
                pass  # only checks that the folder is writable
            if new:
                Path(given.folder).rmdir()
        try:  # find errors in the own samples before copying them
            with own_filter("ignore"):  # the rehearsal itself warns
                told_by_site(self.name, self.data, **{"seed": 0, **self.settings})
        except ValueError as told:
            raise told.__cause__ or told from None
        return leaving(self.name, self.listeners, self.rehearse(play), method, rounds)

    def _many(self, what: str, settings: Mapping[str, Any], act: Callable[[], T]) -> T:
        if self.dry_run:
            fedavg = " with fedavg() and" if what == "benefit" else ""
            raise UnsupportedError(
                "dry_run",
                f"{what} plays many runs and cannot be rehearsed as a whole: "
                f"rehearse run(...){fedavg} with each of its methods",
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
        """Return the ledger of this site; outside of jobs there is none unless its file is named."""
        path = self.ledger
        if path is None and connection.folder is not None:
            path = connection.folder / f"{quote(self.name, safe=' ')}.told.json"
        return None if path is None else Ledger(path, self.name, self.tell_changes, writes=not self.dry_run)

    def _meet(self, act: Callable[[Connection], T]) -> T:
        """Act together with the other sites; an error here is raised at all of them."""
        connection = CONNECTION.get()
        if connection is None:
            raise StateError(
                f"site {self.name!r}",
                f"{self.name} is not connected: let NVIDIA FLARE start this script, or give dry_run=True",
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
        """Return the edges (sender, listener) that all sites allow together; None if all pairs are allowed."""
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
        """Run ``act`` in this process for this site and others with copies of its data; return connections by name."""
        named = self.listeners if isinstance(self.dry_run, bool) else self.dry_run
        others = [name for name in named or [f"site {k}" for k in range(2, GHOSTS + 2)] if name != self.name]
        ghosts = {name: dataclasses.replace(self, name=name, listeners=None, ledger=None) for name in others}
        every = {self.name: self, **ghosts}

        def play(connection: Connection) -> Connection:
            own = connection.name == self.name
            with connected(connection), nullcontext() if own else own_filter("ignore"):
                act(every[connection.name])
            return connection

        with unlogged(COORDINATOR_LOG), unlogged(LOG):  # there is no server here
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
