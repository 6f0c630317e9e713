"""Tables in CSV, Excel and Parquet files, read by pandas; ambiguous numbers of CSV files stay text."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from graphcollab._base.errors import (
    DuplicateError,
    EmptyError,
    FormatError,
    InvalidValueError,
    MissingFileError,
    MissingPackageError,
)
from graphcollab.data._values import LARGEST, MISSING, is_number, objects

_SHEETS, _PARQUET = (".xlsx", ".xls", ".xlsm", ".ods"), (".parquet", ".pq")
_SEPARATORS, _DECIMAL_COMMAS_WITH = ",;\t|", ";\t"
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+(,\d+)?|,\d+)", re.ASCII)
_WITH_DECIMAL_COMMA = re.compile(r"[+-]?[\d.]+,\d+", re.ASCII)
_THOUSANDS_POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+", re.ASCII)


def read_file(path: Path) -> Any:
    """Return the frame in a CSV, Excel or Parquet file; of a workbook, the first sheet."""
    if path.is_dir():
        raise InvalidValueError(
            f"file {path}", f"{path} is a folder: give the path of a file, or {{site: path}} for several"
        )
    if not path.is_file():
        raise MissingFileError(f"file {path}", f"there is no file {path}: give the path of a CSV or Parquet file")
    if path.suffix.lower() not in (*_SHEETS, *_PARQUET):
        return _read_csv(path)
    try:
        if path.suffix.lower() in _PARQUET:
            return importlib.import_module("pyarrow.parquet").ParquetFile(path).read()
        return pd.read_excel(path, dtype=object, keep_default_na=False, na_values=[""])
    except ImportError as error:
        package = "pyarrow" if path.suffix.lower() in _PARQUET else "openpyxl"
        raise MissingPackageError(
            package, f"{path} needs a further package: pip install {package}, or save the table as CSV ({error})"
        ) from error
    except Exception as error:  # from any library that pandas uses
        raise FormatError(f"file {path}", f"{path} cannot be read: {error}") from error


def _read_csv(path: Path) -> pd.DataFrame:
    (header, *rows), separator = _cells(path)
    names = [str(name).strip() for name in header]
    if names[0] == "" and [row[0] for row in rows] in ([*map(str, range(k, k + len(rows)))] for k in (0, 1)):
        names, rows = names[1:], [row[1:] for row in rows]  # pandas and R write row numbers into an unnamed column
    _refuse_names(path, names, len(rows))
    columns = [[cell.strip() for cell in column] for column in zip(*rows, strict=True)]
    if separator in _DECIMAL_COMMAS_WITH:
        commas = any(_WITH_DECIMAL_COMMA.fullmatch(cell) for column in columns for cell in column if "," in cell)
        values = [_parsed_with_commas(column, commas) for column in columns]
    else:
        values = [_parsed(column) for column in columns]
    return pd.DataFrame(dict(zip(names, values, strict=True)))


def _cells(path: Path) -> tuple[list[list[str]], str]:
    subject = f"file {path}"
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            separator = max(_SEPARATORS, key=file.readline().count)
            file.seek(0)
            how: Any = {"header": None, "dtype": object, "keep_default_na": False, "engine": "python"}
            rows: list[list[Any]] = pd.read_csv(file, sep=separator, **how).to_numpy().tolist()
    except pd.errors.EmptyDataError as error:
        raise EmptyError(
            subject, f"{path} is empty: it must have a line with the names of columns, and then rows"
        ) from error
    except pd.errors.ParserError as error:
        commas = "; with decimal commas, separate values by semicolons; put text with commas in quotes"
        raise FormatError(
            subject,
            f"{path} cannot be read: {error}. See whether the first line names the columns, and quotes are closed"
            + commas * (separator == ","),
        ) from error
    except UnicodeDecodeError as error:
        raise FormatError(
            subject, f"{path} is no text in UTF-8: unpack it if it is compressed, or save it as CSV in UTF-8"
        ) from error
    short = next((k for k, row in enumerate(rows[1:]) if row[-1] is None), None)
    if short is not None:
        values = sum(one is not None for one in rows[1 + short])
        raise FormatError(subject, f"{path}: row {short} has {values} values, and there are {len(rows[0])} columns")
    return rows, separator


def _refuse_names(path: Path, names: Sequence[str], rows: int) -> None:
    subject, numbers = f"file {path}", sum(map(is_number, names))
    headless = ". The first line must name the columns: is there one with names?" * (2 * numbers > len(names))
    if not rows:
        raise EmptyError(
            subject, f"{path.name} has no rows, only a line with the names of columns, {', '.join(map(repr, names))}"
        )
    if "" in names:
        raise FormatError(
            subject, f"{path}: column {names.index('')} has no name and does not number the rows: name it, or drop it"
        )
    if double := next((name for name in names if names.count(name) > 1), None):
        raise DuplicateError(subject, f"{path}: {names.count(double)} columns have the name {double!r}{headless}")
    if numbers == len(names):
        raise FormatError(subject, f"{path}: all columns are named by numbers{headless}")


def _parsed_with_commas(cells: list[str], commas: bool) -> np.ndarray:
    """Parse cells with decimal commas as numbers, too; keep text if points appear only where thousands have them."""
    known = [cell for cell in cells if cell not in MISSING]
    if any("," in cell for cell in known) and all(map(_DECIMAL_COMMA.fullmatch, known)):
        return np.array([np.nan if cell in MISSING else float(cell.replace(",", ".")) for cell in cells])
    pointed, others = {cell for cell in known if "." in cell}, {cell.lstrip("+-") for cell in known if "." not in cell}
    grouped = all(map(_THOUSANDS_POINTS.fullmatch, pointed)) and all(map(str.isdecimal, others))
    only_above = len(pointed) > 1 and max(map(len, others), default=0) == 3
    return objects(cells) if pointed and grouped and (commas or only_above) else _parsed(cells)


def _parsed(cells: list[str]) -> np.ndarray:
    """Parse cells as numbers if all known cells are such; keep text if any start with 0."""
    known = [cell for cell in cells if cell not in MISSING]
    codes = any(cell[0] == "0" and cell.isdigit() and cell != "0" for cell in known)
    if codes or not all(map(is_number, known)):
        return objects(cells)
    if len(known) < len(cells) or not all(cell.lstrip("+-").isdigit() for cell in known):
        return np.array([np.nan if cell in MISSING else float(cell) for cell in cells])
    if max(abs(int(cell)) if len(cell) <= 20 else LARGEST + 1 for cell in cells) > LARGEST:  # e.g. account numbers
        return objects(cells)
    return np.array([*map(int, cells)], np.int64)
