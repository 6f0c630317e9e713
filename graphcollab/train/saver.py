"""`Saver`: when a run is saved, and what is kept in its folder."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from graphcollab.files import flush_folder, own_name
from graphcollab.train.checkpoint import Loaded, is_stale, list_checkpoints, newest, remove_checkpoint, write_checkpoint
from graphcollab.train.journal import LOG, Journal
from graphcollab.train.lock import hold_folder
from graphcollab.train.result import History

__all__ = ["Saver", "save_checkpoint"]

KEEP = 2
SHARE = 0.1  # of a run's time that saving may take where its user does not say how often to save


class Saver:
    """Writes the checkpoints of a run, and keeps the last two.

    Each of the two has a history's file of its own: a checkpoint shares it with the one two before it, which goes when
    the new one is there, and appends to it. So a file that is damaged takes one checkpoint along and not both, and
    saving takes as long in the ten-thousandth round as in the tenth. Whoever uses it holds the folder.
    """

    def __init__(self, folder: str | Path, every: int | None = None) -> None:
        self.folder, self.every = Path(folder), every
        self.about: Mapping[str, Any] = {}
        self._saved = (0, 0)  # rounds and evaluations of the last one; before the first there is nothing to save
        self._cost, self._end = 0.0, -float("inf")
        self._kept: list[tuple[Path, Journal]] = []

    def resume(self) -> Loaded | None:
        """Return the newest undamaged checkpoint, or None where there is none; see `latest_checkpoint`."""
        if (found := newest(self.folder)) is None:
            return None
        path, (data, history, about), journal = found
        self._kept, self._saved = [(path, journal)], (data.round, len(history))
        return data, history, about

    def begin(self, about: Mapping[str, Any], afresh: bool) -> None:
        """Say what the run is; remove what another one was writing and, if this one starts afresh, its checkpoints."""
        self.about = about
        self._clean([] if afresh else list_checkpoints(self.folder))

    def due(self, round_: int) -> bool:
        """Tell whether it is time to save."""
        if self.every is not None:
            return round_ % self.every == 0
        return time.perf_counter() - self._end >= self._cost * (1 / SHARE - 1)

    def save(self, data: Data, history: History) -> Path:
        """Write a checkpoint, and return where it is."""
        began = time.perf_counter()
        names = (f"round-{data.round:06d}{f'-{again}' if again else ''}" for again in itertools.count())
        path = next(path for path in map(self.folder.joinpath, names) if not os.path.lexists(path))
        part = own_name(path)
        part.mkdir(parents=True)
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
        flush_folder(self.folder)
        self._kept = [*self._kept, (path, journal)][-KEEP:]
        self._clean([kept for kept, _ in self._kept])
        self._saved = (data.round, len(history))
        self._end = time.perf_counter()
        self._cost = self._end - began
        return path

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
            try:
                os.link(path / LOG, part / LOG, follow_symlinks=False)
            except OSError:  # a disk that has no second names, or the file is gone
                shutil.copyfile(path / LOG, part / LOG)
            return journal
        except FileNotFoundError:  # somebody has removed it
            return Journal()

    def _clean(self, keep: list[Path]) -> None:
        """Remove all checkpoints but some, and what was being written when a run was killed."""
        for path in [*filter(is_stale, self.folder.iterdir()), *list_checkpoints(self.folder)]:
            if path not in keep:
                remove_checkpoint(path)


def save_checkpoint(folder: str | Path, data: Data, history: History, about: Mapping[str, Any]) -> Path:
    """Write a checkpoint ``round-<number>`` into a run's folder, and return where it is.

    All others but the newest undamaged one before it are removed. A resumed run must be the same ``about``, a mapping
    of plain values. It is a `RuntimeError` if a run is under way there, a `TypeError` if the state cannot be stored.
    """
    with hold_folder(folder):
        saver = Saver(folder)
        saver.resume()
        saver.begin(about, afresh=False)
        return saver.save(data, history)


def _append(path: Path, length: int, content: bytes) -> None:
    """Append to a file's first bytes, in place of what a run that was killed may have left after them."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.truncate(length)
        file.seek(length)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
