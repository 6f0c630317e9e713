from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphcollab.train.files import write_whole


def test_replaces_what_was_there(tmp_path):
    path = tmp_path / "a" / "b.txt"
    write_whole(path, b"one")
    assert write_whole(str(path), b"two") == path
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"]


def test_the_content_is_on_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    done, path = [], tmp_path / "a"
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append("fsync"), fsync(fd))[1])
    monkeypatch.setattr(Path, "replace", lambda self, to: (done.append("rename"), replace(self, to))[1])
    write_whole(path, b"x")
    assert done == ["fsync", "rename", "fsync"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = write_whole(tmp_path / "a", b"old")

    def full(fd):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
