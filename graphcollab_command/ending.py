"""How a command ends: its exit code, and what is said of an error."""

from __future__ import annotations

import dis
import errno
import tempfile
import traceback
from pathlib import Path

__all__ = ["FAILED", "INTERRUPTED", "WRONG", "about", "keep_traceback", "on_purpose"]

FAILED, WRONG, INTERRUPTED = 1, 2, 130
OURS = ("graphcollab", "graphcollab_command")
INPUT = (ValueError, TypeError, LookupError, ImportError)
"""Errors by which the package says that what was given cannot be used."""
FILES = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)
TRACEBACK = "traceback.txt"
AGAIN = "and repeat the command"
MACHINE = {
    errno.ENOSPC: f"the disk is full: free space, or name another --out, {AGAIN}",
    errno.EDQUOT: f"the quota of the disk is used up: free space, or name another --out, {AGAIN}",
    errno.EFBIG: f"files may not be so large here: raise the limit, or name another --out, {AGAIN}",
    errno.EROFS: f"the disk can only be read: name another --out, {AGAIN}",
    errno.EIO: f"the disk has failed: name another --out, {AGAIN}",
    errno.ESTALE: f"the disk was mounted anew: open the folder again, {AGAIN}",
    errno.EMFILE: f"too many files are open: allow more by ulimit -n, {AGAIN}",
    errno.ENFILE: f"too many files are open on this machine: end other programs, {AGAIN}",
    errno.ENOMEM: f"memory is used up: end other programs, {AGAIN}",
}
"""What is wrong with a machine, and no error of the package, by the operating system's number of it."""


def on_purpose(error: BaseException) -> bool:
    """Tell whether the package raised an error itself, which says what was expected, or ran into it.

    It is read off the instruction at which the traceback ends: that of a ``raise`` in the package, or another one.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    owner = str(last.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
    instruction = dis.opname[last.tb_frame.f_code.co_code[last.tb_lasti]]
    return owner in OURS and instruction in ("RAISE_VARARGS", "RERAISE")


def about(error: Exception) -> tuple[int, str]:
    """Return the exit code of an error, and one sentence about it."""
    said = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    text = " ".join(said.split()) or type(error).__name__
    if isinstance(error, OSError) and error.errno in MACHINE:
        place = "" if error.filename is None else f"{error.filename}: "
        return FAILED, f"{place}{MACHINE[error.errno]}"
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
        return (WRONG if isinstance(error, FILES) else FAILED), text
    if on_purpose(error):
        return (WRONG if isinstance(error, (*INPUT, *FILES)) else FAILED), text
    if "can't allocate memory" in text or type(error).__name__ == "OutOfMemoryError":  # PyTorch's, on CPU and GPU
        return FAILED, MACHINE[errno.ENOMEM]
    if isinstance(error, ArithmeticError | MemoryError):  # of data and machines
        return FAILED, text
    return FAILED, f"this is an error of graphcollab, not of yours, please report it ({type(error).__name__}: {text})"


def keep_traceback(error: BaseException, folder: Path | None = None) -> Path:
    """Write where an error comes from into a file, in the folder of the run or that for temporary files; once."""
    kept = getattr(error, "kept", None)
    if isinstance(kept, Path):
        return kept
    place = Path(tempfile.mkdtemp(prefix="graphcollab-")) if folder is None else folder
    place = place / TRACEBACK
    place.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    error.kept = place  # type: ignore[attr-defined]
    return place
