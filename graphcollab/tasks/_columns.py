"""Tables as users have them, column by column: frames of pandas or polars, dicts of arrays, CSV and Parquet files.

A column is read as numbers, bool, int64, or float64 with NaN where a value is missing, or as text, an array of Python
objects with None where it is missing. Spaces around text do not count. Text that says nothing but true and false is
read as these, and some words say that a value is missing (`MISSING`), in frames as in files.
"""

from __future__ import annotations

import datetime
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from graphcollab.errors import (
    AmbiguousError,
    ConflictError,
    DuplicateError,
    EmptyError,
    FormatError,
    GraphcollabError,
    InvalidTypeError,
    InvalidValueError,
    MismatchError,
    MissingFileError,
    MissingPackageError,
    RangeError,
    ShapeError,
    UnknownError,
    UnsupportedError,
)
from graphcollab.naming import few
from graphcollab.tasks._csv import LARGEST, MISSING, TRUTHS, is_number, objects, read_csv, text, truths, without
from graphcollab.tasks._kinds import kind_of
from graphcollab.tasks._no_column import no_column
from graphcollab.tasks._partly_text import partly_text

__all__ = ["Table", "as_text", "by_size", "dates", "factorised", "open_table"]

WHAT = (
    "a frame of pandas or polars, a dict of columns, a list of rows as dicts, the path of a CSV or Parquet file, or a "
    "dict of these by site"
)

_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
_NOTHING = ("NAType", "NaTType")  # what pandas has in place of missing values
_INDEX = re.compile(r"__index_level_\d+__")  # as what pandas and pyarrow keep an index without a name


@dataclass(frozen=True)
class Table:
    """A table whose columns are read when they are asked for.

    Args:
        names: Names of the columns.
        rows: How many rows there are.
        read: Function from the name of a column to its values.
        sizes: Rows of every site, {name: number}, where the table was given site by site.
        declared: Columns whose type in a frame says that they are categories, whatever they hold.
        index: Names of a frame's index.
        made: The column that was made of the names of sites, where the table was given site by site.
        kinds: What the columns that were read hold at every site, {column: {site: kind}}, where it was given so.
    """

    names: tuple[str, ...]
    rows: int
    read: Callable[[str], np.ndarray]
    sizes: Mapping[str, int] | None = None
    declared: frozenset[str] = frozenset()
    index: tuple[str, ...] = ()
    made: str | None = None
    kinds: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the columns that somebody has written."""
        return tuple(name for name in self.names if name != self.made)

    def column(self, name: str, given: str = "") -> np.ndarray:
        """Return the values of a column; a ValueError says where there is none, and by what it was ``given``."""
        if name in self.names and not given:
            return self.read(name)
        if name in self.index:
            raise UnknownError(
                f"column {name!r}", f"{name!r} is the index of the frame and no column: give frame.reset_index()"
            )
        if name not in self.names:
            raise UnknownError(f"column {name!r}", no_column(name, self.given, given))
        try:
            return self.read(name)
        except GraphcollabError as error:  # what is needed cannot be left out
            raise type(error)(error.subject, str(error).removesuffix(f", or {without(name)}")) from error


def open_table(frame: Any, node: str | None = None) -> Table:
    """Open a table; of a dict of tables by site all become one, with a column ``node`` that names the site."""
    if isinstance(frame, Mapping) and frame and all(map(_is_table, frame.values())):
        tables = {str(name).strip(): _open(one) for name, one in frame.items()}
        if len(tables) < len(frame):
            raise DuplicateError(
                "sites", f"names of sites must differ by more than spaces around them, got {few([*map(repr, frame)])}"
            )
        return _joined(tables, node)
    return _open(frame)


def dates(name: str, what: str, since: str = " since the first") -> str:
    """Say that a column holds dates, or where these are ``since`` nothing lengths of time, and what to do."""
    kind = "dates" if since else "lengths of time"
    return f"column {name!r} holds {kind} ({what}): make them numbers, such as days{since}, or {without(name)}"


def factorised(values: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the different values of a column as text, in order, and which of them every row has, -1 for a missing one.

    Numbers are ordered by size and come before text, which is ordered by its letters. Whole numbers have no point.

    Example:
        >>> factorised(np.array([10.0, 9.0, np.nan]))
        (('9', '10'), array([ 1,  0, -1]))
    """
    if values.dtype.kind == "O":
        known = sorted({one for one in values.tolist() if one is not None}, key=by_size)
        place = {None: -1, **dict(zip(known, range(len(known)), strict=True))}
        return tuple(known), np.fromiter(map(place.__getitem__, values.tolist()), np.int64, len(values))
    found, codes = np.unique(values, return_inverse=True)
    present = found[~np.isnan(found)]
    codes = np.where(codes < len(present), codes, -1)
    return tuple(str(int(one)) if float(one).is_integer() else repr(float(one)) for one in present.tolist()), codes


def _is_table(value: Any) -> bool:
    rows = isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)
    return rows or isinstance(value, Mapping | str | os.PathLike) or hasattr(value, "columns")


def _open(frame: Any) -> Table:
    if isinstance(frame, Mapping):
        columns = {str(name): values for name, values in frame.items()}
        single = [name for name, values in columns.items() if isinstance(values, str) or not hasattr(values, "__len__")]
        if single:
            raise ShapeError(
                f"column {single[0]!r}",
                f"column {single[0]!r} must have a value per row, got {columns[single[0]]!r}; for a single "
                "row give a list of it, [row]",
            )
        sizes = {name: len(values) for name, values in columns.items()}
        if not sizes:
            raise EmptyError("table", "the table has no columns")
        if len(set(sizes.values())) != 1:
            raise ShapeError("table", f"columns must have one length, got the lengths {sizes}")
        return Table(tuple(columns), next(iter(sizes.values())), lambda name: _from_array(name, columns[name]))
    if isinstance(frame, str | os.PathLike):
        path = _existing(Path(frame))
        if path.suffix.lower() in (".parquet", ".pq"):
            return _from_frame(_read_parquet(path))
        return Table(*read_csv(path))
    if isinstance(frame, Sequence) and frame and all(isinstance(row, Mapping) for row in frame):
        names = dict.fromkeys(name for row in frame for name in row)
        return _open({name: [row.get(name) for row in frame] for name in names})
    return _from_frame(frame)


def _existing(path: Path) -> Path:
    """Return the path of a file that may be a table."""
    if path.is_dir():
        raise InvalidValueError(
            f"file {path}", f"{path} is a folder: give the path of a CSV or Parquet file, or {{site: path}} for several"
        )
    if not path.is_file():
        raise MissingFileError(f"file {path}", f"there is no file {path}: give the path of a CSV or Parquet file")
    if path.suffix.lower() in _SPREADSHEETS:
        raise FormatError(
            f"file {path}",
            f"{path} is a spreadsheet: save it as CSV in UTF-8, or give what pandas.read_excel({path.name!r}) reads",
        )
    return path


def _joined(tables: Mapping[str, Table], node: str | None) -> Table:
    """Put the tables of all sites below each other."""
    names = dict.fromkeys(name for table in tables.values() for name in table.names if name != node)
    kinds: dict[str, Mapping[str, str]] = {}

    def read(name: str) -> np.ndarray:
        if name == node:
            return text(one for site, table in tables.items() for one in [site] * table.rows)
        lacking = [site for site, table in tables.items() if name not in table.names]
        if lacking:
            raise MismatchError(
                f"column {name!r}",
                f"site {lacking[0]!r} has no column {name!r}, which other sites have: add it, with missing values "
                f"where nothing is known, or {without(name)}",
            )
        parts = [_of_site(site, table, name) for site, table in tables.items()]
        if len(parts) > 1 and all(set(factorised(part)[0]) == {site} for site, part in zip(tables, parts, strict=True)):
            raise ConflictError(f"column {name!r}", f"column {name!r} names the site of every row: give node={name!r}")
        kinds[name] = {site: kind_of(part) for site, part in zip(tables, parts, strict=True)}
        if any(part.dtype.kind == "O" for part in parts):
            _refuse_mixed_truths(name, dict(zip(tables, parts, strict=True)))
            parts = [part if part.dtype.kind == "O" else as_text(part) for part in parts]
        return np.concatenate(parts)

    for site, table in tables.items():
        if node in table.names and set(factorised(table.read(str(node)))[0]) - {site}:
            raise ConflictError(
                f"site {site!r}", f"the frame of site {site!r} has rows of other sites in its column {node!r}"
            )
    sizes = {site: table.rows for site, table in tables.items()}
    declared = frozenset().union(*(table.declared for table in tables.values()))
    return Table(
        (*names, *([node] if node else [])), sum(sizes.values()), read, sizes, declared, made=node, kinds=kinds
    )


def _refuse_mixed_truths(name: str, parts: Mapping[str, np.ndarray]) -> None:
    """Refuse a column that is true and false at one site, and such words among others at another."""
    numbers = {site: set(part[~np.isnan(part)].tolist()) for site, part in parts.items() if part.dtype.kind != "O"}
    other = next((site for site, values in numbers.items() if values and values <= {0, 1}), None)
    mixed = ((site, set(part.tolist()) & TRUTHS.keys()) for site, part in parts.items() if site not in numbers)
    site, words = next(((site, words) for site, words in mixed if words), ("", set()))
    if words and other is not None:
        raise MismatchError(
            f"column {name!r}",
            f"column {name!r} holds nothing but true and false at site {other!r}, and other words beside "
            f"{min(words)!r} at site {site!r}: leave it empty where it is neither, or {without(name)}",
        )


def _of_site(site: str, table: Table, name: str) -> np.ndarray:
    try:
        return table.read(name)
    except GraphcollabError as error:
        raise type(error)(error.subject, f"site {site!r}: {error}") from error


def _from_array(name: str, values: Any) -> np.ndarray:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
    array = np.asarray(array if hasattr(array, "dtype") else objects(array))
    if array.ndim != 1:
        raise ShapeError(
            f"column {name!r}", f"column {name!r} must be one value per row, [N], got an array {list(array.shape)}"
        )
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind in "iu":
        return array.astype(np.float64 if array.dtype == np.uint64 and (array > LARGEST).any() else np.int64)
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    if array.dtype.kind in "UTO":
        return _from_objects(name, array.tolist())
    if array.dtype.kind in "mM":
        raise UnsupportedError(f"column {name!r}", dates(name, str(array.dtype), *[""] * (array.dtype.kind == "m")))
    raise UnsupportedError(
        f"column {name!r}", f"column {name!r} holds {array.dtype}: make it numbers or text, or {without(name)}"
    )


def _from_objects(name: str, values: Sequence[Any]) -> np.ndarray:
    """Return a column of Python's objects as numbers or text."""
    if {str} <= set(map(type, values)) <= {str, type(None)}:
        read = {one: None if one is None or one.strip() in MISSING else one.strip() for one in set(values)}
        return _from_words([read[one] for one in values])
    lacks = [
        one.strip() in MISSING if isinstance(one, str) else one is None or type(one).__name__ in _NOTHING or one != one
        for one in values
    ]
    known = [one for one, lack in zip(values, lacks, strict=True) if not lack]
    kinds = set(map(type, known)) or {str for one in values if isinstance(one, str)}
    if all(issubclass(kind, str) for kind in kinds) and kinds:
        return _from_words([None if lack else str(one).strip() for one, lack in zip(values, lacks, strict=True)])
    if all(issubclass(kind, Real) or kind is np.bool_ for kind in kinds):
        if len(known) == len(values) and kinds and kinds <= {bool, np.bool_}:
            return np.array(values, bool)
        whole = len(known) == len(values) and all(issubclass(kind, Integral | np.bool_) for kind in kinds)
        whole = whole and all(abs(int(one)) <= LARGEST for one in known)
        filled = [np.nan if lack else one for one, lack in zip(values, lacks, strict=True)]
        try:
            return np.array(filled, np.int64 if whole else np.float64)
        except OverflowError as error:
            row = next(k for k, one in enumerate(filled) if abs(one) > sys.float_info.max)
            raise RangeError(
                f"column {name!r}",
                f"row {row} of column {name!r} holds a number that is too large to compute with: correct it, or "
                f"{without(name)}",
            ) from error
    day = next((one for one in known if isinstance(one, datetime.date | datetime.time | datetime.timedelta)), None)
    if day is not None:
        raise UnsupportedError(
            f"column {name!r}", dates(name, f"such as {day}", *[""] * isinstance(day, datetime.timedelta))
        )
    if any(isinstance(one, Real) for one in known) and any(isinstance(one, str) and is_number(one) for one in known):
        raise AmbiguousError(f"column {name!r}", partly_text(name, values))
    fits = next((kind for kind in (str, Real) if isinstance(known[0], kind)), ())
    odd = next(k for k, one in enumerate(values) if not lacks[k] and not isinstance(one, fits))
    others = f", and other rows hold such as {known[0]!r}" if fits else ""
    raise MismatchError(
        f"column {name!r}",
        f"row {odd} of column {name!r} holds {values[odd]!r}{others}: make the column numbers or text, or "
        f"{without(name)}",
    )


def _from_words(words: list[str | None]) -> np.ndarray:
    """Return a column of text, or of true and false where it says nothing else."""
    said = set(words) - {None}
    return truths([TRUTHS.get(str(one)) for one in words]) if said and said <= TRUTHS.keys() else text(words)


def _from_frame(frame: Any) -> Table:
    """Open a frame of any library that narwhals knows."""
    import narwhals as nw  # takes a tenth of a second

    try:
        known = nw.from_native(frame, eager_only=True)
        places = {str(name): place for place, name in enumerate(known.columns)}
    except nw.exceptions.DuplicateError as error:
        raise DuplicateError("table", f"columns must have different names: {error}") from error
    except TypeError as error:
        hint = ": call its collect() first" if hasattr(frame, "collect") else ""
        if type(frame).__name__ == "Series":
            hint = "; a single row of a frame is frame.iloc[[k]] in pandas and frame[[k]] in polars"
        if isinstance(frame, Sequence) and frame and all(hasattr(one, "columns") for one in frame):
            hint = f" of a {type(frame[0]).__name__} each: name the sites, {{'north': frames[0], 'south': frames[1]}}"
        raise InvalidTypeError("table", f"a table must be {WHAT}, got a {type(frame).__name__}{hint}") from error

    names = tuple(name for name in places if not _INDEX.fullmatch(name))  # it numbers rows, and says nothing of them

    declared = frozenset(name for name in names if known[:, places[name]].dtype in (nw.Categorical, nw.Enum))

    def read(name: str) -> np.ndarray:
        series = known[:, places[name]]
        dtype = series.dtype
        if dtype.is_numeric() or dtype == nw.Boolean:
            complete = not series.is_null().any()
            if complete and dtype == nw.Boolean:
                return _from_array(name, series.to_numpy().astype(bool))
            whole = complete and dtype.is_integer()
            return _from_array(name, series.cast(nw.Int64 if whole else nw.Float64).to_numpy())
        if dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object, nw.Unknown):
            values = series.to_list()  # a cast to text would make text of missing values
            return _from_objects(name, [*map(_plain, values)] if name in declared else values)
        if dtype.is_temporal():
            raise UnsupportedError(f"column {name!r}", dates(name, str(dtype), *[""] * (dtype == nw.Duration)))
        raise UnsupportedError(
            f"column {name!r}", f"column {name!r} holds {dtype}: make it numbers or text, or {without(name)}"
        )

    index = tuple(map(str, getattr(getattr(frame, "index", None), "names", ())))  # of pandas
    return Table(names, len(known), read, declared=declared, index=index)


def _plain(category: Any) -> Any:
    """Return a declared category as a number or text, such as an interval of `pandas.cut`."""
    plain = category is None or isinstance(category, str | Real | np.bool_) or type(category).__name__ in _NOTHING
    return category if plain else str(category)


def _read_parquet(path: Path) -> Any:
    for library, read in (("polars", "read_parquet"), ("pyarrow.parquet", "read_table"), ("pandas", "read_parquet")):
        try:
            return getattr(__import__(library, fromlist=[read]), read)(path)
        except ImportError:
            continue
    raise MissingPackageError(
        "pyarrow", f"to read {path} one of polars, pyarrow and pandas is needed: pip install pyarrow"
    )


def by_size(text: str) -> tuple[bool, float, str]:
    """Return what puts numbers in order of their size, and before other text."""
    number = is_number(text) and float(text) == float(text)
    return not number, float(text) if number else 0.0, text


def as_text(values: np.ndarray) -> np.ndarray:
    """Return a column of numbers as one of text."""
    names, codes = factorised(values)
    return objects([*names, None])[codes]
