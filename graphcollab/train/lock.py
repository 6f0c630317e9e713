"""One run at a time in a folder."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["FolderInUseError", "check_free", "check_place", "hold_folder"]

LOCK = ".lock"
UNKNOWN = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # what disks answer that have no locks


_OPEN: set[int] = set()  # locks' files of this process, which children that it forks shall not keep open


class FolderInUseError(RuntimeError):
    """Another run is under way in a folder."""


def check_place(folder: Path) -> None:
    """Check that something can be a folder for checkpoints, as far as can be told without writing.

    Raises:
        ValueError: If a file stands there, or in the way.
    """
    for place in (folder, *folder.parents):
        if os.path.isdir(place):  # False, too, where one may not look
            return
        if os.path.lexists(place):
            raise ValueError(f"checkpoint={str(folder)!r} must be a folder, and {place} is not one: name another")


def check_free(folder: Path) -> None:
    """Check that no run is under way in a folder; nothing is written.

    Raises:
        FolderInUseError: If one is.
    """
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # there is none, or holding it will tell what is wrong
        return
    _OPEN.add(descriptor)
    try:
        _lock(descriptor, folder)
    finally:
        _close(descriptor)


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Keep other runs, of any process or thread, from a folder; the system lets it go when a process dies.

    Children that the process forks meanwhile do not hold it.

    The folder is made where it is missing, and removed again where nothing was written to it.

    Raises:
        FolderInUseError: If another run is under way there.
        ValueError: If the folder cannot be written to.
    """
    made = not folder.is_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _own(folder)
    except OSError as error:
        raise ValueError(f"checkpoint={str(folder)!r} cannot be written to ({error}): name another folder") from error
    try:
        yield
    finally:
        mine = descriptor in _OPEN  # not in a forked child
        if mine:
            (folder / LOCK).unlink(missing_ok=True)  # while it is still held: see `_own`
            _close(descriptor)
        if mine and made and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _own(folder: Path) -> int:
    """Return the lock's file, opened, locked, and with the number of this process in it."""
    while True:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        _OPEN.add(descriptor)
        try:
            _lock(descriptor, folder)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
            os.fsync(descriptor)
            # who let it go has removed its name: then this is no longer the file that others would lock
            if _stands(descriptor, folder / LOCK):
                return descriptor
        except BaseException:
            _close(descriptor)
            raise
        _close(descriptor)


def _close(descriptor: int) -> None:
    if descriptor in _OPEN:
        _OPEN.remove(descriptor)
        os.close(descriptor)


def _let_go() -> None:
    """Close what a forked child has of its parent's locks, which stay with the parent until that ends."""
    while _OPEN:
        with suppress(OSError):
            os.close(_OPEN.pop())


if hasattr(os, "register_at_fork"):  # not everywhere
    os.register_at_fork(after_in_child=_let_go)


def _stands(descriptor: int, path: Path) -> bool:
    """Tell whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _lock(descriptor: int, folder: Path) -> None:
    import fcntl  # not everywhere, and only needed here

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        number = os.pread(descriptor, 20, 0).decode("ascii", "replace") or "unknown"
        raise FolderInUseError(
            f"another run is under way in {folder} (process {number}): wait for its end, or use another folder"
        ) from error
    except OSError as error:
        if error.errno not in UNKNOWN:
            raise
        warnings.warn(
            f"the disk of {folder} knows no locks ({error}): see to it that no other run uses the folder",
            RuntimeWarning,
            stacklevel=2,
        )
