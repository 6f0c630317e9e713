"""What commands print: the answer to standard output, and notes to standard error."""

from __future__ import annotations

import io
import os
import sys

from graphcollab._wording import printable


def tell(text: str, table: bool = False) -> None:
    """Print the answer, silently where the reader is gone (``| head``); CSV (``table``) as it is, but on a terminal."""
    try:
        print(text if table and not sys.stdout.isatty() else printable(text), flush=True)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def note(text: str, quiet: bool = False) -> None:
    """Print a note beside the answer, above a progress bar."""
    if not quiet:
        from tqdm import tqdm

        tqdm.write(printable(text), file=sys.stderr)


def write_in_any_encoding() -> None:
    """Let the standard streams write every text: what their encoding lacks as codes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
