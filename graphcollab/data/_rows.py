"""The local rows of a table, column by column, and the facts about them that sites may share before agreeing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from graphcollab._base.checks import issue
from graphcollab._base.errors import AmbiguousError, ConflictError, EmptyError, MissingError, UnknownError
from graphcollab._base.findings import Finding
from graphcollab._base.naming import few, setting
from graphcollab.data._events import coded, read_events, refuse_impossible
from graphcollab.data._left_out import kept_rows, of_kept
from graphcollab.data._pairs import to_weights
from graphcollab.data._sites import Draw, Sites, find_sites, to_groups
from graphcollab.data._values import NOTHING, as_text, kind_of, lacks, numbers_of, refuse_no_categories
from graphcollab.data.losses import predicted_by
from graphcollab.data.preparation import Column, Preparation
from graphcollab.data.statistics import common_kind
from graphcollab.data.table import declared_in, kinds_at_sites, no_column, open_table, read_column

_DEFAULTS = {"node": "site", "target": "y"}  # default names of the site and target columns
_TAKEN = "which the preparation reads"
_MANY_CLASSES, MOST_CLASSES = 10, 50  # distinct integers in a target: warn above the first, reject above the second


@dataclass(frozen=True)
class TableSettings:
    """Arguments of `Tasks.from_frame` with the same names; ``declared`` are the columns of its ``categories``."""

    node: str
    target: str
    weight: Any
    group: Any
    columns: Sequence[str] | None
    leave_out: Sequence[str]
    categorical: Sequence[str]
    declared: Mapping[str, Column]
    per_site: bool
    indicator_above: float
    standardize_target: bool
    preparation: Preparation | None
    refit: bool
    drop_missing: bool = False
    min_rows: int = 0
    class_weight: Any = None
    event: str | None = None


@dataclass(frozen=True)
class Rows:
    """The local rows of a table, column by column."""

    how: TableSettings
    sites: Sites
    place: np.ndarray  # [N] in the table
    read: Mapping[str, np.ndarray]  # the input columns
    categorical: frozenset[str]  # those that are categories whatever their values
    values: np.ndarray  # targets
    classes: bool  # whether these were declared to be classes
    weights: Tensor | None  # [N]
    groups: Tensor | None  # [N]
    draw: Draw
    left_out: tuple[Finding, ...] = ()  # dropped rows of the table
    events: np.ndarray | None = None  # [N], whether an event was observed


def read_rows(frame: Any, how: TableSettings, draw: Draw) -> Rows:
    """Read the required columns of a table and check their contents."""
    known, declared = how.preparation, how.declared
    if known is not None:
        how = _as_prepared(how, known)
    node, target = how.node, how.target
    if node == target:
        raise ConflictError(
            "node", f"node= and target= both name {node!r}: one is the column of sites, the other what to predict"
        )
    table = open_table(frame, node)
    if known is None:
        _require_said(table, node, target)
    elif how.group is None:
        how = replace(how, group=_remembered(known, table))
    kept: np.ndarray = np.arange(len(table))
    left_out: tuple[Finding, ...] = ()
    if how.drop_missing or how.min_rows:
        kept, left_out = kept_rows(table, node, target, how.event, how.group, how.drop_missing, how.min_rows)
        how = replace(how, weight=of_kept(how.weight, kept, table), group=of_kept(how.group, kept, table))
        draw = replace(draw, words=of_kept(draw.words, kept, table))

    def read(name: str, given: str = "", spare: bool = False) -> np.ndarray:
        return read_column(table, name, given, spare)[kept]

    taken = [one for one in (node, target, how.event, draw.words, how.weight, how.group) if isinstance(one, str)]
    if isinstance(draw.words, str):
        draw = replace(draw, words=read(draw.words, f"split={draw.words!r}"))
    group = read(how.group, f"group={how.group!r}") if isinstance(how.group, str) else how.group
    names = read(node, f"node={node!r}" if known is None else _TAKEN)
    if not len(names):
        raise EmptyError("table", f"the table has no rows, only the columns {', '.join(map(repr, table))}")
    sites = replace(find_sites(names, f" in column {node!r}"), number=table.index.get_level_values(-1).to_numpy()[kept])
    values = read(target, f"target={target!r}" if known is None else _TAKEN)
    named, categories = {*how.categorical, *declared} - {target}, declared_in(table)
    chosen = _choose(table, [name for name in table if name not in taken], how, named)
    inputs = {name: read(name, spare=True) for name in chosen}
    _refuse_missing(sites, values, target)
    weights = _weights(sites, how.weight, read)
    typed = {name for name in chosen if name in categories and name not in named}
    if known is None:
        for name in (*chosen, target):
            if name not in {*named, *declared, *categories}:
                common_kind(name, sorted(kinds_at_sites(table, name).items()), name == target)
        for name in typed:
            refuse_no_categories(name, as_text(inputs[name]), sites.at, if_categories(name), declared=True)
    classes = target in categories or target in declared
    groups = None if group is None else to_groups(sites, group)
    events = None if how.event is None else read_events(how.event, read(how.event, f"event={how.event!r}"), sites)
    every = frozenset(named | typed)
    return Rows(how, sites, kept, inputs, every, values, classes, weights, groups, draw, left_out, events)


def if_categories(name: str) -> str:
    """Return the advice for a column whose values are meant as categories."""
    return f"if they are categories, name it in {setting(categorical=[name])}"


def _as_prepared(how: TableSettings, known: Preparation) -> TableSettings:
    """Return the settings of a preparation; additional arguments must agree with it."""
    names = [one.name for one in known.columns]
    needed = [name for name in names if name in how.leave_out]
    numbers = {*how.categorical} - {one.name for one in known.columns if one.categories is not None}
    wrong = {
        "node": (how.node not in (known.node, _DEFAULTS["node"]), known.node),
        "target": (how.target not in (known.target.name, _DEFAULTS["target"]), known.target.name),
        "columns": (how.columns is not None and [*how.columns] != names, names),
        "categorical": (bool(numbers), f"numbers in {few([*map(repr, sorted(numbers))])}"),
        "leave_out": (bool(needed), f"{few([*map(repr, needed)])} among its columns"),
    }
    for argument, (contradicts, has) in wrong.items():
        if contradicts:
            raise ConflictError(argument, f"{argument}= contradicts the preparation, which has {has}: leave it out")
    return replace(how, node=known.node, target=known.target.name, columns=names, leave_out=(), categorical=())


def _require_said(table: pd.DataFrame, node: str, target: str) -> None:
    for argument, name, what in (("node", node, "names the sites"), ("target", target, "holds what to predict")):
        if name == _DEFAULTS[argument] and name not in table:
            alike = [f"; {one!r} is there" for one in table if one.casefold() == name]
            raise MissingError(
                argument,
                f"there is no column {name!r}: say by {setting(**{argument: ...})} which column "
                f"{what}{''.join(alike[:1])}. The columns are {few([*map(repr, table)])}",
            )


def _choose(table: pd.DataFrame, free: Sequence[str], how: TableSettings, named: Collection[str]) -> list[str]:
    if how.columns is not None and how.leave_out:
        raise ConflictError(
            "columns", "columns= says what to predict from, and leave_out= what not: give only one of them"
        )
    columns = "columns=[...]" if how.preparation is None else _TAKEN
    given = {columns: how.columns or (), "leave_out=[...]": how.leave_out, "categorical=[...]": sorted(named)}
    for argument, names in given.items():
        for name in names:
            if name not in table:
                raise UnknownError(f"column {name!r}", no_column(name, table, argument))
            if name not in free:
                raise ConflictError(
                    f"column {name!r}", f"{argument} names {name!r}, a column with another role: do not name it there"
                )
    chosen = [name for name in free if name not in how.leave_out] if how.columns is None else [*how.columns]
    if not chosen:
        raise EmptyError("columns", f"no column is left to predict from: the columns are {', '.join(map(repr, table))}")
    return chosen


def _refuse_missing(sites: Sites, values: np.ndarray, target: str) -> None:
    missing = lacks(values)
    if missing.any():
        others = int(missing.sum()) - 1
        have = "has" if others == 1 else "have"
        more = f", and {others} more of the {len(values)} rows {have} none" * bool(others)
        raise MissingError(
            f"column {target!r}",
            f"{sites.at(int(missing.argmax()))} has no target in column {target!r}{more}: give "
            f"{setting(drop_missing_target=True)}",
        )


def facts_of(rows: Rows, loss: Any) -> dict[str, Any]:
    """Return the facts that may be shared before sites agree; they describe no single row."""
    known = rows.how.preparation
    columns = {name: kind_of(column, name in rows.categorical) for name, column in rows.read.items()}
    every = {**rows.read, rows.how.target: rows.values}
    classes = rows.classes and loss is None
    amounts, different = known is not None and not known.classes, 0
    if known is None:
        amounts, different = _are_amounts(rows, "cross_entropy" if classes else loss)
    kind = "true and false" if rows.values.dtype.kind == "b" else kind_of(rows.values, classes)
    return {
        "rows": len(rows.values),
        "columns": columns if known is None else dict.fromkeys(columns, "what was known"),
        "text": [name for name, column in every.items() if column.dtype.kind == "O"],
        "target": kind if known is None else "what was known",
        "amounts": amounts,
        "different": different,
        "splits": rows.draw.said,
        **({} if rows.events is None else {"events": np.unique(rows.events).tolist()}),
    }


def _are_amounts(rows: Rows, loss: Any) -> tuple[bool, int]:
    """Return whether targets are real values, and how many distinct integers there are if their type is not given."""
    values, target, at = rows.values, rows.how.target, rows.sites.at
    if predicted_by(loss) in ("amounts", "counts") or rows.events is not None:
        numbers = numbers_of(target, values, at, f"if they are classes, leave {setting(loss=loss)} out")
        refuse_impossible(target, numbers, at, loss)
        return True, 0
    if values.dtype.kind == "O":
        if loss is None and not all(one.lstrip("+-").isdecimal() for one in values.tolist()):
            say = f"if they are classes, say so by {setting(loss='cross_entropy')}"
            refuse_no_categories(target, values, at, say, target=True)
        return False, 0
    different = len(np.unique(values))
    fractions = (values != np.round(values)).nonzero()[0]  # includes infinity
    if loss is None:
        real = bool(len(fractions)) or not np.isfinite(values).all()
        return real, 0 if real else different
    if len(fractions) and different > max(_MANY_CLASSES, len(values) / 2) and predicted_by(loss) == "classes":
        row = int(fractions[0])
        raise ConflictError(
            "loss",
            f"targets in column {target!r} are amounts, such as {values[row]:g} in {at(row)}, and {setting(loss=loss)} "
            f"is for classes: leave it out, or give {setting(loss='mse')}",
        )
    return False, 0


def refuse_many(target: str, different: int) -> None:
    """Reject targets with so many distinct integers that they may or may not be classes."""
    if different > MOST_CLASSES:
        raise AmbiguousError(
            f"column {target!r}",
            f"column {target!r} has {different} different whole numbers: say whether they are counts, "
            f"{setting(loss='poisson')}, other amounts, {setting(loss='mse')}, or classes, "
            f"{setting(loss='cross_entropy')}",
        )


def as_agreed(rows: Rows, facts: Sequence[Mapping[str, Any]]) -> Rows:
    """Return the rows with columns in the order of the first site and of the kinds agreed by all sites."""
    draw = replace(rows.draw, elsewhere=frozenset(word for one in facts for word in one["splits"]))
    if rows.events is not None:
        events, found = coded(rows.how.event, rows.events, (one for fact in facts for one in fact["events"]))
        rows = replace(rows, events=events, left_out=(*rows.left_out, *found))
    if rows.how.preparation is not None:
        return replace(rows, draw=draw)
    kinds = {
        name: next((one["columns"][name] for one in facts if one["columns"][name] != NOTHING), NOTHING)
        for name in facts[0]["columns"]
    }
    text = {name for one in facts for name in one["text"]}
    read = {name: _like_others(rows.read[name], kinds[name], name in text) for name in kinds}
    values = _like_others(rows.values, facts[0]["target"], rows.how.target in text)
    categorical = frozenset(name for name, kind in kinds.items() if kind == "categories")
    return replace(rows, read=read, values=values, categorical=categorical, draw=draw)


def _like_others(column: np.ndarray, kind: str, text: bool) -> np.ndarray:
    """Convert a column to text if it is text at another site; if it is empty, to numbers if they are numbers there."""
    if kind == "numbers":
        return np.full(len(column), np.nan) if column.dtype.kind == "O" else column
    return as_text(column) if text and column.dtype.kind != "O" else column


def _remembered(known: Preparation, table: pd.DataFrame) -> str | None:
    """Return the group column named in a preparation, with a warning if the table lacks it."""
    if known.group is None or known.group in table:
        return known.group
    issue(
        "quality",
        f"column {known.group!r}",
        f"the table has no column {known.group!r}, by which rows that belong together were kept together in the tasks "
        "of the preparation: if some do here, too, give group=, the column or a name for every row",
    )
    return None


def _weights(sites: Sites, weight: Any, read: Callable[..., np.ndarray]) -> Tensor | None:
    if weight is None:
        return None
    where = f" in column {weight!r}" if isinstance(weight, str) else ""
    if where:
        weight = numbers_of(weight, read(weight, f"weight={weight!r}"), sites.at, "give 0 to leave the row out")
        if np.isnan(weight).any():
            raise MissingError(
                "weight", f"{sites.at(int(np.isnan(weight).argmax()))} has no weight{where}: give it one"
            )
    return to_weights(weight, len(sites.owner), sites.at, where)
