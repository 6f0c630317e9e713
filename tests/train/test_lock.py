"""One run at a time in a folder."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from graphcollab.train.lock import LOCK, hold_folder


def check_free(folder):
    with hold_folder(folder):
        pass


def test_a_second_run_is_told_who_is_there(tmp_path):
    told = rf"another run is under way in {re.escape(str(tmp_path))} \(process {os.getpid()}\): .* use another folder"
    with hold_folder(tmp_path):
        with pytest.raises(RuntimeError, match=told), hold_folder(tmp_path):
            pass
        with pytest.raises(RuntimeError, match=told):
            check_free(tmp_path)
        assert (tmp_path / LOCK).read_text() == str(os.getpid())
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
    code = (
        "import sys, time; from pathlib import Path; from graphcollab.train.lock import hold_folder\n"
        "with hold_folder(Path(sys.argv[1])):\n    print('in', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"in\n"
        with pytest.raises(RuntimeError, match=rf"process {process.pid}\)"), hold_folder(tmp_path):
            pass
        process.send_signal(signal.SIGKILL)
    with hold_folder(tmp_path):
        assert (tmp_path / LOCK).read_text() == str(os.getpid())


def test_a_disk_without_locks(tmp_path, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.warns(RuntimeWarning, match="knows no locks"), hold_folder(tmp_path):
        (tmp_path / "a").write_text("")
    monkeypatch.setattr(fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
    with pytest.raises(ValueError, match=r"cannot be written to \(.*broken"), hold_folder(tmp_path):
        pass


def test_a_folder_to_which_nothing_was_written_is_not_left(tmp_path):
    with pytest.raises(KeyError), hold_folder(tmp_path / "new"):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_a_planted_link_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK).symlink_to(victim)
    with pytest.raises(ValueError, match="cannot be written to"), hold_folder(tmp_path / "run"):
        pass
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("place", ["/proc/nothing", "/proc"])
def test_where_nothing_can_be_written(place):
    with pytest.raises(ValueError, match=rf"checkpoint='{place}' cannot be written to"), hold_folder(Path(place)):
        pass


def test_a_forked_child_that_outlives_a_killed_run_holds_no_lock(tmp_path):
    code = (
        "import os, sys, time; from pathlib import Path; from graphcollab.train.lock import hold_folder\n"
        "with hold_folder(Path(sys.argv[1])):\n"
        "    child = os.fork()\n"
        "    if not child:\n        time.sleep(60)\n        os._exit(0)\n"
        "    time.sleep(0.3); print(child, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
        child = int(process.stdout.readline())
        try:
            with pytest.raises(RuntimeError, match=rf"process {process.pid}\)"):
                check_free(tmp_path)
            process.send_signal(signal.SIGKILL)
            process.wait()
            check_free(tmp_path)
            with hold_folder(tmp_path):
                pass
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_forked_child_that_leaves_takes_no_lock_along(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from graphcollab.train.lock import hold_folder\n"
        "folder = Path(sys.argv[1])\n"
        "try:\n    with hold_folder(folder):\n"
        "        child = os.fork()\n"
        "        if not child:\n            raise SystemExit\n"
        "        assert os.waitpid(child, 0)[1] == 0\n"
        "        with hold_folder(folder):\n            pass\n"
        "except RuntimeError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout.startswith("another run is under way"), done.stderr
    assert list(tmp_path.iterdir()) == []
