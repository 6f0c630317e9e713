"""CSV files, and what their cells are: numbers, or text."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["LARGEST", "is_number", "objects", "read_csv", "text"]

LARGEST = 2**63 - 1
"""The largest whole number that a column of int64 can hold."""
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?")
_MISSING = {"", "?", "NA", "N/A", "NaN", "nan", "None", "NULL", "null", "<NA>"}
_SEPARATORS = ",;\t|"


def read_csv(path: Path) -> tuple[tuple[str, ...], int, Callable[[str], np.ndarray]]:
    """Return the names of a file's columns, how many rows it has, and what reads a column: numbers or text."""
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
    return tuple(names), len(rows), lambda name: _parsed([row[place[name]].strip() for row in rows])


def _parsed(cells: list[str]) -> np.ndarray:
    """Return the cells of a CSV file as numbers where all are that are not missing; with leading zeros as text.

    Numbers may have decimal commas, as in files whose values are separated by semicolons.
    """
    known = [cell for cell in cells if cell not in _MISSING]
    if any("," in cell for cell in known) and all(map(_DECIMAL_COMMA.fullmatch, known)):
        return np.array([np.nan if cell in _MISSING else float(cell.replace(",", ".")) for cell in cells])
    if all(map(is_number, known)) and not any(cell[0] == "0" and cell.isdigit() and cell != "0" for cell in known):
        if len(known) == len(cells) and all(cell.lstrip("+-").isdigit() for cell in known):
            numbers = list(map(int, cells))
            if max(map(abs, numbers)) > LARGEST:  # such as numbers of accounts
                return text(cells)
            return np.array(numbers, np.int64)
        return np.array([np.nan if cell in _MISSING else float(cell) for cell in cells])
    return text(None if cell in _MISSING else cell for cell in cells)


def is_number(cell: str) -> bool:
    """Tell whether text is a number, also an infinite one."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def text(values: Iterable[str | None]) -> np.ndarray:
    """Return a column of text."""
    return objects(values)


def objects(values: Iterable[Any]) -> np.ndarray:
    """Return an array of Python's objects, one per entry; NumPy would make text of numbers among text."""
    values = list(values)
    return np.fromiter(values, object, len(values))
