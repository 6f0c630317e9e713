"""Tables as users have them, column by column: frames of pandas or polars, dicts of arrays, CSV and Parquet files.

A column is read as numbers, int64 or float64 with NaN where a value is missing, or as text, an array of Python objects
with None where it is missing.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["Table", "factorised", "looks_like_numbers", "open_table"]

WHAT = "a frame of pandas or polars, a dict of columns, the path of a CSV or Parquet file, or a dict of these by site"
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?")
_MISSING = {"", "?", "NA", "N/A", "NaN", "nan", "None", "NULL", "null", "<NA>"}
_SEPARATORS = ",;\t|"


@dataclass(frozen=True)
class Table:
    """A table whose columns are read when they are asked for.

    Args:
        names: Names of the columns.
        rows: How many rows there are.
        read: Function from the name of a column to its values.
        sizes: Rows of every site, {name: number}, where the table was given site by site.
    """

    names: tuple[str, ...]
    rows: int
    read: Callable[[str], np.ndarray]
    sizes: Mapping[str, int] | None = None

    def column(self, name: str) -> np.ndarray:
        """Return the values of a column; a ValueError says where there is none."""
        if name not in self.names:
            raise ValueError(f"there is no column {name!r}: the columns are {', '.join(map(repr, self.names))}")
        return self.read(name)


def open_table(frame: Any, node: str | None = None) -> Table:
    """Open a table; of a dict of tables by site all become one, with a column ``node`` that names the site."""
    if isinstance(frame, Mapping) and frame and all(map(_is_table, frame.values())):
        return _joined({str(name): _open(one) for name, one in frame.items()}, node)
    return _open(frame)


def factorised(values: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the different values of a column as text, in order, and which of them every row has, -1 for a missing one.

    Numbers are ordered by size and come before text, which is ordered by its letters. Whole numbers have no point.

    Example:
        >>> factorised(np.array([10.0, 9.0, np.nan]))
        (('9', '10'), array([ 1,  0, -1]))
    """
    if values.dtype.kind == "O":
        known = sorted({one for one in values.tolist() if one is not None}, key=_by_size)
        place = {None: -1, **dict(zip(known, range(len(known)), strict=True))}
        return tuple(known), np.fromiter(map(place.__getitem__, values.tolist()), np.int64, len(values))
    found, codes = np.unique(values, return_inverse=True)
    present = found[~np.isnan(found)]
    codes = np.where(codes < len(present), codes, -1)
    return tuple(str(int(one)) if float(one).is_integer() else repr(float(one)) for one in present.tolist()), codes


def looks_like_numbers(values: np.ndarray) -> int | None:
    """Return the row that keeps a column of text from being numbers, if most of its values are numbers."""
    known = [k for k, one in enumerate(values.tolist()) if one is not None]
    odd = [k for k in known if not _is_number(values[k])]
    return (odd or known)[0] if known and 2 * len(odd) < len(known) else None


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping | str | os.PathLike) or hasattr(value, "columns")


def _open(frame: Any) -> Table:
    if isinstance(frame, Mapping):
        columns = {str(name): values for name, values in frame.items()}
        single = [name for name, values in columns.items() if isinstance(values, str) or not hasattr(values, "__len__")]
        if single:
            raise ValueError(f"column {single[0]!r} must have a value per row, got {columns[single[0]]!r}")
        sizes = {name: len(values) for name, values in columns.items()}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"columns must have one length, and there must be some, got the lengths {sizes}")
        return Table(tuple(columns), next(iter(sizes.values())), lambda name: _from_array(name, columns[name]))
    if isinstance(frame, str | os.PathLike):
        return _from_file(Path(frame))
    return _from_frame(frame)


def _joined(tables: Mapping[str, Table], node: str | None) -> Table:
    """Put the tables of all sites below each other."""
    names = dict.fromkeys(name for table in tables.values() for name in table.names if name != node)

    def read(name: str) -> np.ndarray:
        if name == node:
            return _text(one for site, table in tables.items() for one in [site] * table.rows)
        lacking = [site for site, table in tables.items() if name not in table.names]
        if lacking:
            raise ValueError(
                f"site {lacking[0]!r} has no column {name!r}, which other sites have: add it, with missing values "
                "where nothing is known, or leave it out by columns=[...]"
            )
        parts = [_of_site(site, table, name) for site, table in tables.items()]
        if len(parts) > 1 and all(set(factorised(part)[0]) == {site} for site, part in zip(tables, parts, strict=True)):
            raise ValueError(f"column {name!r} names the site of every row: give node={name!r}")
        if any(part.dtype.kind == "O" for part in parts):
            parts = [part if part.dtype.kind == "O" else _as_text(part) for part in parts]
        return np.concatenate(parts)

    for site, table in tables.items():
        if node in table.names and set(factorised(table.read(str(node)))[0]) - {site}:
            raise ValueError(f"the frame of site {site!r} has rows of other sites in its column {node!r}")
    sizes = {site: table.rows for site, table in tables.items()}
    return Table((*names, *([node] if node else [])), sum(sizes.values()), read, sizes)


def _of_site(site: str, table: Table, name: str) -> np.ndarray:
    try:
        return table.read(name)
    except ValueError as error:
        raise ValueError(f"site {site!r}: {error}") from error


def _from_array(name: str, values: Any) -> np.ndarray:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
    array = np.asarray(array if hasattr(array, "dtype") else _objects(array))
    if array.ndim != 1:
        raise ValueError(f"column {name!r} must be one value per row, [N], got an array {list(array.shape)}")
    if array.dtype.kind in "biu":
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    if array.dtype.kind in "UTO":
        return _from_objects(name, array.tolist())
    raise ValueError(f"column {name!r} holds {array.dtype}: make it numbers or text, or leave it out by columns=[...]")


def _from_objects(name: str, values: Sequence[Any]) -> np.ndarray:
    """Return a column of Python's objects as numbers or text."""
    lacks = [one is None or type(one).__name__ in ("NAType", "NaTType") or one != one for one in values]
    known = [one for one, lack in zip(values, lacks, strict=True) if not lack]
    kinds = set(map(type, known))
    if all(issubclass(kind, str) for kind in kinds) and kinds:
        return _text(None if lack or one == "" else str(one) for one, lack in zip(values, lacks, strict=True))
    if all(issubclass(kind, Real) or kind is np.bool_ for kind in kinds):
        whole = len(known) == len(values) and all(issubclass(kind, Integral | np.bool_) for kind in kinds)
        filled = [np.nan if lack else one for one, lack in zip(values, lacks, strict=True)]
        return np.array(filled, np.int64 if whole else np.float64)
    fits = next((kind for kind in (str, Real) if isinstance(known[0], kind)), ())
    odd = next(k for k, one in enumerate(values) if not lacks[k] and not isinstance(one, fits))
    others = f", and other rows hold such as {known[0]!r}" if fits else ""
    raise ValueError(
        f"row {odd} of column {name!r} holds {values[odd]!r}{others}: make the column numbers or text, or leave it out "
        "by columns=[...]"
    )


def _from_frame(frame: Any) -> Table:
    """Open a frame of any library that narwhals knows."""
    import narwhals as nw  # takes a tenth of a second

    try:
        known = nw.from_native(frame, eager_only=True)
        names = {str(name): place for place, name in enumerate(known.columns)}
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"columns must have different names: {error}") from error
    except TypeError as error:
        hint = ": call its collect() first" if hasattr(frame, "collect") else ""
        raise TypeError(f"a table must be {WHAT}, got a {type(frame).__name__}{hint}") from error

    def read(name: str) -> np.ndarray:
        series = known[:, names[name]]
        dtype = series.dtype
        if dtype.is_numeric() or dtype == nw.Boolean:
            whole = not series.is_null().any() and (dtype.is_integer() or dtype == nw.Boolean)
            return _from_array(name, series.cast(nw.Int64 if whole else nw.Float64).to_numpy())
        if dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object, nw.Unknown):
            values = _from_objects(name, series.to_list())  # a cast to text would make text of missing values
            return _as_text(values) if dtype in (nw.Categorical, nw.Enum) and values.dtype.kind != "O" else values
        raise ValueError(f"column {name!r} holds {dtype}: make it numbers or text, or leave it out by columns=[...]")

    return Table(tuple(names), len(known), read)


def _from_file(path: Path) -> Table:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}: give the path of a CSV or Parquet file")
    if path.suffix.lower() in (".parquet", ".pq"):
        return _from_frame(_read_parquet(path))
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            separator = max(_SEPARATORS, key=first.count)
            file.seek(0)
            head, *rows = [row for row in csv.reader(file, delimiter=separator) if row] or [[]]
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is no text in UTF-8: save it as such, or read it into a frame and give that"
        ) from error
    names = [name.strip() for name in head]
    if "" in names and rows:
        raise ValueError(
            f"{path}: column {names.index('')} has no name, as where pandas has written its index: name it, or write "
            "the file with index=False"
        )
    if len(set(names)) < len(names) or not rows:
        raise ValueError(f"{path} must have a line with different names of columns and then rows, got {head}")
    wrong = next((k for k, row in enumerate(rows) if len(row) != len(names)), None)
    if wrong is not None:
        raise ValueError(f"{path}: row {wrong} has {len(rows[wrong])} values, and there are {len(names)} columns")
    place = {name: k for k, name in enumerate(names)}
    return Table(tuple(names), len(rows), lambda name: _parsed([row[place[name]].strip() for row in rows]))


def _read_parquet(path: Path) -> Any:
    for library, read in (("polars", "read_parquet"), ("pyarrow.parquet", "read_table"), ("pandas", "read_parquet")):
        try:
            return getattr(__import__(library, fromlist=[read]), read)(path)
        except ImportError:
            continue
    raise ImportError(f"to read {path} one of polars, pyarrow and pandas is needed: pip install pyarrow")


def _parsed(cells: list[str]) -> np.ndarray:
    """Return the cells of a CSV file as numbers where all are that are not missing; with leading zeros as text.

    Numbers may have decimal commas, as in files whose values are separated by semicolons.
    """
    known = [cell for cell in cells if cell not in _MISSING]
    if any("," in cell for cell in known) and all(map(_DECIMAL_COMMA.fullmatch, known)):
        return np.array([np.nan if cell in _MISSING else float(cell.replace(",", ".")) for cell in cells])
    if all(map(_is_number, known)) and not any(cell[0] == "0" and cell.isdigit() and cell != "0" for cell in known):
        if len(known) == len(cells) and all(cell.lstrip("+-").isdigit() for cell in known):
            return np.array(list(map(int, cells)), np.int64)
        return np.array([np.nan if cell in _MISSING else float(cell) for cell in cells])
    return _text(None if cell in _MISSING else cell for cell in cells)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _by_size(text: str) -> tuple[bool, float, str]:
    """Return what puts numbers in order of their size, and before other text."""
    number = _is_number(text) and float(text) == float(text)
    return not number, float(text) if number else 0.0, text


def _as_text(values: np.ndarray) -> np.ndarray:
    names, codes = factorised(values)
    return _objects([*names, None])[codes]


def _text(values: Iterable[str | None]) -> np.ndarray:
    return _objects(list(values))


def _objects(values: Any) -> np.ndarray:
    """Return an array of Python's objects, one per entry; NumPy would make text of numbers among text."""
    values = list(values)
    return np.fromiter(values, object, len(values))
