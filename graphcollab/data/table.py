"""Tables: frames, dicts of columns, rows as dicts and files, or a dict of these by site, as one pandas frame of cells.

The index of a frame has the row numbers, preceded by the name of the site if the table was given site by site.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from graphcollab._base.errors import (
    AmbiguousError,
    ConflictError,
    DuplicateError,
    EmptyError,
    GraphcollabError,
    InvalidTypeError,
    MismatchError,
    MissingError,
    MissingPackageError,
    ShapeError,
    UnknownError,
)
from graphcollab._base.naming import close, few
from graphcollab.data._files import read_file
from graphcollab.data._values import TRUTHS, as_text, clean, factorized, kind_of, lacks, objects, without

WHAT = (
    "a frame of pandas or polars, a dict of columns, a list of rows as dicts, the path of a CSV, Excel or Parquet "
    "file, or a dict of these by site"
)
_INDEX = re.compile(r"__index_level_\d+__")  # name under which pandas and pyarrow store an unnamed index
_ROW = "row of the site"  # name of the last level of the index of a table given site by site
_LACKING = "lacking"  # attribute of such a table: {column: site without it}


def open_table(table: Any, node: str | None = None) -> pd.DataFrame:
    """Open a table; join a dict of tables by site into one, with a column ``node`` that names the site."""
    if isinstance(table, pd.DataFrame) and table.index.names[-1] == _ROW:
        return table
    if not (isinstance(table, Mapping) and table and all(map(_is_table, table.values()))):
        return _open(table)
    parts = {str(name).strip(): _open(one) for name, one in table.items()}
    if len(parts) < len(table):
        raise DuplicateError(
            "sites", f"names of sites must differ by more than spaces around them, got {few([*map(repr, table)])}"
        )
    for site, part in parts.items():
        if not len(part) and len(parts) > 1:
            raise EmptyError(f"site {site!r}", f"site {site!r} has no rows: leave it out")
        if node in part and set(factorized(read_column(part, str(node)))[0]) - {site}:
            raise ConflictError(f"site {site!r}", f"the frame of site {site!r} has rows of others in column {node!r}")
    names = dict.fromkeys(name for part in parts.values() for name in part if name != node)
    declared = dict.fromkeys(
        (name for part in parts.values() for name in declared_in(part) if name != node), "category"
    )
    joined = pd.concat(parts, names=[node, _ROW])[[*names]].astype(declared)
    joined.attrs[_LACKING] = {name: site for site, part in parts.items() for name in names if name not in part}
    return joined if node is None else joined.assign(**{node: joined.index.get_level_values(0)})


def declared_in(table: pd.DataFrame) -> list[str]:
    """Return the columns that are categorical by their type in a frame, whatever their values."""
    return [name for name, kind in table.dtypes.items() if isinstance(kind, pd.CategoricalDtype)]


def read_column(table: pd.DataFrame, name: str, given: str = "", spare: bool = False) -> np.ndarray:
    """Return the values of a column, ``given`` by an argument; errors for a ``spare`` one advise to exclude it."""
    if name not in table:
        raise UnknownError(f"column {name!r}", no_column(name, table.columns, given))
    if name == table.index.names[0]:
        return objects(table.index.get_level_values(0))
    if site := table.attrs.get(_LACKING, {}).get(name):
        raise MismatchError(
            f"column {name!r}",
            f"site {site!r} has no column {name!r}, which other sites have: add it, empty where nothing is known",
        )
    try:
        if table.index.nlevels == 1:
            return clean(name, table[name])
        return _joined(name, _by_site(table, name))
    except GraphcollabError as error:
        if not spare or isinstance(error, AmbiguousError):
            raise
        raise type(error)(error.subject, f"{error}, or {without(name)}") from error


def _by_site(table: pd.DataFrame, name: str) -> dict[str, np.ndarray]:
    return {str(site): clean(name, values) for site, values in table[name].groupby(level=0, sort=False)}


def _joined(name: str, parts: Mapping[str, np.ndarray]) -> np.ndarray:
    """Join the values of all sites; if some have text, all become text."""
    if len(parts) > 1 and all({*factorized(part)[0]} == {site} for site, part in parts.items()):
        raise ConflictError(f"column {name!r}", f"column {name!r} names the site of every row: give node={name!r}")
    if all(part.dtype.kind != "O" for part in parts.values()):
        return np.concatenate([*parts.values()])
    words = {site: {*part[~lacks(part)].tolist()} for site, part in parts.items()}
    truths = next((site for site, found in words.items() if found and found <= {0, 1}), None)
    other = next((site for site, found in words.items() if found & TRUTHS.keys()), None)
    if truths is not None and other is not None:
        raise MismatchError(
            f"column {name!r}",
            f"column {name!r} holds only true and false at site {truths!r}, and {min(words[other] & TRUTHS.keys())!r} "
            f"among others at site {other!r}: leave it empty where it is neither",
        )
    return np.concatenate([part if part.dtype.kind == "O" else as_text(part) for part in parts.values()])


def kinds_at_sites(table: pd.DataFrame, name: str) -> dict[str, str]:
    """Return the kind of a column's values at every site; of a table that was not given site by site, nothing."""
    return {} if table.index.nlevels == 1 else {site: kind_of(part) for site, part in _by_site(table, name).items()}


def sites_in(table: pd.DataFrame, node: str) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the sorted names of the sites in a column, and the index of every row's site."""
    names, codes = factorized(read_column(table, node))
    if (codes < 0).any():
        row = int((codes < 0).argmax())
        raise MissingError(f"column {node!r}", f"row {row} has no site in column {node!r}")
    return names, codes


def no_column(name: str, names: Iterable[str], given: str = "") -> str:
    """Return the message for a missing column, ``given`` by an argument."""
    names, told = list(names), f"there is no column {name!r}{given and f' ({given})'}"
    hint = f"; {near}The" if (near := close(name, names)) else ": the"
    return f"{told}{hint} columns are {few([*map(repr, names)])}"


def _is_table(value: Any) -> bool:
    rows = isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)
    return rows or isinstance(value, Mapping | str | os.PathLike) or hasattr(value, "columns")


def _open(table: Any) -> pd.DataFrame:
    if isinstance(table, str | os.PathLike):
        table = read_file(Path(table))
    if isinstance(table, Sequence) and table and all(isinstance(row, Mapping) for row in table):
        names = dict.fromkeys(name for row in table for name in row)
        table = {name: [row.get(name) for row in table] for name in names}
    if isinstance(table, Mapping):
        table = _of_columns(table)
    if hasattr(table, "replace_schema_metadata"):  # of pyarrow, which would make a column the index
        table = table.replace_schema_metadata()
    if hasattr(table, "to_pandas"):
        table = _from_library(table)
    if not isinstance(table, pd.DataFrame):
        hint = ": call its collect() first" if hasattr(table, "collect") else ""
        raise InvalidTypeError("table", f"a table must be {WHAT}, got a {type(table).__name__}{hint}")
    table = table.reset_index(drop=True).rename(columns=str)
    if double := table.columns[table.columns.duplicated()].tolist():
        raise DuplicateError("table", f"columns must have different names, and {double[0]!r} is there twice")
    if not len(table.columns):
        raise EmptyError("table", "the table has no columns")
    return table[[name for name in table if not _INDEX.fullmatch(name)]]


def _from_library(table: Any) -> Any:
    try:
        return table.to_pandas()
    except ImportError as error:
        raise MissingPackageError(
            "pyarrow", f"a {type(table).__name__} needs a further package: pip install pyarrow ({error})"
        ) from error


def _of_columns(columns: Mapping[Any, Any]) -> pd.DataFrame:
    cells: dict[str, Any] = {}
    for name, values in columns.items():
        shape = [*values.shape] if hasattr(values, "shape") else [0]
        if isinstance(values, str) or not hasattr(values, "__len__") or len(shape) != 1:
            got = repr(values) if shape == [0] else f"an array {shape}"
            raise ShapeError(
                f"column {name!r}", f"column {name!r} must have a value per row, got {got}: for a single row give [row]"
            )
        if isinstance(values, Tensor):
            values = values.detach().cpu().numpy()
        array = np.asarray(values) if hasattr(values, "dtype") else objects(values)
        cells[str(name)] = array if array.dtype.kind in "biufmM" else array.astype(object)
    sizes = {name: len(values) for name, values in cells.items()}
    if len({*sizes.values()}) > 1:
        raise ShapeError("table", f"columns must have one length, got the lengths {sizes}")
    return pd.DataFrame({name: pd.Series(values) for name, values in cells.items()})
