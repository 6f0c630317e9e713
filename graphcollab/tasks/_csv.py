"""CSV files, and what their cells are: numbers, or text."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from graphcollab.errors import AmbiguousError, DuplicateError, EmptyError, FormatError

__all__ = ["LARGEST", "MISSING", "TRUTHS", "is_number", "objects", "read_csv", "text", "truths", "without"]

LARGEST = 2**63 - 1
"""The largest whole number that a column of int64 can hold."""
TRUTHS = {word: word.lower() == "true" for one in ("true", "false") for word in (one, one.title(), one.upper())}
"""What words true and false are written by; a column of nothing else is as one of bool, wherever it comes from."""
MISSING = {"", "?", ".", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "None", "NULL", "null"}
"""Text that says that a value is missing, wherever it comes from."""
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[+-]?(\d+(,\d+)?|,\d+)", re.ASCII)
_WITH_DECIMAL_COMMA = re.compile(r"[+-]?[\d.]+,\d+", re.ASCII)
_WITH_THOUSANDS_POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+", re.ASCII)
_WITH_COMMAS = re.compile(r"[+-]?\d+(,\d+)*(\.\d*)?", re.ASCII)
_DIGITS = 1 + len(str(LARGEST))  # of a whole number in a column of int64, with its sign
_GROUP = 3  # digits of a group between separators of thousands
_SEPARATORS = ",;\t|"
_SAID = re.compile(rf'"?sep=([{_SEPARATORS}])"?\s*')  # the first line of some files of Excel
_DECIMAL_COMMAS_WITH = ";\t"
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")


def read_csv(path: Path) -> tuple[tuple[str, ...], int, Callable[[str], np.ndarray]]:
    """Return the names of a file's columns, how many rows it has, and what reads a column: numbers or text."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            if said := _SAID.fullmatch(first):
                separator = said[1]
            else:
                separator = max(_SEPARATORS, key=first.count)
                file.seek(0)
            reader = csv.reader(file, delimiter=separator)
            head, *rows = [row for row in reader if row] or [[]]
    except csv.Error as error:
        line = reader.line_num + (said is not None)
        raise FormatError(
            f"file {path}",
            f"{path}: line {line} cannot be read ({error}): see whether a quotation mark that opens there is closed",
        ) from error
    except UnicodeDecodeError as error:
        if path.suffix.lower() in _COMPRESSED:
            raise FormatError(
                f"file {path}", f"{path} is compressed: unpack it, or read it into a frame and give that"
            ) from error
        raise FormatError(
            f"file {path}", f"{path} is no text in UTF-8: save it as such, or read it into a frame and give that"
        ) from error
    names = [name.strip() for name in head]
    if "" in names and rows:
        raise FormatError(
            f"file {path}",
            f"{path}: column {names.index('')} has no name, as where pandas has written its index: name it, or write "
            "the file with index=False",
        )
    if not names:
        raise EmptyError(
            f"file {path}", f"{path} is empty: it must have a line with the names of columns, and then rows"
        )
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise DuplicateError(
            f"file {path}",
            f"{path}: {names.count(double)} columns have the name {double!r}: names of columns must differ"
            + _headless(names),
        )
    if not rows:
        raise EmptyError(
            f"file {path.name}",
            f"{path.name} has no rows, only a line with the names of columns, {', '.join(map(repr, names))}",
            public=True,
        )
    wrong = next((k for k, row in enumerate(rows) if len(row) != len(names)), None)
    if wrong is not None:
        raise FormatError(
            f"file {path}",
            f"{path}: row {wrong} has {len(rows[wrong])} values, and there are {len(names)} columns"
            + _commas(separator, len(rows[wrong]), len(names))
            + _headless(names, remark=len(names) == 1),
        )
    if all(map(is_number, names)):
        raise FormatError(f"file {path}", f"{path}: all columns are named by numbers{_headless(names)}")
    place = {name: k for k, name in enumerate(names)}

    def read(name: str) -> np.ndarray:
        cells = [row[place[name]].strip() for row in rows]
        if separator not in _DECIMAL_COMMAS_WITH:
            _refuse_commas(path, name, cells, separator)
        elif (odd := _thousands_point(cells)) is not None and ((only := _only_above(cells)) or decimal_commas()):
            reason = (
                "numbers without one are all below a thousand" if only else "others of the file have decimal commas"
            )
            raise AmbiguousError(
                f"column {name!r}",
                f"{path}: row {odd} has {cells[odd]!r} in column {name!r}, whose point may separate thousands or "
                f"decimals, as {reason}: write numbers without separators of "
                f"thousands and all decimals alike, or {without(name)}",
            )
        return _parsed(cells)

    @cache
    def decimal_commas() -> bool:
        return any("," in cell and _WITH_DECIMAL_COMMA.fullmatch(cell.strip()) for row in rows for cell in row)

    return tuple(names), len(rows), read


def _headless(names: Sequence[str], remark: bool = False) -> str:
    """Say what may be wrong with a first line of which most is numbers, or that is a ``remark``."""
    if not remark and 2 * sum(map(is_number, names)) <= len(names):
        return ""
    what = "a remark" if remark else "values"
    return f". The first line, which must name the columns, looks like {what}: is there one with names?"


def _commas(separator: str, values: int, columns: int) -> str:
    """Say what may be wrong with a row that has more values than there are columns, where commas separate them."""
    if separator != "," or values <= columns:
        return ""
    return (
        ": if a comma belongs to text, put this in quotes, and if numbers have decimal commas, separate by semicolons"
    )


def _refuse_commas(path: Path, name: str, cells: list[str], separator: str) -> None:
    """Refuse a column of numbers of which some have commas, where these may separate thousands."""
    known = [cell for cell in cells if cell not in MISSING]
    odd = next((k for k, cell in enumerate(cells) if "," in cell), None)
    if odd is not None and all(map(_WITH_COMMAS.fullmatch, known)):
        raise AmbiguousError(
            f"column {name!r}",
            f"{path}: row {odd} has {cells[odd]!r} in column {name!r}, whose comma may separate thousands or decimals: "
            "write numbers without commas for thousands and with a point for decimals (decimal commas are read where "
            f"values are separated by semicolons or tabs, and here they are by {separator!r}), or "
            f"{without(name)}",
        )


def _thousands_point(cells: list[str]) -> int | None:
    """Return the first row with a point where all points of a column of numbers may separate thousands."""
    known = [cell for cell in cells if cell not in MISSING]
    pointed = [cell for cell in known if "." in cell]
    if not all(map(_WITH_THOUSANDS_POINTS.fullmatch, pointed)):
        return None
    numbers = all(cell in pointed or _DECIMAL_COMMA.fullmatch(cell) for cell in known)
    return next((k for k, cell in enumerate(cells) if "." in cell), None) if numbers else None


def _only_above(cells: list[str]) -> bool:
    """Tell whether points of a column of numbers begin where thousands do: several differ, others have three digits."""
    pointed = {cell for cell in cells if "." in cell and cell not in MISSING}
    whole = {cell.lstrip("+-") for cell in cells if cell.lstrip("+-").isdecimal()}
    return len(pointed) > 1 and max(map(len, whole), default=0) == _GROUP


def _parsed(cells: list[str]) -> np.ndarray:
    """Return the cells of a CSV file as numbers where all are that are not missing; with leading zeros as text.

    Numbers may have decimal commas, where commas can mean nothing else.
    """
    known = [cell for cell in cells if cell not in MISSING]
    if any("," in cell for cell in known) and all(map(_DECIMAL_COMMA.fullmatch, known)):
        return np.array([np.nan if cell in MISSING else float(cell.replace(",", ".")) for cell in cells])
    if known and all(cell in TRUTHS for cell in known):
        return truths([TRUTHS.get(cell) for cell in cells])
    if all(map(is_number, known)) and not any(cell[0] == "0" and cell.isdigit() and cell != "0" for cell in known):
        if len(known) == len(cells) and all(cell.lstrip("+-").isdigit() for cell in known):
            numbers = list(map(int, cells)) if max(map(len, cells)) <= _DIGITS else []
            if not numbers or max(map(abs, numbers)) > LARGEST:  # such as numbers of accounts
                return text(cells)
            return np.array(numbers, np.int64)
        return np.array([np.nan if cell in MISSING else float(cell) for cell in cells])
    return text(None if cell in MISSING else cell for cell in cells)


def truths(values: Sequence[bool | None]) -> np.ndarray:
    """Return a column of true and false as bool, or, where some are missing, as float64 with NaN."""
    if None in values:
        return np.array([np.nan if one is None else one for one in values], np.float64)
    return np.array(values, bool)


def is_number(cell: str) -> bool:
    """Tell whether text is a number, also an infinite one; `float` reads some that nobody means, such as "1_0"."""
    return _NUMBER.fullmatch(cell) is not None


def text(values: Iterable[str | None]) -> np.ndarray:
    """Return a column of text."""
    return objects(values)


def objects(values: Iterable[Any]) -> np.ndarray:
    """Return an array of Python's objects, one per entry; NumPy would make text of numbers among text."""
    values = list(values)
    return np.fromiter(values, object, len(values))


def without(name: str) -> str:
    """Say how to leave out a column."""
    return f"leave it out by leave_out=[{name!r}]"
