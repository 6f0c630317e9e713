"""Tables of a page, made of the cells of the tables that are text, so that their numbers are the same."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphcollab.report._text import Cells
from graphcollab.report.page.content import Cell, Table

__all__ = ["sorts_by", "table_of"]

MOST_CELLS = 40_000  # of a table in a page of at most 5 MB
FEWEST_ROWS = 50
LONG = 24  # characters of a cell, from which on it is words
_CALLED = {"paired_table": "the table of differences", "site_table": "the table of nodes"}
_NUMBER = re.compile(r"([+−-]?[\d,]+(?:\.\d+)?(?:e[+−-]?\d+)?)( [kMGTP]?B)?(?=$|[ *†])")
_UNITS = {" B": 1.0, " kB": 1e3, " MB": 1e6, " GB": 1e9, " TB": 1e12, " PB": 1e15}


def sorts_by(text: str) -> float | None:
    """Return the number that a cell begins with; None where it begins with something else.

    Example:
        >>> [sorts_by(text) for text in ("−3.5 (−7.0 … 0.0)", "1.2 MB", "–", "Bern")]
        [-3.5, 1200000.0, None, None]
    """
    found = _NUMBER.match(text)
    if found is None:
        return None
    return float(found[1].replace("−", "-").replace(",", "")) * _UNITS.get(found[2] or "", 1.0)


def table_of(
    caption: str, cells: Cells, foot: int = 0, searched: bool = False, notes: Sequence[str] = (), parts: int = 1
) -> Table:
    """Return a table of a page.

    Args:
        caption: What it shows.
        cells: What it says.
        foot: How many rows at the end are means.
        searched: Whether it sorts and can be searched.
        notes: What is to be said below it, beside the notes of the cells.
        parts: In how many tables its columns are, which share the room for cells.
    """
    rows = [[Cell(row[0]), *(Cell(text, sorts_by(text)) for text in row[1:])] for row in cells.rows]
    rows = [[*row, *[Cell("–")] * (len(cells.header) - len(row))] for row in rows]
    body, end = rows[: len(rows) - foot], rows[len(rows) - foot :]
    most = max(FEWEST_ROWS, MOST_CELLS // (parts * len(cells.header)))
    left = f"Of {len(body)} rows the first {most} are here; the table that Python prints has all." * (len(body) > most)
    said = [_in_page(note) for note in (*cells.notes, *notes, left) if note]
    words = [n for n in range(1, len(cells.header)) if any(_is_long(row[n]) for row in body)]
    return Table(caption, list(cells.header), body[:most], end, said, searched, words)


def _is_long(cell: Cell) -> bool:
    return cell.order is None and len(cell.text) > LONG


def _in_page(note: str) -> str:
    """Call tables by what they are called in a page, for who does not read Python."""
    for name, called in _CALLED.items():
        note = note.replace(name, called)
    return note
