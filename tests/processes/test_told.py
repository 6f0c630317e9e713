"""What torchrun reads of a process that fails."""

from __future__ import annotations

import json
import threading

from graphcollab.distributed.errors import ERROR_FILE, write_error_file


def test_what_torchrun_reads_is_whole_at_any_moment(tmp_path, monkeypatch):
    path = tmp_path / "error.json"
    monkeypatch.setenv(ERROR_FILE, str(path))
    write_error_file("first")
    over = threading.Event()
    read, faults = [], []

    def reader() -> None:
        while not over.is_set():
            try:
                read.append(json.loads(path.read_text())["message"]["message"])
            except ValueError as error:
                faults.append(error)

    thread = threading.Thread(target=reader)
    thread.start()
    for time in range(200):
        write_error_file(f"time {time}")
    over.set()
    thread.join()
    assert not faults
    assert len({*read}) > 1
    assert json.loads(path.read_text())["message"]["extraInfo"]["py_callstack"] == "time 199"
    assert [*tmp_path.iterdir()] == [path]
