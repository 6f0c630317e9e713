"""Tables in CSV, Excel and Parquet files, read by pandas; CSV cells first as text, to reject ambiguous numbers."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from graphcollab._base.errors import (
    AmbiguousError,
    DuplicateError,
    EmptyError,
    FormatError,
    InvalidValueError,
    MissingFileError,
    MissingPackageError,
)
from graphcollab.data._values import LARGEST, MISSING, from_words, is_number, objects

_SHEETS, _PARQUET = (".xlsx", ".xls", ".xlsm", ".ods"), (".parquet", ".pq")
_SEPARATORS, _DECIMAL_COMMAS_WITH = ",;\t|", ";\t"
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+(,\d+)?|,\d+)", re.ASCII)
_WITH_DECIMAL_COMMA = re.compile(r"[+-]?[\d.]+,\d+", re.ASCII)
_WITH_COMMAS = re.compile(r"[+-]?\d+(,\d+)*(\.\d*)?", re.ASCII)
_THOUSANDS_POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+", re.ASCII)

Read = Callable[[str], np.ndarray]


def existing(path: Path) -> Path:
    """Return the path of an existing file that may hold a table."""
    if path.is_dir():
        raise InvalidValueError(
            f"file {path}", f"{path} is a folder: give the path of a file, or {{site: path}} for several"
        )
    if not path.is_file():
        raise MissingFileError(f"file {path}", f"there is no file {path}: give the path of a CSV or Parquet file")
    return path


def is_csv(path: Path) -> bool:
    """Return whether a file name indicates a text file."""
    return path.suffix.lower() not in (*_SHEETS, *_PARQUET)


def read_frame(path: Path) -> Any:
    """Return the frame in an Excel or Parquet file; of a workbook, the first sheet."""
    try:
        if path.suffix.lower() in _PARQUET:
            return importlib.import_module("pyarrow.parquet").ParquetFile(path).read()
        pandas: Any = importlib.import_module("pandas")  # takes half a second to import
        return pandas.read_excel(path, dtype=object, keep_default_na=False, na_values=[""])
    except ImportError as error:
        package = "pyarrow" if path.suffix.lower() in _PARQUET else "openpyxl"
        raise MissingPackageError(
            package, f"{path} needs a further package: pip install {package}, or save the table as CSV ({error})"
        ) from error
    except Exception as error:  # from any library that pandas uses
        raise FormatError(f"file {path}", f"{path} cannot be read: {error}") from error


def read_csv(path: Path) -> tuple[tuple[str, ...], int, Read]:
    """Return a file's column names, its number of rows, and a function that reads a column as numbers or text."""
    (header, *rows), separator = _cells(path)
    names = [str(name).strip() for name in header]
    if names[0] == "" and [row[0] for row in rows] in ([*map(str, range(k, k + len(rows)))] for k in (0, 1)):
        names, rows = names[1:], [row[1:] for row in rows]  # pandas and R write row numbers into an unnamed column
    _refuse_names(path, names, len(rows))
    columns = dict(zip(names, [[cell.strip() for cell in column] for column in zip(*rows, strict=True)], strict=True))

    @cache
    def decimal_commas() -> bool:
        return any(_WITH_DECIMAL_COMMA.fullmatch(cell) for column in columns.values() for cell in column if "," in cell)

    def read(name: str) -> np.ndarray:
        _refuse_ambiguous(path, name, columns[name], separator, decimal_commas)
        return _parsed(columns[name])

    return tuple(names), len(rows), read


def _cells(path: Path) -> tuple[list[list[str]], str]:
    import pandas  # takes half a second to import

    subject = f"file {path}"
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            separator = max(_SEPARATORS, key=file.readline().count)
            file.seek(0)
            how: Any = {"header": None, "dtype": object, "keep_default_na": False, "engine": "python"}
            rows: list[list[Any]] = pandas.read_csv(file, sep=separator, **how).to_numpy().tolist()
    except pandas.errors.EmptyDataError as error:
        raise EmptyError(
            subject, f"{path} is empty: it must have a line with the names of columns, and then rows"
        ) from error
    except pandas.errors.ParserError as error:
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
            subject,
            f"{path}: column {names.index('')} has no name, and does not just number the rows: name it, or write the "
            "file without it",
        )
    if double := next((name for name in names if names.count(name) > 1), None):
        raise DuplicateError(subject, f"{path}: {names.count(double)} columns have the name {double!r}{headless}")
    if numbers == len(names):
        raise FormatError(subject, f"{path}: all columns are named by numbers{headless}")


def _refuse_ambiguous(path: Path, name: str, cells: Sequence[str], separator: str, commas: Callable[[], bool]) -> None:
    known = [cell for cell in cells if cell not in MISSING]
    if separator in _DECIMAL_COMMAS_WITH:
        mark, word = ".", "point"
        why = "numbers without a point are all below a thousand, or others of the file have decimal commas"
        plain = all(_DECIMAL_COMMA.fullmatch(cell) for cell in known if mark not in cell)
        grouped = plain and all(_THOUSANDS_POINTS.fullmatch(cell) for cell in known if mark in cell)
        ambiguous = grouped and (_only_above(known) or commas())
    else:
        mark, word = ",", "comma"
        why = f"decimal commas are read where values are separated by semicolons or tabs, and not by {separator!r}"
        ambiguous = all(map(_WITH_COMMAS.fullmatch, known))
    if ambiguous and any(mark in cell for cell in known):
        row = next(k for k, cell in enumerate(cells) if mark in cell and cell not in MISSING)
        raise AmbiguousError(
            f"column {name!r}",
            f"{path}: row {row} has {cells[row]!r} in column {name!r}, whose {word} may separate thousands or "
            f"decimals: write numbers without separators of thousands and all decimals alike ({why})",
        )


def _only_above(known: Sequence[str]) -> bool:
    """Return whether points appear only from 1000 on: several numbers have one; the longest without has 3 digits."""
    pointed = {cell for cell in known if "." in cell}
    whole = {cell.lstrip("+-") for cell in known if cell.lstrip("+-").isdecimal()}
    return len(pointed) > 1 and max(map(len, whole), default=0) == 3


def _parsed(cells: Sequence[str]) -> np.ndarray:
    """Parse cells as numbers, also with decimal commas, if all known cells are such; keep text if any start with 0."""
    known = [cell for cell in cells if cell not in MISSING]
    if any("," in cell for cell in known) and all(map(_DECIMAL_COMMA.fullmatch, known)):
        return np.array([np.nan if cell in MISSING else float(cell.replace(",", ".")) for cell in cells])
    codes = any(cell[0] == "0" and cell.isdigit() and cell != "0" for cell in known)
    if codes or not all(map(is_number, known)):
        return from_words([None if cell in MISSING else cell for cell in cells])
    if len(known) < len(cells) or not all(cell.lstrip("+-").isdigit() for cell in known):
        return np.array([np.nan if cell in MISSING else float(cell) for cell in cells])
    if max(abs(int(cell)) if len(cell) <= 20 else LARGEST + 1 for cell in cells) > LARGEST:  # e.g. account numbers
        return objects(cells)
    return np.array([*map(int, cells)], np.int64)
