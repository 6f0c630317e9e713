"""A lock that restricts a folder to one run at a time; the system releases it when a process dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from filelock import FileLock, Timeout

from graphcollab._base.errors import InUseError, InvalidValueError
from graphcollab._base.settings import SettingError

LOCK = ".lock"


@contextmanager
def hold_folder(folder: str | Path, wait: float = 0.0) -> Iterator[None]:
    """Lock a folder, which is created if it is missing, against other runs in any process or thread.

    Forked children do not hold the lock. An InUseError is raised if another run still holds it after ``wait`` seconds,
    a ValueError if the folder is unusable.
    """
    if not str(folder):
        raise SettingError("checkpoint", "the name of a folder", folder)
    folder, owner = Path(folder), os.getpid()
    lock = FileLock(folder / LOCK, wait, thread_local=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()  # raises an OSError if the folder is read-only, which looks like a lock
        lock.acquire()
    except Timeout as error:
        raise InUseError(
            f"folder {folder}", f"another run is under way in {folder}: wait for its end, or use another folder"
        ) from error
    except OSError as error:
        raise InvalidValueError(
            "checkpoint", f"checkpoint={str(folder)!r} cannot be written to ({error}): name another folder"
        ) from error
    try:
        yield
    finally:
        if os.getpid() == owner:  # not in a forked child
            (folder / LOCK).unlink(missing_ok=True)  # while it is held: a waiting run locks a new file
            lock.release()
