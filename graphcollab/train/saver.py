"""`Saver`: when a run is saved, and what is kept in its folder."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from graphcollab.files import flush_folder, own_name
from graphcollab.settings import SettingError
from graphcollab.train.callbacks import Callback
from graphcollab.train.checkpoint import (
    Loaded,
    is_stale,
    list_checkpoints,
    newest,
    old_files,
    remove_checkpoint,
    write_checkpoint,
)
from graphcollab.train.history import History
from graphcollab.train.journal import LOG, Journal
from graphcollab.train.lock import check_free, check_place, hold_folder

__all__ = ["Saver", "save_checkpoint"]

KEEP = 2
SHARE = 0.1  # of a run's time that saving may take where its user does not say how often to save


class Saver(Callback):
    """Writes the checkpoints of a run, and keeps the last two.

    Each of the two has a history's file of its own: a checkpoint shares it with the one two before it, which goes when
    the new one is there, and appends to it. So a file that is damaged takes one checkpoint along and not both, and
    saving takes as long in the ten-thousandth round as in the tenth.

    Args:
        folder: Where checkpoints live.
        every: Rounds between checkpoints. None: as often as saving takes a tenth of the time at most.

    Raises:
        ValueError: If the folder is a file, or has no name.
        RuntimeError: If another run is under way there.
    """

    def __init__(self, folder: str | Path, every: int | None = None) -> None:
        if not str(folder):
            raise SettingError("checkpoint", "the name of a folder", folder)
        self.folder = Path(folder)
        self.every = every
        self.about: Mapping[str, Any] = {}
        self._saved = (0, 0)  # rounds and evaluations of the last one; before the first there is nothing to save
        self._cost, self._end = 0.0, -float("inf")
        self._kept: list[tuple[Path, Journal]] = []
        self._found: list[Path] | None = None
        check_place(self.folder)
        check_free(self.folder)

    @property
    def last(self) -> Path:
        """The newest checkpoint."""
        return self._kept[-1][0]

    def resume(self, device: torch.device | str) -> Loaded | None:
        """Return the newest undamaged checkpoint, or None where there is none.

        Raises:
            ValueError: If there are checkpoints, and none can be read.
        """
        self._found = list_checkpoints(self.folder)
        if (found := newest(self.folder)) is None:
            return None
        path, (data, history, about), journal = found
        self._kept = [(path, journal)]
        self._saved = (data.round, len(history))
        return data.to(device), history, about

    @contextmanager
    def hold(self, about: Mapping[str, Any]) -> Iterator[None]:
        """Keep the folder for this run, and remove what another one has left there if this one starts afresh.

        Args:
            about: What the run is.

        Raises:
            RuntimeError: If another run is under way there.
            ValueError: If the folder cannot be written to.
        """
        with hold_folder(self.folder):
            if self._found is not None and list_checkpoints(self.folder) != self._found:
                raise RuntimeError(f"another run has just written to {self.folder}: start again, or use another folder")
            self.about = about
            self._clean(self._found or [])
            yield

    def on_round(self, data: Data, history: History) -> None:
        """Save if it is time."""
        if self.due(data.round):
            self.save(data, history)

    def on_error(self, data: Data, history: History) -> None:
        """Save what is whole."""
        self.finish(data, history)

    def on_stop(self, data: Data, history: History) -> None:
        """Save the last state."""
        self.finish(data, history)

    def due(self, round_: int) -> bool:
        """Tell whether it is time to save."""
        if self.every is not None:
            return round_ % self.every == 0
        return time.perf_counter() - self._end >= self._cost * (1 / SHARE - 1)

    def save(self, data: Data, history: History) -> None:
        """Write a checkpoint."""
        began = time.perf_counter()
        folder, path = self.folder, self._name(data.round)
        folder.mkdir(parents=True, exist_ok=True)
        part = own_name(path)
        part.mkdir()
        try:
            journal = self._journal(part)
            _append(part / LOG, journal.length, journal.grow(history))
            write_checkpoint(part, data, history, self.about, journal)
            flush_folder(part)
            part.rename(path)
        except BaseException:
            self._kept = self._kept[-1:]  # what the other file holds is not known any more
            shutil.rmtree(part, ignore_errors=True)
            raise
        flush_folder(folder)
        self._kept = [*self._kept, (path, journal)][-KEEP:]
        self._clean([kept for kept, _ in self._kept])
        self._saved = (data.round, len(history))
        self._end = time.perf_counter()
        self._cost = self._end - began

    def finish(self, data: Data, history: History) -> None:
        """Write a checkpoint, unless the last one is just this."""
        if self._saved != (data.round, len(history)):
            self.save(data, history)

    def _journal(self, part: Path) -> Journal:
        """Put a history's file into a new checkpoint: that of the one before the last, or a copy of the last one's."""
        if not self._kept:
            return Journal()
        path, journal = self._kept[0]
        try:
            if (path / LOG).is_symlink() or (path / LOG).stat().st_size < journal.length:
                return Journal()  # somebody has put a link in its place, or cut it: all is still in memory
            if len(self._kept) < KEEP:
                shutil.copyfile(path / LOG, part / LOG, follow_symlinks=False)
                return journal.copy()
            _link(path / LOG, part / LOG)
            return journal
        except FileNotFoundError:  # somebody has removed it
            return Journal()

    def _name(self, round_: int) -> Path:
        path, again = self.folder / f"round-{round_:06d}", 0
        while os.path.lexists(path):
            again += 1
            path = self.folder / f"round-{round_:06d}-{again}"
        return path

    def _clean(self, keep: list[Path]) -> None:
        """Remove all checkpoints but some, and what was being written when a run was killed."""
        for path in self.folder.iterdir():
            if is_stale(path):
                remove_checkpoint(path)
        for path in [*list_checkpoints(self.folder), *old_files(self.folder)]:
            if path not in keep:
                remove_checkpoint(path)


def save_checkpoint(folder: str | Path, data: Data, history: History, about: Mapping[str, Any]) -> Path:
    """Write a checkpoint ``round-<number>``, and remove all but it and the newest undamaged one before.

    Args:
        folder: Where checkpoints of one run live.
        data: The state after a round.
        history: What happened so far.
        about: What the run is, as plain values; a resumed run must be the same.

    Returns:
        Where it is.

    Raises:
        RuntimeError: If a run is under way there.
        TypeError: If the state holds what cannot be stored.
    """
    saver = Saver(folder)
    saver.resume("cpu")
    with saver.hold(about):
        saver.save(data, history)
    return saver.last


def _link(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where a disk cannot do that."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def _append(path: Path, length: int, content: bytes) -> None:
    """Append to a file's first bytes, in place of what a run that was killed may have left behind them."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.truncate(length)
        file.seek(length)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
