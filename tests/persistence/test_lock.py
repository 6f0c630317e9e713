"""One run at a time in a folder."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from graphcollab.persistence.lock import LOCK, hold_folder
from tests.forked import FORKS
from tests.raising import raises


def check_free(folder):
    with hold_folder(folder):
        pass


# In processes of their own:


def hold(folder, told):
    with hold_folder(folder):
        told.send(None)
        time.sleep(60)


def hold_and_fork(folder, told):
    with hold_folder(folder):
        child = os.fork()
        if not child:
            time.sleep(60)
            os._exit(0)
        time.sleep(0.3)
        told.send(child)
        time.sleep(60)


def fork_and_let_the_child_leave(folder, told):
    try:
        with hold_folder(folder):
            child = os.fork()
            if not child:
                raise SystemExit
            assert os.waitpid(child, 0)[1] == 0
            with hold_folder(folder):
                pass
    except RuntimeError as error:
        told.send(str(error))


def started(work, folder):
    """Start a process, and return it and the end of a pipe at which it is heard."""
    hears, tells = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=work, args=(folder, tells))
    process.start()
    tells.close()
    return process, hears


def test_a_second_run_is_refused(tmp_path):
    told = ("in-use", f"folder {tmp_path}")
    with hold_folder(tmp_path):
        with raises(*told), hold_folder(tmp_path):
            pass
        with raises(*told):
            check_free(tmp_path)
    check_free(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_two_threads(tmp_path):
    told = []

    def enter():
        try:
            with hold_folder(tmp_path):
                pass
        except RuntimeError as error:
            told.append(str(error))

    with hold_folder(tmp_path):
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
    assert len(told) == 1


def test_only_one_is_inside_at_a_time(tmp_path):
    inside, most, entered = [], [], []

    def enter(number):
        for _ in range(200):
            try:
                with hold_folder(tmp_path):
                    inside.append(number)
                    most.append(len(inside))
                    inside.remove(number)
                    entered.append(number)
            except RuntimeError:
                pass

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
    assert len(entered) > 0


def test_a_run_that_was_killed_leaves_no_lock(tmp_path):
    process, told = started(hold, tmp_path)
    assert told.recv() is None
    with raises("in-use"), hold_folder(tmp_path):
        pass
    process.kill()
    process.join()
    check_free(tmp_path)


def test_a_disk_that_is_broken_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
    with raises("value", "checkpoint", "broken"), hold_folder(tmp_path):
        pass


def test_a_planted_link_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK).symlink_to(victim)
    with raises("value", "checkpoint"), hold_folder(tmp_path / "run"):
        pass
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("place", ["/proc/nothing", "/proc"])
def test_where_nothing_can_be_written(place):
    with raises("value", "checkpoint", place), hold_folder(Path(place)):
        pass


def test_a_forked_child_that_outlives_a_killed_run_holds_no_lock(tmp_path):
    process, told = started(hold_and_fork, tmp_path)
    child = told.recv()
    try:
        with raises("in-use"):
            check_free(tmp_path)
        process.kill()
        process.join()
        check_free(tmp_path)
        with hold_folder(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_that_leaves_takes_no_lock_along(tmp_path):
    process, told = started(fork_and_let_the_child_leave, tmp_path)
    assert told.recv().startswith("another run is under way")
    process.join()
    assert list(tmp_path.iterdir()) == []
