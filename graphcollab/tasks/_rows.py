"""The rows of a table that are here, column by column, and what may be told of them before anything is compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from graphcollab.checks import issue
from graphcollab.errors import ConflictError, EmptyError, FormatError, MismatchError, MissingError, UnknownError
from graphcollab.naming import few
from graphcollab.tasks._pairs import to_weights
from graphcollab.tasks._sites import Draw, Sites, find_sites, to_groups
from graphcollab.tasks._targets import are_amounts, refuse_missing
from graphcollab.tasks._values import NOTHING, as_text, kind_of, numbers_of
from graphcollab.tasks._words import if_categories, refuse_no_categories
from graphcollab.tasks.preparation import Preparation
from graphcollab.tasks.quality_of_values import of_spellings, warn_of
from graphcollab.tasks.statistics import common_kind, differing
from graphcollab.tasks.table import Table, no_column, open_table, wrong_separator

__all__ = ["Rows", "as_agreed", "facts_of", "read_rows"]

_DEFAULTS = {"node": "site", "target": "y"}
"""What columns of sites and of targets are called where nothing is said."""
_TAKEN = "which the preparation reads"


@dataclass(frozen=True)
class Rows:
    """The rows of a table that are here, column by column.

    Args:
        node: The column of sites.
        target: The column to predict.
        sites: Whose rows they are.
        read: The columns to predict from.
        categorical: Those of them whose values are categories, whatever they are.
        values: The targets.
        classes: Whether it was declared that these are classes.
        weights: Weights of rows, [N].
        groups: Groups of rows, [N].
        together: The column that names these.
        draw: How the rows are divided.
    """

    node: str
    target: str
    sites: Sites
    read: Mapping[str, np.ndarray]
    categorical: frozenset[str]
    values: np.ndarray
    classes: bool
    weights: Tensor | None
    groups: Tensor | None
    together: str | None
    draw: Draw


def read_rows(
    frame: Any,
    node: str,
    target: str,
    weight: Any,
    group: Any,
    columns: Sequence[str] | None,
    leave_out: Sequence[str],
    categorical: Sequence[str],
    declared: Collection[str],
    draw: Draw,
    known: Preparation | None,
) -> Rows:
    """Read the columns that are needed of a table, and check what each of them holds."""
    if known is not None:
        _require_same(known, node, target, columns, leave_out, categorical)
        node, target = known.node, known.target.name
    if node == target:
        raise ConflictError(
            "node", f"node= and target= both name {node!r}: one is the column of sites, the other what to predict"
        )
    table = open_table(frame, node)
    if known is None:
        _require_said(table, node, target)
    taken = [node, target]
    if isinstance(draw.words, str):
        taken.append(draw.words)
        draw = replace(draw, words=table.column(draw.words, f"split={draw.words!r}"))
    if isinstance(weight, str):
        taken.append(weight)
    if known is not None and group is None:
        group = _remembered(known, table)
    together = group if isinstance(group, str) else None
    if isinstance(group, str):
        taken.append(group)
        group = table.column(group, f"group={group!r}")
    sites = _sites_of(table, node, f"node={node!r}" if known is None else _TAKEN)
    values = table.column(target, f"target={target!r}" if known is None else _TAKEN)
    free = [name for name in table.names if name not in taken]
    named = [*categorical, *(name for name in declared if name != target)]
    chosen = _choose(table, free, columns, leave_out, named) if known is None else _read_by(known, table, free)
    read = {name: table.column(name, spare=True) for name in chosen}
    refuse_missing(sites, values, target)
    if known is None:
        compared = {*chosen, target} & table.kinds.keys() - {*categorical, *declared, *table.declared}
        _require_alike({name: table.kinds[name] for name in table.names if name in compared}, target)
    weights = _weights(sites, table, weight)
    typed = [name for name in chosen if name in table.declared and name not in named]
    if known is None:
        for name in typed:
            refuse_no_categories(name, as_text(read[name]), sites.at, if_categories(name), declared=True)
    return Rows(
        node,
        target,
        sites,
        read,
        frozenset([*named, *typed]),
        values,
        target in table.declared or target in declared,
        weights,
        None if group is None else to_groups(sites, group),
        together,
        draw,
    )


def _require_same(
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
        if value not in (has[argument], _DEFAULTS.get(argument)):
            raise ConflictError(
                argument, f"{argument}={value!r} contradicts the preparation, which has {has[argument]!r}: leave it out"
            )
    needed = [one.name for one in known.columns if one.name in leave_out]
    if needed:
        raise ConflictError(
            "leave_out", f"leave_out=[...] names {needed[0]!r}, {_TAKEN}: tasks need all the columns of a preparation"
        )


def _require_said(table: Table, node: str, target: str) -> None:
    """Check that a table has columns of the names that those of sites and targets have where nothing is said."""
    for argument, name, what in (("node", node, "names the sites"), ("target", target, "holds what to predict")):
        if name == _DEFAULTS[argument] and name not in (*table.names, *table.index):
            if misread := wrong_separator(table.names):
                raise FormatError("table", f"there is no column {name!r}: {misread}")
            alike = [f"; {one!r} is there" for one in table.names if one.casefold() == name]
            raise MissingError(
                argument,
                f"there is no column {name!r}: say by {argument}= which column {what}{''.join(alike[:1])}. The columns "
                f"are {few([*map(repr, table.given)])}",
            )


def _choose(
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


def _read_by(known: Preparation, table: Table, free: Iterable[str]) -> list[str]:
    """Return the columns that a preparation reads, which must be among the ``free`` ones of a table."""
    names = [column.name for column in known.columns]
    _require_columns(table, free, {_TAKEN: names})
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


def facts_of(rows: Rows, known: Preparation | None, loss: Any) -> dict[str, Any]:
    """Return what may be told of rows before anything is compared: nothing of single ones."""
    columns = {name: _kind(column, name in rows.categorical) for name, column in rows.read.items()}
    every = {**rows.read, rows.target: rows.values}
    classes = rows.classes and loss is None
    amounts, different = known is not None and not known.classes, 0
    if known is None:
        says = "cross_entropy" if classes else loss
        amounts, different = are_amounts(rows.sites, rows.values, rows.target, says)
    kind = "true and false" if rows.values.dtype.kind == "b" else _kind(rows.values, classes)
    return {
        "rows": len(rows.values),
        "columns": columns if known is None else dict.fromkeys(columns, "what was known"),
        "text": [name for name, column in every.items() if column.dtype.kind == "O"],
        "target": kind if known is None else "what was known",
        "amounts": amounts,
        "different": different,
        "splits": rows.draw.said,
    }


def _kind(column: np.ndarray, categorical: bool) -> str:
    """Return what a column holds, or is declared to hold."""
    return "categories" if categorical else kind_of(column)


def _require_alike(kinds: Mapping[str, Mapping[str, str]], target: str) -> None:
    """Check that columns hold the same kind of values in the tables of all sites, {column: {site: kind}}."""
    for name, by_site in kinds.items():
        if name != target:
            common_kind(name, by_site.items())
        elif which := differing(by_site.items()):
            raise MismatchError(
                f"column {name!r}", f"sites have targets of different kinds, {which}: make them the same at all sites"
            )


def as_agreed(rows: Rows, facts: Sequence[Mapping[str, Any]], known: Preparation | None) -> Rows:
    """Return the rows with columns in the order of the first site, and of the kinds that they have at all sites."""
    draw = replace(rows.draw, elsewhere=frozenset(word for one in facts for word in one["splits"]))
    if known is not None:
        return replace(rows, draw=draw)
    kinds = {
        name: next((one["columns"][name] for one in facts if one["columns"][name] != NOTHING), NOTHING)
        for name in facts[0]["columns"]
    }
    text = {name for one in facts for name in one["text"]}
    read = {name: _like_others(rows.read[name], kinds[name], name in text) for name in kinds}
    values = _like_others(rows.values, facts[0]["target"], rows.target in text)
    categorical = frozenset(name for name, kind in kinds.items() if kind == "categories")
    return replace(rows, read=read, values=values, categorical=categorical, draw=draw)


def _like_others(column: np.ndarray, kind: str, text: bool) -> np.ndarray:
    """Return a column as text where other sites' is, and without values as numbers where theirs are."""
    if kind == "numbers":
        return np.full(len(column), np.nan) if column.dtype.kind == "O" else column
    return as_text(column) if text and column.dtype.kind != "O" else column


def _sites_of(table: Table, node: str, given: str) -> Sites:
    """Find the sites of a table."""
    column = table.column(node, given)
    if not len(column):
        raise EmptyError(
            "table", f"the table has no rows, only the columns {', '.join(map(repr, table.given))}", public=True
        )
    sites = find_sites(column, f" in column {node!r}")
    warn_of(of_spellings(f"column {node!r}, which names the sites,", sites.names))
    if table.sizes is None:
        return sites
    empty = [name for name, size in table.sizes.items() if not size]
    if empty:
        raise EmptyError(f"site {empty[0]!r}", f"site {empty[0]!r} has no rows: leave it out")
    first = dict(zip(table.sizes, np.cumsum([0, *table.sizes.values()]).tolist(), strict=False))
    return replace(sites, first=tuple(first[name] for name in sites.names))  # rows are counted site by site


def _remembered(known: Preparation, table: Table) -> str | None:
    """Return the column of groups that a preparation names; a warning says where the table lacks it."""
    if known.group is None or known.group in table.names:
        return known.group
    issue(
        "quality",
        f"column {known.group!r}",
        f"the table has no column {known.group!r}, by which rows that belong together were kept together in the tasks "
        "of the preparation: if some do here, too, give group=, the column or a name for every row",
    )
    return None


def _weights(sites: Sites, table: Table, weight: Any) -> Tensor | None:
    """Return the weights of all rows, [N], of a column or as they were given."""
    if weight is None:
        return None
    where = f" in column {weight!r}" if isinstance(weight, str) else ""
    if where:
        weight = numbers_of(weight, table.column(weight, f"weight={weight!r}"), sites.at, "give 0 to leave the row out")
        if np.isnan(weight).any():
            raise MissingError(
                "weight", f"{sites.at(int(np.isnan(weight).argmax()))} has no weight{where}: give it one"
            )
    weights = to_weights(weight, table.rows)
    sites.refuse_bad_weights(weights, where)
    return weights
