"""What the arguments of `Tasks.from_frame` must be beside the table and a preparation."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from graphcollab.tasks._columns import Table, no_column
from graphcollab.tasks.preparation import Preparation

__all__ = ["require_columns", "require_same"]

DEFAULTS = {"node": "site", "target": "y"}
"""What columns of sites and of targets are called where nothing is said."""


def require_same(
    known: Preparation, node: str, target: str, columns: Sequence[str] | None, categorical: Sequence[str]
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
            raise ValueError(
                f"{argument}={value!r} contradicts the preparation, which has {has[argument]!r}: leave it out"
            )


def require_columns(table: Table, free: Container[str], given: Mapping[str, Sequence[str]]) -> None:
    """Check that arguments that were given name columns to predict from, and some."""
    for argument, names in given.items():
        for name in names:
            if name not in table.names:
                raise ValueError(no_column(name, table.names, argument))
            if name not in free:
                raise ValueError(
                    f"{argument} names {name!r}, which is the column of sites, targets or weights, or of splits, and "
                    "nothing to predict from: leave it out"
                )
