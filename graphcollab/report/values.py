"""`Table` and its cells: what a table of a report holds, as values; each medium renders it, and none parses text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from torch import Tensor

from graphcollab.findings import Finding

Form: TypeAlias = Literal["text", "number", "signed", "gain", "bytes", "count", "p-value"]


@dataclass(frozen=True)
class Cell:
    """A value of a table: a number or words; None and NaN are shown as missing.

    ``unit`` follows the number, ``subject`` stands in front of it, ``note`` in brackets; ``spread`` is a standard
    deviation over seeds or runs, ``star`` evidence, ``mark`` a sign that a note below the table explains, and
    ``digits`` are decimals other than the column's.
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
        """The number by which the cell sorts, if any."""
        value = self.interval[0] if self.value is None and self.interval else self.value
        return None if isinstance(value, str) or value is None or math.isnan(value) else value


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        title: Its heading, with the unit.
        form: How its numbers are written.
        digits: Decimals of ``"number"``, ``"signed"`` and ``"gain"``; None: four significant digits.
    """

    title: str
    form: Form = "text"
    digits: int | None = None


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        columns: Its columns; the first names the rows.
        rows: Cells; those that a row lacks at its end are missing.
        notes: Findings below it.
        foot: How many rows at the end are means, which stay below the others.
        caption: What it shows.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[Finding] = ()
    foot: int = 0
    caption: str = ""

    def noting(self, *notes: Finding) -> Table:
        """Return the table with further notes."""
        return replace(self, notes=[*self.notes, *notes])


def mean_cell(values: Tensor) -> Cell:
    """Return the mean of values [S] and, of several, their standard deviation."""
    several = len(values) > 1 and not bool(values.isnan().any())
    return Cell(float(values.mean()), spread=float(values.std()) if several else None)
