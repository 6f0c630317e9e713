"""What the arguments of `Tasks.from_frame` must be beside the table and a preparation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphcollab.errors import ConflictError, EmptyError, FormatError, MissingError, UnknownError
from graphcollab.naming import few
from graphcollab.tasks.preparation import Preparation
from graphcollab.tasks.table import Table, no_column, wrong_separator

__all__ = ["TAKEN", "choose", "read_by", "require_said", "require_same"]

DEFAULTS = {"node": "site", "target": "y"}
"""What columns of sites and of targets are called where nothing is said."""
TAKEN = "which the preparation reads"


def require_same(
    known: Preparation,
    node: str,
    target: str,
    columns: Sequence[str] | None,
    leave_out: Sequence[str],
    categorical: Sequence[str],
) -> None:
    """Check that arguments beside a preparation, where they are given, say what it says."""
    has: dict[str, Any] = {"node": known.node, "target": known.target.name}
    given: dict[str, Any] = {"node": node, "target": target}
    if columns is not None:
        has["columns"], given["columns"] = [one.name for one in known.columns], list(columns)
    named = [one.name for one in known.columns if one.categories is not None]
    if not set(categorical) <= set(named):
        has["categorical"], given["categorical"] = named, list(categorical)
    for argument, value in given.items():
        if value not in (has[argument], DEFAULTS.get(argument)):
            raise ConflictError(
                argument, f"{argument}={value!r} contradicts the preparation, which has {has[argument]!r}: leave it out"
            )
    needed = [one.name for one in known.columns if one.name in leave_out]
    if needed:
        raise ConflictError(
            "leave_out", f"leave_out=[...] names {needed[0]!r}, {TAKEN}: tasks need all the columns of a preparation"
        )


def require_said(table: Table, node: str, target: str) -> None:
    """Check that a table has columns of the names that those of sites and targets have where nothing is said."""
    for argument, name, what in (("node", node, "names the sites"), ("target", target, "holds what to predict")):
        if name == DEFAULTS[argument] and name not in (*table.names, *table.index):
            if misread := wrong_separator(table.names):
                raise FormatError("table", f"there is no column {name!r}: {misread}")
            alike = [f"; {one!r} is there" for one in table.names if one.casefold() == name]
            raise MissingError(
                argument,
                f"there is no column {name!r}: say by {argument}= which column {what}{''.join(alike[:1])}. The columns "
                f"are {few([*map(repr, table.given)])}",
            )


def choose(
    table: Table,
    free: Iterable[str],
    columns: Sequence[str] | None,
    leave_out: Sequence[str],
    categorical: Sequence[str],
) -> list[str]:
    """Return the columns to predict from, of those of a table that are ``free`` for it, as the arguments say."""
    if columns is not None and leave_out:
        raise ConflictError(
            "columns", "columns= says what to predict from, and leave_out= what not: give only one of them", public=True
        )
    given = {"columns=[...]": columns or (), "leave_out=[...]": leave_out, "categorical=[...]": categorical}
    _require_columns(table, free, given)
    chosen = [name for name in free if name not in leave_out] if columns is None else list(columns)
    if not chosen:
        raise EmptyError(
            "columns",
            f"there is no column to predict from: the columns are {', '.join(map(repr, table.given))}, of which one "
            "names the sites, and one holds the targets",
        )
    return chosen


def read_by(known: Preparation, table: Table, free: Iterable[str]) -> list[str]:
    """Return the columns that a preparation reads, which must be among the ``free`` ones of a table."""
    names = [column.name for column in known.columns]
    _require_columns(table, free, {TAKEN: names})
    return names


def _require_columns(table: Table, free: Iterable[str], given: Mapping[str, Sequence[str]]) -> None:
    for argument, names in given.items():
        for name in names:
            if name not in table.names:
                raise UnknownError(f"column {name!r}", no_column(name, table.given, argument))
            if name not in free:
                raise ConflictError(
                    f"column {name!r}",
                    f"{argument} names {name!r}, which is the column of sites, targets or weights, or of splits, and "
                    "so nothing to predict from: do not name it there",
                )
