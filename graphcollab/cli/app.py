"""The program: settings files, warnings and errors in one line, exit codes."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NoReturn

from cyclopts import App, CycloptsError, Parameter
from cyclopts.config import Toml

from graphcollab._base.errors import (
    DivergedError,
    GraphcollabError,
    InUseError,
    LostError,
    MissingError,
    ResourceError,
    StateError,
)
from graphcollab._base.naming import AS_OPTIONS
from graphcollab._base.ranges import printable
from graphcollab._base.version import __version__
from graphcollab.cli.commands import COMMANDS
from graphcollab.cli.folder import note, write_in_any_encoding
from graphcollab.cli.values import flat

FAILED, WRONG, INTERRUPTED = 1, 2, 130
RUNTIME = (DivergedError, InUseError, LostError, ResourceError, StateError)  # errors of a run, not of its input
FILES = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)
OF_LIBRARIES = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning, FutureWarning)


def _shown(default: Any) -> str | None:
    text = " ".join(map(str, default)) if isinstance(default, tuple) else str(default)
    return text if text not in ("", "None", "False") else None


APP = App(
    name="graphcollab",
    help="Collaborative learning of personalized models: which sites should learn from which, and what do they gain?",
    version=__version__,
    help_format="plaintext",
    help_epilogue="Example: graphcollab compare heart_disease --methods local fedavg\n\n"
    "`--debug`, anywhere, shows the traceback of an error.",
    default_parameter=Parameter(consume_multiple=True, negative_iterable=(), show_default=_shown),
    result_action="return_value",
)
for position, command in enumerate(COMMANDS):
    APP.command(command, sort_key=position)
APP.register_install_completion_command()


def call(words: Sequence[str]) -> None:
    """Run a command, by the words behind the name of the program; errors are raised as they are."""
    APP.config = _config(words)
    command, bound, _ = APP.parse_args(words, exit_on_error=False, print_error=False)
    with _warnings_as_lines(flat(bound.arguments).get("quiet", False)):
        command(*bound.args, **bound.kwargs)


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run a command, and exit: 0 done, 1 failed, 2 wrong usage or input, 130 interrupted; errors take one line.

    It is given as to `call`. Default: that of this process.
    """
    write_in_any_encoding()
    words = list(sys.argv[1:] if words is None else words)
    given = [word for word in words if word != "--debug"]
    code, spoken = 0, AS_OPTIONS.set(True)
    try:
        call(given)
    except KeyboardInterrupt as error:
        code = _end(INTERRUPTED, "; ".join(filter(None, ["interrupted", str(error)])))
    except Exception as error:
        known = _in_one_line(error)
        if known is None or given != words:
            traceback.print_exception(error)
        code = FAILED if known is None else _end(*known)
    finally:
        AS_OPTIONS.reset(spoken)
    sys.exit(code)


def _end(code: int, text: str) -> int:
    print(f"graphcollab: {printable(' '.join(text.split()))}", file=sys.stderr)
    return code


def _in_one_line(error: Exception) -> tuple[int, str] | None:
    """Return the exit code and the text of an error of the input, the run or the machine; None of any other."""
    text = str(error)
    if isinstance(error, GraphcollabError):
        return (FAILED if isinstance(error, RUNTIME) else WRONG), _about(error.subject, text)
    if isinstance(error, CycloptsError):
        return WRONG, text
    if isinstance(error, OSError) and error.strerror:
        text = ": ".join(str(part) for part in (error.filename, error.strerror) if part is not None)
        return (WRONG if isinstance(error, FILES) else FAILED), text
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in text:
        return FAILED, f"out of memory: {text}"
    return None


def _about(subject: str, text: str) -> str:
    return text if not subject or text.startswith(subject) else f"{subject}: {text}"


def _config(words: Sequence[str]) -> list[Toml]:
    """Return the file of settings that the words name, if they do."""
    for word, following in pairwise([*words, ""]):
        path = following if word == "--config" else word.partition("--config=")[2]
        if path:
            file = Toml(path, must_exist=True)
            if words[0] not in file.config:
                message = f"{path} has no settings of {words[0]}: give it a table [{words[0]}]"
                raise MissingError(f"file {path}", message)
            return [file]
    return []


@contextmanager
def _warnings_as_lines(quiet: bool) -> Iterator[None]:
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = _about(getattr(message, "subject", ""), " ".join(str(message).split()))
        if text not in shown:
            note(f"warning: {text}", quiet)
        shown.add(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for category in OF_LIBRARIES:
            warnings.simplefilter("ignore", category)
        warnings.showwarning = show
        yield
