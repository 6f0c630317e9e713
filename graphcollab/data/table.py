"""`Table`: a column-wise view of a frame, a dict of arrays, rows as dicts, a file, or a dict of these by site."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from graphcollab._base.errors import (
    AmbiguousError,
    ConflictError,
    DuplicateError,
    EmptyError,
    GraphcollabError,
    InvalidTypeError,
    MismatchError,
    MissingError,
    ShapeError,
    UnknownError,
)
from graphcollab._base.naming import close, few
from graphcollab.data._files import existing, is_csv, read_csv, read_frame
from graphcollab.data._values import TRUTHS, as_text, factorized, from_array, is_missing, kind_of, objects, without

WHAT = (
    "a frame of pandas or polars, a dict of columns, a list of rows as dicts, the path of a CSV, Excel or Parquet "
    "file, or a dict of these by site"
)
_INDEX = re.compile(r"__index_level_\d+__")  # name under which pandas and pyarrow store an unnamed index


@dataclass(frozen=True)
class Table:
    """A table whose columns are read on demand.

    Args:
        names: Names of the columns.
        rows: Number of rows.
        read: Function from a column name to its values.
        sizes: Rows of every site, {name: number}, if the table was given site by site.
        declared: Columns that are categorical by their type in a frame, whatever their values.
        kinds: Kinds of the columns read so far at every site, {column: {site: kind}}, if given site by site.
    """

    names: tuple[str, ...]
    rows: int
    read: Callable[[str], np.ndarray]
    sizes: Mapping[str, int] | None = None
    declared: frozenset[str] = frozenset()
    kinds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def column(self, name: str, given: str = "", spare: bool = False) -> np.ndarray:
        """Return the values of a column, ``given`` by an argument; errors for a ``spare`` one advise to exclude it."""
        if name not in self.names:
            raise UnknownError(f"column {name!r}", no_column(name, self.names, given))
        try:
            return self.read(name)
        except GraphcollabError as error:
            if not spare or isinstance(error, AmbiguousError):
                raise
            raise type(error)(error.subject, f"{error}, or {without(name)}") from error

    def only(self, rows: np.ndarray) -> Table:
        """Return the table restricted to the given row numbers."""
        return replace(self, rows=len(rows), read=lambda name: self.read(name)[rows])

    def sites(self, node: str) -> tuple[tuple[str, ...], np.ndarray]:
        """Return the sorted names of the sites in a column, and the index of every row's site."""
        names, codes = factorized(self.column(node))
        if (codes < 0).any():
            row = int((codes < 0).argmax())
            raise MissingError(f"column {node!r}", f"row {row} has no site in column {node!r}")
        return names, codes


def open_table(frame: Any, node: str | None = None) -> Table:
    """Open a table; join a dict of tables by site into one, with a column ``node`` that names the site."""
    if isinstance(frame, Table):
        return frame
    if isinstance(frame, Mapping) and frame and all(map(_is_table, frame.values())):
        tables = {str(name).strip(): _open(one) for name, one in frame.items()}
        if len(tables) < len(frame):
            raise DuplicateError(
                "sites", f"names of sites must differ by more than spaces around them, got {few([*map(repr, frame)])}"
            )
        return _joined(tables, node)
    return _open(frame)


def no_column(name: str, names: Iterable[str], given: str = "") -> str:
    """Return the message for a missing column, ``given`` by an argument."""
    names, told = list(names), f"there is no column {name!r}{given and f' ({given})'}"
    hint = f"; {near}The" if (near := close(name, names)) else ": the"
    return f"{told}{hint} columns are {few([*map(repr, names)])}"


def _is_table(value: Any) -> bool:
    rows = isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)
    return rows or isinstance(value, Mapping | str | os.PathLike) or hasattr(value, "columns")


def _open(frame: Any) -> Table:
    if isinstance(frame, Mapping):
        return _of_columns({str(name): values for name, values in frame.items()})
    if isinstance(frame, str | os.PathLike):
        path = existing(Path(frame))
        return Table(*read_csv(path)) if is_csv(path) else _from_frame(read_frame(path))
    if isinstance(frame, Sequence) and frame and all(isinstance(row, Mapping) for row in frame):
        names = dict.fromkeys(name for row in frame for name in row)
        return _open({name: [row.get(name) for row in frame] for name in names})
    return _from_frame(frame)


def _of_columns(columns: Mapping[str, Any]) -> Table:
    single = [name for name, values in columns.items() if isinstance(values, str) or not hasattr(values, "__len__")]
    if single:
        raise ShapeError(
            f"column {single[0]!r}",
            f"column {single[0]!r} must have a value per row, got {columns[single[0]]!r}; for a single row give a list "
            "of it, [row]",
        )
    sizes = {name: len(values) for name, values in columns.items()}
    if not sizes:
        raise EmptyError("table", "the table has no columns")
    if len(set(sizes.values())) != 1:
        raise ShapeError("table", f"columns must have one length, got the lengths {sizes}")
    return Table(tuple(columns), next(iter(sizes.values())), lambda name: from_array(name, columns[name]))


def _joined(tables: Mapping[str, Table], node: str | None) -> Table:
    names = dict.fromkeys(name for table in tables.values() for name in table.names if name != node)
    kinds: dict[str, Mapping[str, str]] = {}

    def read(name: str) -> np.ndarray:
        if name == node:
            return objects(one for site, table in tables.items() for one in [site] * table.rows)
        parts = {site: _of_site(site, table, name) for site, table in tables.items()}
        if len(parts) > 1 and all(set(factorized(part)[0]) == {site} for site, part in parts.items()):
            raise ConflictError(f"column {name!r}", f"column {name!r} names the site of every row: give node={name!r}")
        kinds[name] = {site: kind_of(part) for site, part in parts.items()}
        if any(part.dtype.kind == "O" for part in parts.values()):
            _refuse_mixed_truths(name, parts)
            parts = {site: part if part.dtype.kind == "O" else as_text(part) for site, part in parts.items()}
        return np.concatenate([*parts.values()])

    for site, table in tables.items():
        if node in table.names and set(factorized(table.read(str(node)))[0]) - {site}:
            raise ConflictError(
                f"site {site!r}", f"the frame of site {site!r} has rows of other sites in its column {node!r}"
            )
    sizes = {site: table.rows for site, table in tables.items()}
    declared = frozenset().union(*(table.declared for table in tables.values()))
    every = (*names, *([node] if node else []))
    return Table(every, sum(sizes.values()), read, sizes, declared, kinds)


def _refuse_mixed_truths(name: str, parts: Mapping[str, np.ndarray]) -> None:
    """Reject a column of true and false, read as 1 and 0, at one site if another has the same words among others."""
    numbers = {site: set(part[~np.isnan(part)].tolist()) for site, part in parts.items() if part.dtype.kind != "O"}
    one = next((site for site, values in numbers.items() if values and values <= {0, 1}), None)
    words = {site: set(part.tolist()) & TRUTHS.keys() for site, part in parts.items() if site not in numbers}
    other = next((site for site, found in words.items() if found), None)
    if one is not None and other is not None:
        raise MismatchError(
            f"column {name!r}",
            f"column {name!r} holds only true and false at site {one!r}, and other values beside "
            f"{min(words[other])!r} at site {other!r}: leave it empty where it is neither, or {without(name)}",
        )


def _of_site(site: str, table: Table, name: str) -> np.ndarray:
    if name not in table.names:
        raise MismatchError(
            f"column {name!r}",
            f"site {site!r} has no column {name!r}, which other sites have: add it, with missing values where nothing "
            "is known",
        )
    try:
        return table.read(name)
    except GraphcollabError as error:
        raise type(error)(error.subject, f"site {site!r}: {error}") from error


def _from_frame(frame: Any) -> Table:
    import narwhals as nw  # takes a tenth of a second to import

    try:
        known = nw.from_native(frame, eager_only=True)
        every = [str(name) for name in known.columns]
    except nw.exceptions.DuplicateError as error:
        raise DuplicateError("table", f"columns must have different names: {error}") from error
    except TypeError as error:
        hint = ": call its collect() first" if hasattr(frame, "collect") else ""
        raise InvalidTypeError("table", f"a table must be {WHAT}, got a {type(frame).__name__}{hint}") from error
    places = {name: place for place, name in enumerate(every) if not _INDEX.fullmatch(name)}
    declared = frozenset(name for name, place in places.items() if known[:, place].dtype in (nw.Categorical, nw.Enum))

    def read(name: str) -> np.ndarray:
        series = known[:, places[name]]
        whole = series.dtype.is_integer() or series.dtype == nw.Boolean
        if whole or series.dtype.is_numeric():
            exact = whole and not series.is_null().any()
            return from_array(name, (series if exact else series.cast(nw.Float64)).to_numpy())
        values = series.to_list()  # a cast to text would turn missing values into text
        return from_array(name, [*map(_plain, values)] if name in declared else values)

    return Table(tuple(places), len(known), read, declared=declared)


def _plain(category: Any) -> Any:
    """Return a declared category as a number or text, such as an interval of `pandas.cut`."""
    plain = is_missing(category) or isinstance(category, str | Real | np.bool_)
    return category if plain else str(category)
