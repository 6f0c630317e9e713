"""Output in encodings that lack some of the characters in answers, such as ASCII and Latin-1."""

from __future__ import annotations

import codecs
import io
import sys

__all__ = ["write_in_any_encoding"]

PLAIN = {"−": "-", "–": "-", "…": "...", "→": "->", "←": "<-", "≤": "<=", "≥": ">=", "±": "+-", "·": "*", "†": "^"}
PLAIN |= {"²": "^2", "½": "1/2", "τ": "tau", "α": "alpha", "λ": "lambda", "Σ": "sum", "σ": "sigma", "µ": "u"}


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return what is written for characters that an encoding lacks: signs that say the same, or codes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(one) or one.encode("unicode_escape").decode() for one in lacking), error.end


def write_in_any_encoding() -> None:
    """Let the standard streams write every text, whatever their encoding is: a minus stays one, names become codes."""
    codecs.register_error("graphcollab", _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="graphcollab")
