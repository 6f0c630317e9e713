"""The folder of a run: what it may hold, the settings and the page in it; and what commands print."""

from __future__ import annotations

import io
import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from graphcollab import report
from graphcollab._base.checks import issue
from graphcollab._base.errors import ExistsError, FormatError, MissingPackageError, OtherRunError, PathError
from graphcollab._base.files import write_whole
from graphcollab._base.naming import few
from graphcollab._base.ranges import printable
from graphcollab.cli.options import Dealing
from graphcollab.cli.settings_file import RUN, read_toml, settings_text

CHECKPOINTS, PAGE, RESULTS = "checkpoints", "report.html", "results.txt"
FREE = ("n_jobs", "device", "num_threads", "save", "calibrate", "threshold", "out", "explain", "by")
"""Options that may differ where a run goes on: how it is computed, and what is written."""


@contextmanager
def folder_of(out: Path | None, command: str, settings: Mapping[str, Any]) -> Iterator[Path | None]:
    """Give the folder of a run with its settings in it; a run that is refused at once leaves no new folder."""
    if out is None:
        yield None
        return
    missing = [place for place in (out, *out.parents) if not place.exists()]
    _begin(out, command, {**settings, "out": str(out)})
    try:
        yield out
    except Exception:
        with suppress(OSError):  # the folder holds results
            if [path.name for path in out.iterdir()] == [RUN]:
                (out / RUN).unlink()
            for place in missing:
                place.rmdir()
        raise


def _begin(out: Path, command: str, settings: Mapping[str, Any]) -> None:
    if out.exists() and not out.is_dir():
        raise PathError("out", f"{out} is a file: name a folder")
    there = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    begun = RUN in there and (out / RUN).stat().st_size > 0
    if there and not begun:
        raise ExistsError("out", f"{out} holds something else ({few(there)}): name another folder, or empty it")
    text = settings_text(out, command, settings)
    if begun:
        _require_same(out, tomllib.loads(text))
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / RUN, text.encode())


def _require_same(out: Path, now: Mapping[str, Any]) -> None:
    try:
        before = read_toml(out / RUN)
    except FormatError as error:
        raise OtherRunError("out", f"{out} holds a damaged run ({error}): name another folder") from error
    differing = [name for name in {**before, **now} if name not in FREE and not _goes_on(name, before, now)]
    if differing:
        name = differing[0]
        raise OtherRunError(
            "out",
            f"{out} holds another run, which differs in {few(differing)} ({name}: {before.get(name)!r} there, "
            f"{now.get(name)!r} here): name another folder, or repeat that run by --config {out / RUN}",
        )


def _goes_on(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    old: Any = before.get(name)
    new: Any = now.get(name)
    if name == "rounds" and now["command"] in ("compare", "site") and isinstance(old, int):
        return bool(old <= new)
    if name in ("seeds", "methods") and now["command"] == "compare" and isinstance(old, list):
        return set(old) <= set(new)
    return bool(old == new)


def settings_kept(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are written into the folder of a run."""
    from graphcollab.data.datasets.catalog import DATASETS

    plain = {name: str(value) if isinstance(value, Path) else value for name, value in asked.items()}
    dealt = not vars(Dealing()).keys() <= asked.keys() or str(asked["data"]) in DATASETS
    left = {"config", "quiet", *(() if dealt else vars(Dealing()))}
    return {name: value for name, value in plain.items() if name not in left}


def write_page(found: Any, out: Path, command: str, **more: Any) -> list[Path]:
    """Write the report as a page that says how to repeat the run, where the extra ``page`` is installed."""
    settings = (out / RUN).read_text(encoding="utf-8").splitlines()
    again = [f"graphcollab {command} --config {out / RUN}", "", f"# {out / RUN}:", *settings]
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
