"""`Saver`: when a run is saved, what is kept in its folder, and that it is there alone."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from graphcollab.files import flush_folder, own_name
from graphcollab.settings import SettingError
from graphcollab.train.checkpoint import Loaded, is_stale, list_checkpoints, newest, remove_checkpoint, write_checkpoint
from graphcollab.train.journal import LOG, Journal
from graphcollab.train.result import History

__all__ = ["LOCK", "FolderInUseError", "Saver", "hold_folder", "save_checkpoint"]

KEEP = 2
SHARE = 0.1  # of a run's time that saving may take where its user does not say how often to save
LOCK = ".lock"
UNKNOWN = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # what disks answer that have no locks

_OPEN: set[int] = set()  # locks' files of this process, which children that it forks shall not keep open


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


class FolderInUseError(RuntimeError):
    """Another run is under way in a folder."""


@contextmanager
def hold_folder(folder: str | Path) -> Iterator[None]:
    """Keep other runs, of any process or thread, from a folder; the system lets it go when a process dies.

    Children that the process forks meanwhile do not hold it. Folders that are missing are made, and removed again where
    nothing was written to them.
    """
    if not str(folder):
        raise SettingError("checkpoint", "the name of a folder", folder)
    folder, missing = Path(folder), []
    for place in (folder, *folder.parents):
        if os.path.isdir(place):  # False, too, where one may not look
            break
        if os.path.lexists(place):
            raise ValueError(f"checkpoint={str(folder)!r} must be a folder, and {place} is not one: name another")
        missing.append(place)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _own(folder)
    except OSError as error:
        raise ValueError(f"checkpoint={str(folder)!r} cannot be written to ({error}): name another folder") from error
    try:
        yield
    finally:
        if descriptor in _OPEN:  # not in a forked child
            (folder / LOCK).unlink(missing_ok=True)  # while it is still held: see `_own`
            _close(descriptor)
            with suppress(OSError):  # something is there
                for place in missing:
                    place.rmdir()


def _own(folder: Path) -> int:
    """Return the lock's file, opened, locked, and with the number of this process in it."""
    while True:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        _lock(descriptor, folder)
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
            if os.fstat(descriptor).st_nlink:  # else who let it go has removed its name, and others lock a new file
                return descriptor
        except BaseException:
            _close(descriptor)
            raise
        _close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    import fcntl  # not everywhere, and only needed here

    _OPEN.add(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        number = os.pread(descriptor, 20, 0).decode("ascii", "replace") or "unknown"
        _close(descriptor)
        raise FolderInUseError(
            f"another run is under way in {folder} (process {number}): wait for its end, or use another folder"
        ) from error
    except OSError as error:
        if error.errno not in UNKNOWN:
            _close(descriptor)
            raise
        told = f"the disk of {folder} knows no locks ({error}): see to it that no other run uses the folder"
        warnings.warn(told, RuntimeWarning, stacklevel=2)


def _close(descriptor: int) -> None:
    if descriptor in _OPEN:
        _OPEN.remove(descriptor)
        os.close(descriptor)


def _let_go() -> None:
    """Close what a forked child has of its parent's locks, which stay with the parent until that ends."""
    for descriptor in [*_OPEN]:
        _close(descriptor)


if hasattr(os, "register_at_fork"):  # not everywhere
    os.register_at_fork(after_in_child=_let_go)
