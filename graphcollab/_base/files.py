"""Atomic file writes: a file is written completely or not at all."""

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

PART = ".part"  # suffix of files being written
_WRITES = True
_FORMULA = re.compile(r"(?![+-]?[\d.]+(e[+-]?\d+)?$)(?![=+@-]+$)'*[=+@\t\r\n\uff1d\uff0b\uff0d\uff20-]", re.IGNORECASE)
"""Cell text, other than numbers, that spreadsheets evaluate; text with leading apostrophes gets one more."""


@contextmanager
def unwritten() -> Iterator[None]:
    """Make `write_whole` write nothing, because another process writes the same files."""
    global _WRITES
    before, _WRITES = _WRITES, False
    try:
        yield
    finally:
        _WRITES = before


def write_whole(path: str | Path, content: bytes) -> Path:
    """Write a file under a unique temporary name, flush it to disk, and rename it into place.

    A symbolic link at the path is replaced, not followed. The umask determines the file's permissions.
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
    """Write a table as CSV, completely or not at all; a FormatError refuses file names of workbooks."""
    if Path(path).suffix.lower() in (".xlsx", ".xls", ".ods"):
        raise FormatError(
            f"file {path}", f"expected the name of a CSV file, got {Path(path).name!r}: give a name that ends in .csv"
        )
    return write_whole(path, csv_text(header, rows).encode())


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV text; an apostrophe precedes text that spreadsheets would evaluate."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(as_cell, header))
    writer.writerows(map(as_cell, row) for row in rows)
    return text.getvalue()


def as_cell(value: object) -> object:
    """Return the content of a cell; an apostrophe precedes text that spreadsheets would take for a formula."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def of_cell(text: str) -> str:
    """Return the text of a cell written by `as_cell`."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text[1:]) else text


def own_name(path: Path) -> Path:
    """Return a unique hidden name beside a path: ``.<name>.<16 random digits>.part``."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}{PART}")


def write_new(path: Path, content: bytes) -> None:
    """Write a new file and flush it to disk; a FileExistsError if the path exists, even as a dangling link."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Flush a folder's directory entries to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
