"""The folder of a run: refused where it holds something else, and what is written into it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from graphcollab.checks import warn
from graphcollab.command.declared import Setting
from graphcollab.command.settings_file import RUN, as_text, read_toml
from graphcollab.files import write_whole
from graphcollab.naming import few
from graphcollab.report import page
from graphcollab_command.ending import about, keep_traceback

__all__ = ["CHECKPOINTS", "RESULTS", "folder_of", "out_for", "write_page"]

CHECKPOINTS = "checkpoints"
PAGE, RESULTS = "report.html", "results.txt"
HOW = ("jobs", "device", "threads", "save", "out")
"""Settings that may differ where a run goes on: they say how it is computed, or where things lie."""


def out_for(what: str) -> Setting:
    """Return the setting of the folder, by what a command writes there and whether it goes on."""
    return Setting("out", str | None, text=f"Folder for {what}. Default: nothing is written.")


@contextmanager
def folder_of(out: str | None, command: str, settings: Mapping[str, Any]) -> Iterator[Path | None]:
    """Give the folder of a run, with what was asked for in it; a run that was refused at once leaves none behind."""
    if out is None:
        try:
            yield None
        except KeyboardInterrupt as stop:
            kept = "nothing was kept" + ", with --out the same command would go on" * (command != "benefit")
            raise KeyboardInterrupt("; ".join([*filter(None, [str(stop)]), kept])) from None
        return
    missing = [place for place in (Path(out), *Path(out).parents) if not place.exists()]
    folder = begin_folder(out, command, settings)
    try:
        yield folder
    except KeyboardInterrupt as stop:
        on = "the same command goes on" if command != "benefit" else "the same command begins again"
        raise KeyboardInterrupt("; ".join([*filter(None, [str(stop)]), on])) from None
    except Exception as error:
        if "please report" in about(error)[1]:
            keep_traceback(error, folder)
        with suppress(OSError):  # something is there
            if [one.name for one in folder.iterdir()] == [RUN]:
                (folder / RUN).unlink()
            for place in missing:
                place.rmdir()
        raise


def begin_folder(out: str, command: str, settings: Mapping[str, Any]) -> Path:
    """Write what was asked for into a folder that is new, empty, or of a run that goes on, and return it.

    Raises:
        ValueError: If it holds anything else; the message says what.
    """
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out {out} is a file: name a folder")
    there = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
    before = RUN in there and os.path.getsize(folder / RUN) > 0
    if there and not before:
        raise ValueError(f"--out {out} holds something else ({few(there)}): name another folder, or empty it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--out {out} cannot be written ({error.strerror}): name another folder") from error
    text = as_text(folder, command, {**settings, "out": out})
    if before:
        _require_same(folder, text)
    write_whole(folder / RUN, text.encode())
    return folder


def _require_same(out: Path, text: str) -> None:
    """Check that a folder is of the same run, by what its file of settings and that of this run say."""
    try:
        told, asked = read_toml(out / RUN), tomllib.loads(text)
    except ValueError as error:
        raise ValueError(f"--out {out} holds a damaged run ({error}): name another folder") from error
    differing = [name for name in {**told, **asked} if name not in HOW and not _goes_on(name, told, asked)]
    if differing:
        name = differing[0]
        raise ValueError(
            f"--out {out} holds another run, which differs in {few(differing)} ({name}: {told.get(name)!r} there, "
            f"{asked.get(name)!r} asked for): name another folder, or repeat that one by --config {out / RUN}"
        )


def _goes_on(name: str, told: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Tell whether what is asked for is what a folder has, or a comparison or a site's run may go on to it."""
    before, now = told.get(name), asked.get(name)
    if before == now:
        return True
    if name == "rounds" and asked["command"] in ("compare", "site"):
        return isinstance(before, int) and isinstance(now, int) and now > before
    if name in ("seeds", "methods") and asked["command"] == "compare":
        return isinstance(before, list) and isinstance(now, list) and set(before) < set(now)
    return False


def write_page(found: Any, out: Path, command: str, names: Collection[str]) -> Path | None:
    """Write the report as a page, in the words of a command that has settings of these names, and how to repeat it.

    Without a library for it a warning says which.
    """
    told = (out / RUN).read_text(encoding="utf-8").splitlines() if (out / RUN).is_file() else []
    again = [f"graphcollab {command} --config {out / RUN}", "", f"# {out / RUN}:", *told]
    try:
        return page(found, out / PAGE, commands=again)
    except ModuleNotFoundError as error:
        warn(f"no {PAGE} was written: {error}", UserWarning)
        return None
