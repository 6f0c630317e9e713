"""One writer at a time in a folder, by a lock that the system releases when a process dies."""

from __future__ import annotations

import errno
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from graphcollab.settings import SettingError

__all__ = ["LOCK", "FolderInUseError", "hold_folder"]

LOCK = ".lock"
UNKNOWN = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # what disks answer that have no locks
PAUSE = 0.02  # seconds between two tries
TRIES = 100  # how often a folder that goes away is made again

_OPEN: set[int] = set()  # locks' files of this process, which children that it forks shall not keep open


class FolderInUseError(RuntimeError):
    """Another run is under way in a folder."""


@contextmanager
def hold_folder(folder: str | Path, name: str = "checkpoint", wait: float = 0.0) -> Iterator[None]:
    """Keep other runs, of any process or thread, from a folder; the system lets it go when a process dies.

    Children that the process forks meanwhile do not hold it. Folders that are missing are made, and removed again where
    nothing was written to them. Errors call the folder by the ``name`` of an argument.

    Raises:
        FolderInUseError: If somebody else still holds it after ``wait`` seconds.
        ValueError: If it is no folder, or cannot be written to.
    """
    if not str(folder):
        raise SettingError(name, "the name of a folder", folder)
    folder, missing = Path(folder), []
    for place in (folder, *folder.parents):
        if os.path.isdir(place):  # False, too, where one may not look
            break
        if os.path.lexists(place):
            raise ValueError(f"{name}={str(folder)!r} must be a folder, and {place} is not one: name another")
        missing.append(place)
    try:
        descriptor = _own(folder, time.monotonic() + wait)
    except OSError as error:
        raise ValueError(f"{name}={str(folder)!r} cannot be written to ({error}): name another folder") from error
    try:
        yield
    finally:
        if descriptor in _OPEN:  # not in a forked child
            (folder / LOCK).unlink(missing_ok=True)  # while it is still held: see `_own`
            _close(descriptor)
            with suppress(OSError):  # something is there
                for place in missing:
                    place.rmdir()


def _own(folder: Path, deadline: float) -> int:
    """Return the lock's file, opened, locked, and with the number of this process in it."""
    gone = 0
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except FileNotFoundError:  # who let the folder go has removed it, or it is none that files can be made in
            gone += 1
            if gone == TRIES:
                raise
            continue
        try:
            _lock(descriptor, folder)
        except FolderInUseError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(PAUSE)
            continue
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
