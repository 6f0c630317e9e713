"""What commands print: the answer to standard output, and notes to standard error."""

from __future__ import annotations

import codecs
import io
import os
import sys

from graphcollab._wording import printable

SIGNS = {"−": "-", "–": "-", "…": "...", "→": "->", "←": "<-", "≤": "<=", "≥": ">=", "±": "+-", "·": "*", "†": "^"}
SIGNS |= {"²": "^2", "½": "1/2", "τ": "tau", "α": "alpha", "λ": "lambda", "Σ": "sum", "σ": "sigma", "µ": "u"}
"""What replaces signs where the encoding of the output lacks them."""


def tell(text: str, table: bool = False) -> None:
    """Print the answer; where the reader is gone, as behind ``| head``, go on silently.

    Args:
        text: The answer.
        table: Whether it is CSV, in which control characters stay unless a terminal shows it.
    """
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
    """Let the standard streams write every text: what their encoding lacks as other signs, or as codes."""
    codecs.register_error("graphcollab", _replacement)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="graphcollab")


def _replacement(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(SIGNS.get(sign) or sign.encode("unicode_escape").decode() for sign in lacking), error.end
