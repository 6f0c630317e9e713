from __future__ import annotations

import os
import threading

import pytest

from graphcollab._base.files import write_whole
from tests.raising import raises


def test_replaces_what_was_there(tmp_path):
    path = tmp_path / "a" / "b.txt"
    write_whole(path, b"one")
    assert write_whole(str(path), b"two") == path
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"]


def test_the_content_is_on_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    done, path = [], tmp_path / "a"
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append("fsync"), fsync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda part, to: (done.append("rename"), replace(part, to))[1])
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
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_planted_link_is_replaced_and_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    for name in ("a", "a.part"):
        (tmp_path / name).symlink_to(victim)
    path = write_whole(tmp_path / "a", b"new")
    assert victim.read_bytes() == b"precious"
    assert path.read_bytes() == b"new"
    assert not path.is_symlink()


def test_files_can_be_read_by_those_who_the_umask_says(tmp_path):
    before = os.umask(0o022)
    try:
        assert write_whole(tmp_path / "a", b"x").stat().st_mode & 0o777 == 0o644
        os.umask(0o077)
        assert write_whole(tmp_path / "b", b"x").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_writers_of_one_file_do_not_meet(tmp_path):
    wrong = []

    def write(content):
        try:
            for _ in range(30):
                write_whole(tmp_path / "a", content)
        except OSError as error:
            wrong.append(error)

    threads = [threading.Thread(target=write, args=(bytes([k]) * 100_000,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(set((tmp_path / "a").read_bytes())) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_folder_is_no_file(tmp_path):
    with raises("path", f"file {tmp_path}"):
        write_whole(tmp_path, b"x")
    assert list(tmp_path.iterdir()) == []
