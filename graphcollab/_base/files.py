"""Files that are there whole or not at all."""

from __future__ import annotations

import csv
import io
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from graphcollab._base.errors import FormatError, PathError

__all__ = [
    "as_cell",
    "csv_text",
    "flush_folder",
    "of_cell",
    "own_name",
    "unwritten",
    "write_csv",
    "write_new",
    "write_whole",
]

PART = ".part"  # how names of what is being written end
_WRITES = True
_FORMULA = re.compile(r"(?![+-]?[\d.]+(e[+-]?\d+)?$)(?![=+@-]+$)'*[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-]", re.IGNORECASE)
"""Text of cells that spreadsheets compute, and no number; one apostrophe more tells those that have one already."""


@contextmanager
def unwritten() -> Iterator[None]:
    """Let `write_whole` write nothing, where another process writes the same."""
    global _WRITES
    before, _WRITES = _WRITES, False
    try:
        yield
    finally:
        _WRITES = before


def write_whole(path: str | Path, content: bytes) -> Path:
    """Write a file under a temporary name of its own, flush it to disk, then rename it into place.

    A symbolic link that stands at the path is replaced, not followed. Who may read the file is for the umask to say.
    """
    path = Path(path)
    if not _WRITES:
        return path
    if path.is_dir() and not path.is_symlink():
        raise PathError(
            f"file {path}", f"{path} is a folder: give the path of a file, such as one in it, {path / 'NAME'}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    part = own_name(path)
    try:
        write_new(part, content)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)
    return path


def write_csv(path: str | Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """Write a table as text with commas, whole or not at all; a FormatError refuses the name of a workbook."""
    if Path(path).suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise FormatError(
            f"file {path}",
            f"a file of text with commas is written, and {Path(path).name!r} is the name of a workbook: give a name "
            "that ends in .csv, which spreadsheets open, too",
        )
    return write_whole(path, csv_text(header, rows).encode())


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as text with commas; text that spreadsheets would compute has an apostrophe before it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(as_cell, header))
    writer.writerows(map(as_cell, row) for row in rows)
    return text.getvalue()


def as_cell(value: object) -> object:
    """Return what a cell holds; before text that a spreadsheet would take for a formula comes an apostrophe."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def of_cell(text: str) -> str:
    """Return the text that `as_cell` has made a cell of."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text[1:]) else text


def own_name(path: Path) -> Path:
    """Return a hidden name beside a path that nobody else writes under: ``.<name>.<16 random digits>.part``."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}{PART}")


def write_new(path: Path, content: bytes) -> None:
    """Write a file, and flush it to disk; a FileExistsError if something is there, be it a link that leads nowhere."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Flush a folder's list of names to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
