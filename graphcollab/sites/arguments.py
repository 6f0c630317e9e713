"""What `site`, and the runs of a site, may be given."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphcollab.errors import (
    ConflictError,
    DuplicateError,
    EmptyError,
    InvalidTypeError,
    InvalidValueError,
    TooManyError,
    UnsupportedError,
)
from graphcollab.methods import fedavg
from graphcollab.settings import unknown_argument
from graphcollab.tasks._builders import TaskFields
from graphcollab.tasks.tasks import Tasks
from graphcollab.train.run import BETWEEN_PARTIES, run

OWN = ("name", "data", "target", "listeners", "dry_run", "ledger", "tell_changes")
SAMPLES = {"frame", "inputs", "targets", "train", "kwargs"}  # which `data` stands for
MAKERS = (Tasks.from_frame, Tasks.from_arrays, Tasks.from_samples)

_OF_ALL = {"owner": "each site has its own samples, and no others", **BETWEEN_PARTIES}

ONE_RUN: Mapping[str, str] = {
    "tasks": "each site has its own samples, which it gives to site(...)",
    "graph": "each site says by listeners= who hears it",
    **_OF_ALL,
}
"""Settings of `Site.run` that are refused."""

MANY_RUNS: Mapping[str, str] = {"jobs": "all sites play the same run at a time", **_OF_ALL}
"""Settings of `Site.compare` and `Site.benefit` that are refused."""


def require_known(settings: Iterable[str]) -> None:
    """Check that settings are some of how tasks are made; else a TypeError says which was meant."""
    further = [name for make in MAKERS for name in inspect.signature(make).parameters if name not in SAMPLES]
    takes = [*dict.fromkeys([*OWN, *further, *TaskFields.__annotations__])]
    for name in settings:
        if name not in takes:
            raise InvalidTypeError(name, unknown_argument("site", name, takes))


def require_name(name: str) -> None:
    """Check that a site has a name."""
    if not name.strip():
        raise EmptyError("name", "name= is empty: give the name on this site's certificate")


def require_own(name: str, data: Any) -> None:
    """Check that samples are of one site, and not made into tasks yet."""
    if isinstance(data, Tasks):
        raise ConflictError(
            "data",
            "data= are Tasks, which site() makes itself: give the table of which they were made, and settings such as "
            f"target= beside it, site({name!r}, table, target=...)",
        )
    if isinstance(data, Mapping) and any(map(_is_table, data.values())):
        raise TooManyError(
            "data",
            f"data= are tables of sites by name, {', '.join(map(repr, data))}, and site() takes this site's own alone: "
            f"give its path, or the table itself, site({name!r}, path)",
        )
    if isinstance(data, str | os.PathLike) and Path(data).is_dir():
        raise InvalidValueError(
            "data", f"{data} is a folder: give the path of this site's own table, a CSV or Parquet file"
        )


def require_others(name: str, others: Sequence[str]) -> None:
    """Check the names of the other sites of a rehearsal."""
    if not others:
        raise EmptyError(
            "dry_run", "dry_run= names the other sites, and there is none in it: name them, or say dry_run=True"
        )
    if name in others:
        raise ConflictError("dry_run", f"dry_run= names the other sites, and {name!r} is this one: leave it out there")
    if twice := [one for one in others if others.count(one) > 1]:
        raise DuplicateError("dry_run", f"dry_run= names {twice[0]!r} twice: name each of the other sites once")


def refuse(settings: Iterable[str], refused: Mapping[str, str]) -> None:
    """Check that no setting is among those that are refused; else a ValueError names it, and says why."""
    for name in settings:
        if name in refused:
            raise UnsupportedError(name, f"{name} cannot be given between sites: {refused[name]}")


def require_of_run(settings: Iterable[str]) -> None:
    """Check that settings are those of a run; else a TypeError says which was meant, or which there are."""
    takes = [name for name in inspect.signature(run).parameters if name not in ONE_RUN]
    for name in settings:
        if name in inspect.signature(fedavg).parameters:
            raise InvalidTypeError(
                name, f"run() has no argument {name!r}: it is said of the method, such as fedavg({name}=...)"
            )
        if name not in {*takes, *ONE_RUN}:
            raise InvalidTypeError(name, unknown_argument("run", name, takes))


def _is_table(value: object) -> bool:
    return isinstance(value, str | os.PathLike | Mapping) or hasattr(value, "columns")
