"""What `site` may be given."""

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
)
from graphcollab.settings import unknown_argument
from graphcollab.tasks.tasks import TaskFields, Tasks

__all__ = ["require_known", "require_name", "require_others", "require_own"]

OWN = ("name", "data", "target", "listeners", "dry_run", "ledger", "tell_changes")
SAMPLES = {"frame", "inputs", "targets", "train", "kwargs"}  # which `data` stands for
MAKERS = (Tasks.from_frame, Tasks.from_arrays, Tasks.from_samples)


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
        raise EmptyError("name", "name= is empty: give the name on this site's certificate", public=True)


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
            "dry_run",
            "dry_run= names the other sites, and there is none in it: name them, or say dry_run=True",
            public=True,
        )
    if name in others:
        raise ConflictError("dry_run", f"dry_run= names the other sites, and {name!r} is this one: leave it out there")
    if twice := [one for one in others if others.count(one) > 1]:
        raise DuplicateError("dry_run", f"dry_run= names {twice[0]!r} twice: name each of the other sites once")


def _is_table(value: object) -> bool:
    return isinstance(value, str | os.PathLike | Mapping) or hasattr(value, "columns")
