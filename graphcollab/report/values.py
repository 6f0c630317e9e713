"""`Table` and its cells: the values of a report's tables, and their text form; no output format parses text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from graphcollab._base.documentation import checked_with
from graphcollab._base.findings import Finding
from graphcollab._base.ranges import printable
from graphcollab.analysis.metrics.edges import SHARED

MISSING = "–"
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
    """A cell of a table: its ``text``, and the number that it shows, if it does: its ``value``, for sorting and JSON.

    ``interval`` has the ends of an interval, ``spread`` is a standard deviation over seeds or runs, and ``star`` marks
    evidence; they are part of the text.
    """

    text: str = MISSING
    value: float | None = None
    interval: tuple[float, float] | None = None
    spread: float | None = None
    star: bool = False

    @property
    def order(self) -> float | None:
        """The sort key of the cell, if any."""
        value = self.interval[0] if self.value is None and self.interval else self.value
        return None if value is None or math.isnan(value) else value


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        columns: Titles of the columns, with units; the first column names the rows.
        rows: Cells; cells absent at the end of a row are missing.
        notes: Findings below the table.
        foot: Number of rows of means at the end, which stay below the others when sorting.
        caption: Description of the contents.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[Finding] = ()
    foot: int = 0
    caption: str = ""

    def noting(self, *notes: Finding) -> Table:
        """Return the table with additional notes."""
        return replace(self, notes=[*self.notes, *notes])

    @property
    def words(self) -> list[bool]:
        """Whether each column is without numbers."""
        return [all(row[k].order is None for row in self.rows if k < len(row)) for k in range(len(self.columns))]

    def records(self) -> list[dict[str, Any]]:
        """Return the rows by column title, for JSON; intervals as [low, high]."""
        found = []
        for row in self.rows:
            cells = dict(zip(self.columns, row, strict=False))
            ends = {f"{name}, 95 %": list(cell.interval) for name, cell in cells.items() if cell.interval}
            values = {name: cell.text if cell.value is None else cell.value for name, cell in cells.items()}
            found.append({name: None if value == MISSING else value for name, value in values.items()} | ends)
        return found

    def __str__(self) -> str:
        text = text_table(self.columns, [[cell.text for cell in row] for row in self.rows])
        return "\n".join([text, *[""] * bool(self.notes), *(printable(str(note)) for note in self.notes)])


def without_repeats(tables: Sequence[Table], told: Sequence[Finding] = ()) -> list[Table]:
    """Return tables without the notes that were told before, or below an earlier table."""
    found, told = [], [*told]
    for table in tables:
        new = [note for note in table.notes if note not in told]
        told += new
        found.append(replace(table, notes=new))
    return found


def number_cell(
    value: float,
    digits: int | None = None,
    interval: tuple[float, float] | None = None,
    spread: float | None = None,
    signed: bool = False,
    star: bool = False,
) -> Cell:
    """Return a number as a cell, such as ``"+3.0 (+1.0 … +5.0)*"`` or ``"3.0 ± 0.1"``; see `number` for ``digits``."""
    text = number(value, digits, signed)
    if spread is not None:
        text += f" ± {number(spread, digits)}"
    if interval is not None and text != MISSING:
        text += f" ({' … '.join(number(end, digits, signed) for end in interval)})"
    return Cell(text + "*" * star, value, interval, spread, star)


def count_cell(count: float, unit: str = "") -> Cell:
    """Return a count as a cell, with a decimal if it is a mean."""
    text = MISSING if math.isnan(count) else f"{count:,.{0 if float(count).is_integer() else 1}f}"
    return Cell(f"{text} {unit}".rstrip(), count)


def mean_cell(values: Sequence[float] | Tensor, digits: int | None = None) -> Cell:
    """Return the mean of values [S] with their standard deviation, if there are several."""
    values = torch.as_tensor(values, dtype=torch.float64)
    several = len(values) > 1 and not bool(values.isnan().any())
    return number_cell(float(values.mean()), digits, spread=float(values.std()) if several else None)


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


def byte_size(count: float) -> str:
    """Format a number of bytes with a decimal unit."""
    if math.isnan(count):
        return MISSING
    units = ("B", "kB", "MB", "GB", "TB", "PB")
    power = 0
    while round(count, 1 if power else 0) >= 1000 and power < len(units) - 1:
        count, power = count / 1000, power + 1
    return f"{count:.{1 if power else 0}f} {units[power]}"


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
