"""Plain text: how numbers, cells and tables are written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from graphcollab._ranges import printable
from graphcollab.documentation import checked_with
from graphcollab.findings import Finding
from graphcollab.metrics.edges import SHARED
from graphcollab.metrics.weight_spread import AGREE
from graphcollab.naming import few
from graphcollab.report.values import Cell, Column, Form, Table
from graphcollab.tasks import Tasks
from graphcollab.train import Comparison

MISSING = "–"
FEW = 5  # test samples, below which it is said that what a node has rests on few
THOUSAND = 1000.0  # from which on gains have no decimals
MOST_DECIMALS, LEAST_P = 12, 0.001

shown = checked_with(
    SHARED
    | {
        "title": "Title of the whole figure.",
        "names": "Names of the nodes, such as ``tasks.names``, for the axes. Default: their numbers.",
        "comparison": "What `compare` returns.",
        "method": "Name of the method. Default: the one with the best validation metric.",
        "reference": "Name of the method that the others are compared with.",
    }
)
"""Makes a function one of a table or figure: its arguments are checked, and those that many have are documented."""


class ShownTable(Table):
    """A table that prints as text."""

    def __str__(self) -> str:
        return table_text(self)


def table_text(table: Table) -> str:
    """Write a table, and its notes below it."""
    rows = [[*map(cell_text, row, table.columns)] for row in table.rows]
    text = text_table([column.title for column in table.columns], rows)
    return "\n".join([text, *[""] * bool(table.notes), *(printable(str(note)) for note in table.notes)])


def cell_text(cell: Cell, column: Column) -> str:
    """Write a cell, such as ``"Genf +3.0 (+1.0 … +5.0)*"``."""
    column = column if cell.digits is None else replace(column, digits=cell.digits)
    if cell.value is None and cell.interval is not None:
        return _interval(cell.interval, column)
    text = value_text(cell.value, column)
    if text != MISSING:
        text += f" ± {value_text(cell.spread, column)}" if cell.spread is not None else ""
        text += f" ({_interval(cell.interval, column)})" if cell.interval is not None else ""
    note = f" ({cell.note})" if cell.note else ""
    return " ".join(filter(None, [cell.subject, text, cell.unit])) + "*" * cell.star + cell.mark + note


def _interval(ends: tuple[float, float], column: Column) -> str:
    return " … ".join(value_text(end, column) for end in ends)


def value_text(value: float | str | None, column: Column) -> str:
    """Write a value as its column does."""
    if isinstance(value, str):
        return value
    return MISSING if value is None or math.isnan(value) else FORMS[column.form](value, column.digits)


def number(value: float, digits: int | None, signed: bool = False) -> str:
    """Write a number with a fixed count of decimals, or with four significant digits where ``digits`` is None.

    There are commas between thousands, and never an exponent.

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
    """Return with how many decimals most of some values have three significant digits or more."""
    known = sorted(abs(value) for value in values if math.isfinite(value) and value)
    return min(max(2 - math.floor(math.log10(known[len(known) // 2])), 0), MOST_DECIMALS) if known else 0


def p_text(p_value: float) -> str:
    """Write a p-value as in a sentence."""
    return "p < 0.001" if p_value < LEAST_P else f"p = {p_value:.2g}"


def gain_text(value: float, digits: int | None) -> str:
    """Write a gain; of thousands no decimals."""
    return number(value, 0 if digits is not None and abs(value) >= THOUSAND else digits, signed=True)


def byte_size(count: float) -> str:
    """Write a number of bytes with a decimal unit."""
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
    """Align a table: the first column left, all others right; what a row lacks at its end is shown as missing."""
    rows = [[*map(in_cell, row), *[MISSING] * (len(header) - len(row))] for row in rows]
    header = [*map(in_cell, header)]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [header, ["-" * width for width in widths], *rows]
    padded = (
        [c.rjust(w) if n else c.ljust(w) for n, (c, w) in enumerate(zip(line, widths, strict=True))] for line in lines
    )
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def in_cell(text: str) -> str:
    """Return a text as a cell of a table shows it, in one line."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def shown_in(share: bool, decimals: int) -> tuple[float, int | None, str]:
    """Return by what a metric is multiplied, how many decimals it has, and its unit: shares are shown in percent."""
    return (100.0, decimals, " (%)") if share else (1.0, None, "")


def agreement(name: str, r: float, of: str) -> Finding:
    """Say whether weights that were learned several times agree, by their mean correlation."""
    which = "agree" if r >= AGREE else "differ: do not read them as who helps whom"
    said = f"On different {of} the weights that {name} learned {which} (mean correlation {number(r, 2)})."
    return Finding("weights-alike", name, said, {"r": r})


def noted(code: str, subject: str, message: str, **numbers: Any) -> list[Finding]:
    """Return a finding, none without a message."""
    return [Finding(code, subject, message, numbers)] if message else []


def weighted(tasks: Tasks) -> list[Finding]:
    """Say that metrics are weighted means where samples have weights."""
    some = any(pool.weight is not None for pool in tasks.pools.values())
    return noted("weighted", "samples", "samples have weights: metrics are weighted means at each site" * some)


def spread_note(comparison: Comparison) -> list[Finding]:
    """Say what a ± is of, where there is one."""
    seeds = max(map(len, comparison.chosen.values()), default=0)
    return noted("spread", "±", f"± is the standard deviation over {seeds} seeds" * (seeds > 1), seeds=seeds)


def few_tested(comparison: Comparison) -> list[Finding]:
    """Say which sites count in means with next to no test samples."""
    few_of = comparison.tested_on_fewer_than(FEW)
    if not few_of:
        return []
    many = len({name for trials in comparison.chosen.values() for trial in trials for name in trial.tested})
    which = f"{len(few_of)} of {many} sites ({few(few_of)})"
    have = f"{'has' if len(few_of) == 1 else 'have'} fewer than {FEW} test samples on some seed"
    said = f"{which} {have}, and as much weight in means as any other"
    return noted("few-tested", "nodes", said, few=[*few_of], nodes=many)


def with_few(held: Iterable[tuple[str, float]], what: str = "class") -> str:
    """Say which sites have fewer than `FEW` of something beside most, those with none first; "" where none has."""
    held = list(held)
    none = [name for name, many in held if many == 0]
    some = [f"{name}: {round(many, 1):g}" for name, many in held if 0 < many < FEW]
    return "; ".join([f"one {what} only: {few(none)}"] * bool(none) + [few(some)] * bool(some))


def failures(comparison: Comparison, name: str) -> str:
    """Write on how many seeds a method failed; nothing where it did not."""
    failed, many = len(comparison.failed(name)), len(comparison.chosen[name])
    if not failed:
        return ""
    return "failed" if failed == many else f"failed on {failed} of {many} seeds"


def column(values: Sequence[Any]) -> Tensor:
    """Return a column of numbers, or of several to a row, in double precision."""
    return torch.tensor(values, dtype=torch.float64)
