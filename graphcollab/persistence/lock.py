"""A lock that restricts a folder to one run at a time; the system releases it when a process dies."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from filelock import FileLock, Timeout

from graphcollab._base.checks import issue
from graphcollab._base.errors import InUseError, InvalidValueError
from graphcollab._base.settings import SettingError

LOCK = ".lock"
UNKNOWN = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # errors of file systems without locks
PAUSE = 0.02  # seconds between two tries


@contextmanager
def hold_folder(folder: str | Path, name: str = "checkpoint", wait: float = 0.0) -> Iterator[None]:
    """Lock a folder against other runs in any process or thread; the system releases it when the process dies.

    Forked children do not hold the lock. Missing folders are created, and removed again if nothing was written. An
    InUseError is raised if another run still holds it after ``wait`` seconds, a ValueError (of argument ``name``) if it
    is unusable.
    """
    if not str(folder):
        raise SettingError(name, "the name of a folder", folder)
    folder, owner = Path(folder), os.getpid()
    missing = [place for place in (folder, *folder.parents) if not os.path.lexists(place)]
    lock = FileLock(
        folder / LOCK, wait, thread_local=False, poll_interval=PAUSE, fallback_to_soft=False, on_acquired=_sign
    )
    try:
        _acquire(lock, folder)
    except Timeout as error:
        raise InUseError(
            f"folder {folder}",
            f"another run is under way in {folder} (process {_holder(folder)}): wait for its end, or use another "
            "folder",
        ) from error
    except OSError as error:
        if error.errno not in UNKNOWN:
            raise InvalidValueError(
                name, f"{name}={str(folder)!r} cannot be written to ({error}): name another folder"
            ) from error
        told = f"the file system of {folder} has no locks ({error}): make sure that no other run uses the folder"
        issue("unsupported", f"folder {folder}", told)
    try:
        yield
    finally:
        if os.getpid() == owner:  # not in a forked child
            if lock.is_locked:
                (folder / LOCK).unlink(missing_ok=True)  # while it is held: a waiting run locks a new file
                lock.release()
            with suppress(OSError):  # the folder is not empty
                for place in missing:
                    place.rmdir()


def _acquire(lock: FileLock, folder: Path) -> None:
    while not lock.is_locked:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout:
            TemporaryFile(dir=folder).close()  # raises an OSError if the folder is read-only, which looks like a lock
            raise
        except FileNotFoundError:
            if folder.is_dir():  # otherwise the run that held it has removed it
                raise


def _sign(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())


def _holder(folder: Path) -> str:
    with suppress(OSError):  # released meanwhile
        return (folder / LOCK).read_text() or "unknown"
    return "unknown"
