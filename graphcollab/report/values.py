"""`Table` and its cells: the values of a report's tables, and their text form; no output format parses text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from graphcollab._base.documentation import checked_with
from graphcollab._base.findings import Finding
from graphcollab._base.ranges import printable
from graphcollab.analysis.metrics.edges import SHARED

Form: TypeAlias = Literal["text", "number", "signed", "gain", "bytes", "count", "p-value"]
MISSING = "–"
MOST_PERCENT = 1000.0  # larger percentages are reported only as exceeding this
MOST_DECIMALS, LEAST_P = 12, 0.001

shown = checked_with(
    SHARED
    | {
        "title": "Title of the whole figure.",
        "names": "Names of the nodes, such as ``tasks.names``, for the axes. Default: their numbers.",
        "comparison": "What `compare` returns.",
        "benefit": "What `graphcollab.benefit` found.",
        "method": "Name of the method. Default: the one with the best validation metric.",
        "reference": "Name of the method that the others are compared with.",
    }
)
"""Decorator of table and figure functions: it checks their arguments and documents the common ones."""


@dataclass(frozen=True)
class Cell:
    """A value of a table: a number or words; None and NaN are shown as missing.

    ``unit`` follows the number, ``subject`` precedes it, and ``note`` follows in brackets; ``spread`` is a standard
    deviation over seeds or runs, ``star`` marks evidence, ``mark`` is a symbol that a note below the table explains,
    and ``digits`` overrides the column's decimals.
    """

    value: float | str | None = None
    unit: str = ""
    spread: float | None = None
    interval: tuple[float, float] | None = None
    star: bool = False
    mark: str = ""
    subject: str = ""
    note: str = ""
    digits: int | None = None

    @property
    def order(self) -> float | None:
        """The sort key of the cell, if any."""
        value = self.interval[0] if self.value is None and self.interval else self.value
        return None if isinstance(value, str) or value is None or math.isnan(value) else value


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        title: Heading, with the unit.
        form: Format of its numbers.
        digits: Decimals of ``"number"``, ``"signed"`` and ``"gain"``; None: four significant digits.
    """

    title: str
    form: Form = "text"
    digits: int | None = None


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        columns: The columns; the first names the rows.
        rows: Cells; cells absent at the end of a row are missing.
        notes: Findings below the table.
        foot: Number of rows of means at the end, which stay below the others when sorting.
        caption: Description of the contents.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[Finding] = ()
    foot: int = 0
    caption: str = ""

    def noting(self, *notes: Finding) -> Table:
        """Return the table with additional notes."""
        return replace(self, notes=[*self.notes, *notes])

    def records(self) -> list[dict[str, Any]]:
        """Return the rows by column title, for JSON; intervals as [low, high]."""
        found = []
        for row in self.rows:
            cells = {column.title: cell for column, cell in zip(self.columns, row, strict=False)}
            ends = {f"{name}, 95 %": list(cell.interval) for name, cell in cells.items() if cell.interval}
            found.append({name: cell.value for name, cell in cells.items()} | ends)
        return found

    def __str__(self) -> str:
        rows = [[*map(cell_text, row, self.columns)] for row in self.rows]
        text = text_table([column.title for column in self.columns], rows)
        return "\n".join([text, *[""] * bool(self.notes), *(printable(str(note)) for note in self.notes)])


def mean_cell(values: Sequence[float] | Tensor) -> Cell:
    """Return the mean of values [S] with their standard deviation, if there are several."""
    values = torch.as_tensor(values, dtype=torch.float64)
    several = len(values) > 1 and not bool(values.isnan().any())
    return Cell(float(values.mean()), spread=float(values.std()) if several else None)


def cell_text(cell: Cell, column: Column) -> str:
    """Format a cell, such as ``"Genf +3.0 (+1.0 … +5.0)*"``."""
    digits = column.digits if cell.digits is None else cell.digits

    def written(value: float | str | None) -> str:
        if isinstance(value, str):
            return value
        return MISSING if value is None or math.isnan(value) else FORMS[column.form](value, digits)

    ends = " … ".join(map(written, cell.interval or ()))
    if cell.value is None and ends:
        return ends
    text = written(cell.value)
    if text != MISSING:
        text += f" ± {written(cell.spread)}" * (cell.spread is not None) + f" ({ends})" * bool(ends)
    note = f" ({cell.note})" if cell.note else ""
    return " ".join(filter(None, [cell.subject, text, cell.unit])) + "*" * cell.star + cell.mark + note


def number(value: float, digits: int | None, signed: bool = False) -> str:
    """Format a number with a fixed number of decimals, or with four significant digits if ``digits`` is None.

    Thousands are separated by commas, and there is never an exponent.

    Example:
        >>> number(12345.678, 1), number(12345.678, None), number(0.0001234567, None)
        ('12,345.7', '12,346', '0.0001235')
    """
    if math.isnan(value):
        return MISSING
    places = digits
    if places is None:
        places = 3 - math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0
    text = f"{value:{'+' if signed else ''},.{min(max(places, 0), MOST_DECIMALS)}f}"
    return (text.rstrip("0").rstrip(".") if digits is None and "." in text else text).replace("-", "−")


def decimals(values: Sequence[float]) -> int:
    """Return the number of decimals at which most of the values have at least three significant digits."""
    known = sorted(abs(value) for value in values if math.isfinite(value) and value)
    return min(max(2 - math.floor(math.log10(known[len(known) // 2])), 0), MOST_DECIMALS) if known else 0


def p_text(p_value: float) -> str:
    """Format a p-value for use in a sentence."""
    return "p < 0.001" if p_value < LEAST_P else f"p = {p_value:.2g}"


def gain_text(value: float, digits: int | None) -> str:
    """Format a gain, in percent if ``digits`` is given."""
    return number(value, digits, signed=True) if digits is None else bounded(value, digits, signed=True)


def bounded(value: float, digits: int | None, signed: bool = False) -> str:
    """Format a percentage; above the maximum, only state that it is exceeded."""
    if abs(value) <= MOST_PERCENT or math.isnan(value):
        return number(value, digits, signed)
    return f"{'<' if value < 0 else '>'}{number(math.copysign(MOST_PERCENT, value), 0, signed)}"


def byte_size(count: float) -> str:
    """Format a number of bytes with a decimal unit."""
    if math.isnan(count):
        return MISSING
    units = ("B", "kB", "MB", "GB", "TB", "PB")
    power = 0
    while round(count, 1 if power else 0) >= 1000 and power < len(units) - 1:
        count, power = count / 1000, power + 1
    return f"{count:.{1 if power else 0}f} {units[power]}"


FORMS: Mapping[Form, Callable[[float, int | None], str]] = {
    "text": lambda value, _: f"{value}",
    "number": number,
    "signed": lambda value, digits: number(value, digits, signed=True),
    "gain": gain_text,
    "bytes": lambda value, _: byte_size(value),
    "count": lambda value, _: f"{value:,.{0 if float(value).is_integer() else 1}f}",
    "p-value": lambda value, _: p_text(value).removeprefix("p ").removeprefix("= ").replace("< ", "<"),
}


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align a table: the first column left, all others right; cells absent at the end of a row are missing."""
    rows = [[*map(in_cell, row), *[MISSING] * (len(header) - len(row))] for row in rows]
    header = [*map(in_cell, header)]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [header, ["-" * width for width in widths], *rows]
    padded = (
        [c.rjust(w) if n else c.ljust(w) for n, (c, w) in enumerate(zip(line, widths, strict=True))] for line in lines
    )
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def in_cell(text: str) -> str:
    """Format a text as a single line for a table cell."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def shown_in(share: bool, decimals: int) -> tuple[float, int | None, str]:
    """Return the scale factor, the number of decimals and the unit of a metric: shares are shown in percent."""
    return (100.0, decimals, " (%)") if share else (1.0, None, "")
