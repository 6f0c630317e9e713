"""The folder of a run: what it may hold, the settings and the page in it; and what commands print."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from graphcollab import report
from graphcollab._base.checks import issue
from graphcollab._base.errors import ExistsError, MissingPackageError, PathError
from graphcollab._base.files import write_whole
from graphcollab._base.naming import few
from graphcollab._base.ranges import printable
from graphcollab.cli.options import Dealing

CHECKPOINTS, PAGE, RESULTS, RUN = "checkpoints", "report.html", "results.txt", "run.toml"
ENTRIES = ("categories", "graphs", "set")  # options of entries ``NAME=VALUE``, which are left out where there are none


def request_of(command: str, asked: Mapping[str, Any]) -> str:
    """Return the settings of a command as TOML that ``--config`` reads, a table with those that are not None."""
    from graphcollab.data.datasets.catalog import DATASETS

    dealt = not vars(Dealing()).keys() <= asked.keys() or str(asked["data"]) in DATASETS
    left = {"config", "quiet", *(() if dealt else vars(Dealing()))}
    return settings_text(command, {name: value for name, value in asked.items() if name not in left})


def settings_text(command: str, settings: Mapping[str, Any]) -> str:
    """Return settings as a table of TOML."""
    lines = [f"[{command}]"]
    for name, value in settings.items():
        if value is not None and (value or name not in ENTRIES):
            plain = list(value) or "none" if isinstance(value, tuple) else value
            lines.append(f"{name} = {json.dumps(plain, ensure_ascii=False, default=str)}")
    return "\n".join([*lines, ""]).replace("\x7f", "\\u007f")  # TOML reads JSON but for DEL


def require_free(out: Path | None, request: str) -> None:
    """Check that a folder is new or empty, or holds the same request or checkpoints of its command, which go on."""
    if out is None or not out.exists():
        return
    if not out.is_dir():
        raise PathError("out", f"{out} is a file: name a folder")
    there = sorted(path.name for path in out.iterdir())
    before = (out / RUN).read_text(encoding="utf-8", errors="replace") if RUN in there else ""
    goes_on = CHECKPOINTS in there and before.splitlines()[:1] in ([], request.splitlines()[:1])
    if there and before != request and not goes_on:
        raise ExistsError("out", f"{out} holds something else ({few(there)}): name another folder, or empty it")


def write_page(found: Any, out: Path, request: str, **more: Any) -> list[Path]:
    """Write the request, and a page that says how to repeat it, where the extra ``page`` is installed."""
    run = write_whole(out / RUN, request.encode())
    head, *settings = request.splitlines()
    again = [f"graphcollab {head.strip('[]')} --config {run}", "", f"# {run}:", head, *settings]
    return _write_extra("page", PAGE, lambda: [report.page(found, out / PAGE, commands=again, **more)])


def write_figures(draw: Callable[[], Mapping[str, Any]], out: Path) -> list[Path]:
    """Draw figures and write them by name, where the extra ``figures`` is installed."""
    extra = "figures"
    return _write_extra(
        extra, extra, lambda: [report.save_figure(one, out / f"{name}.png") for name, one in draw().items()]
    )


def _write_extra(extra: str, what: str, write: Callable[[], list[Path]]) -> list[Path]:
    try:
        return write()
    except MissingPackageError as error:
        issue("missing-package", extra, f"{what} not written: {error}")
        return []


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
    if not quiet and sys.stderr.isatty():
        from tqdm import tqdm

        tqdm.write(printable(text), file=sys.stderr)
    elif not quiet:
        print(printable(text), file=sys.stderr, flush=True)


def note_files(paths: Iterable[Path], quiet: bool) -> None:
    """Note which files and folders were written."""
    for path in paths:
        note(f"wrote {path}", quiet)


def write_in_any_encoding() -> None:
    """Let the standard streams write every text: what their encoding lacks as codes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
