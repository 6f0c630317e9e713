"""Folders: whole or not at all, verified, and never over something else."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import threading
import time

import pytest
import torch

from graphcollab.persistence import folder as module
from graphcollab.persistence.folder import read_folder, write_folder
from graphcollab.persistence.lock import hold_folder
from tests.raising import raises
from tests.train.forged import change, seal

TENSORS = {"a": torch.arange(3), "b": torch.ones(2, 2, dtype=torch.bfloat16).T}


def write(folder, content=None, kind="test-kind", version=1, tensors=TENSORS):
    return write_folder(folder, kind, version, {"x": [1, 0.1]} if content is None else content, tensors)


def read(folder, kind="test-kind", version=1):
    return read_folder(folder, kind, version)


def tensors_file(folder):
    return next(path for path in folder.iterdir() if path.suffix == ".safetensors")


def test_there_and_back(tmp_path):
    content, tensors = read(write(tmp_path / "new" / "folder"))
    assert content["x"] == [1, 0.1]
    assert tensors["a"].tolist() == [0, 1, 2]
    assert tensors["b"].dtype == torch.bfloat16
    assert len([*(tmp_path / "new" / "folder").iterdir()]) == 2


def test_a_new_one_replaces_the_old_one(tmp_path):
    write(tmp_path)
    (tmp_path / ".manifest.json.0123456789abcdef.part").write_bytes(b"left by a process that died")
    write(tmp_path, {"x": 2}, tensors={"a": torch.zeros(1)})
    assert read(tmp_path)[0]["x"] == 2
    assert len([*tmp_path.iterdir()]) == 2


@pytest.mark.parametrize("at", [1, 2])
def test_a_write_that_fails_leaves_the_old_one(tmp_path, monkeypatch, at):
    write(tmp_path)
    count, replace = [0], os.replace

    def fail(part, path):
        count[0] += 1
        if count[0] == at:
            raise OSError("the disk is full")
        replace(part, path)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk is full"):
        write(tmp_path, {"x": 2}, tensors={"a": torch.zeros(1)})
    monkeypatch.undo()
    assert read(tmp_path)[0]["x"] == [1, 0.1]
    write(tmp_path, {"x": 3})  # what was left behind is no obstacle, and goes
    assert len([*tmp_path.iterdir()]) == 2


def test_something_else_is_not_overwritten(tmp_path):
    for k, (name, text) in enumerate([("thesis.tex", "x"), ("manifest.json", "{}"), ("manifest.json", "x")]):
        folder = tmp_path / str(k)
        folder.mkdir()
        (folder / name).write_text(text)
        with raises("exists", f"folder {folder}", repr(name), kind=FileExistsError):
            write(folder)
        assert [path.read_text() for path in folder.iterdir()] == [text]
    write(tmp_path / "other", kind="other-kind")
    with raises("exists", f"folder {tmp_path / 'other'}", "manifest.json"):
        write(tmp_path / "other")
    with raises("exists", f"folder {tmp_path / '0' / 'thesis.tex'}", "is a file"):
        write(tmp_path / "0" / "thesis.tex")


@pytest.mark.parametrize("place", range(0, 400, 13))
def test_damage_is_noticed(tmp_path, place):
    write(tmp_path)
    for path in (tmp_path / "manifest.json", tensors_file(tmp_path)):
        whole = path.read_bytes()
        place = place % len(whole)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with raises("damaged", f"folder {tmp_path}"):
            read(tmp_path)
        path.write_bytes(whole[: len(whole) // 2])
        with raises("damaged", f"folder {tmp_path}"):
            read(tmp_path)
        path.write_bytes(whole)
    read(tmp_path)


def test_what_is_missing_is_named(tmp_path):
    with raises("missing-file", f"folder {tmp_path / 'nothing'}", "test-kind", "is not there", kind=FileNotFoundError):
        read(tmp_path / "nothing")
    with raises("missing-file", f"folder {tmp_path}", "has no manifest.json"):
        read(tmp_path)
    write(tmp_path)
    with raises("missing-file", None, "is a file"):
        read(tmp_path / "manifest.json")
    tensors_file(tmp_path).unlink()
    with raises("damaged", f"folder {tmp_path}", "No such file", "tensors-"):
        read(tmp_path)


def test_kinds_and_versions_are_refused_by_name(tmp_path):
    write(tmp_path)
    with raises("format", f"folder {tmp_path}", "'test-kind'", "'other'"):
        read(tmp_path, kind="other")
    with raises("version", f"folder {tmp_path}", "version 1", "version 2"):
        read(tmp_path, version=2)
    write(tmp_path, version=7)
    with raises("version", f"folder {tmp_path}", "version 7"):
        read(tmp_path)


def test_names_lead_nowhere_else(tmp_path):
    write(tmp_path / "a")
    change(tmp_path / "a", lambda told: told.update(files={f"../{name}": one for name, one in told["files"].items()}))
    with raises("damaged", f"folder {tmp_path / 'a'}", "is no name"):
        read(tmp_path / "a")


def test_one_writer_waits_for_the_other(tmp_path, monkeypatch):
    """The second one begins between the two files of the first: both are written whole, and the last one stays."""
    write_whole, second = module.write_whole, threading.Thread(target=lambda: write(tmp_path, {"x": 2}, tensors={}))

    def pause(path, content):
        monkeypatch.setattr(module, "write_whole", write_whole)
        write_whole(path, content)
        second.start()
        time.sleep(0.2)  # enough for it to be done, if it did not wait
        assert second.is_alive()

    monkeypatch.setattr(module, "write_whole", pause)
    write(tmp_path, {"x": 1})
    second.join()
    assert read(tmp_path)[0]["x"] == 2
    assert len([*tmp_path.iterdir()]) == 2


def test_one_that_waits_too_long_is_told(tmp_path, monkeypatch):
    write(tmp_path)
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    with hold_folder(tmp_path), raises("in-use", f"folder {tmp_path}"):
        write(tmp_path, {"x": 2})
    assert read(tmp_path)[0]["x"] == [1, 0.1]


def test_what_came_into_the_folder_while_one_waited_is_not_overwritten(tmp_path):
    with hold_folder(tmp_path):
        told = []

        def go():
            with raises("exists", f"folder {tmp_path}", "thesis.tex") as found:
                write(tmp_path)
            told.append(found)

        waiting = threading.Thread(target=go)
        waiting.start()
        time.sleep(0.2)
        (tmp_path / "thesis.tex").write_text("x")
    waiting.join()
    assert len(told) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_reader_whose_bundle_is_replaced_reads_the_new_one(tmp_path, monkeypatch):
    write(tmp_path)
    verify = module.verify

    def replaced(*args):
        monkeypatch.setattr(module, "verify", verify)
        found = verify(*args)
        write(tmp_path, {"x": 2}, tensors={"a": torch.zeros(1)})
        return found

    monkeypatch.setattr(module, "verify", replaced)
    content, tensors = read(tmp_path)
    assert (content["x"], [*tensors]) == (2, ["a"])


def test_many_writers_and_a_reader(tmp_path):
    write(tmp_path, {"x": 0}, tensors={"a": torch.zeros(1)})

    def go(number):
        for k in range(5):
            write(tmp_path, {"x": 10 * number + k}, tensors={"a": torch.full((1,), 10.0 * number + k)})

    writers = [threading.Thread(target=go, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        content, tensors = read(tmp_path)
        assert tensors["a"].item() == content["x"]
    assert len([*tmp_path.iterdir()]) == 2


def test_a_lock_that_a_killed_writer_left_is_no_obstacle(tmp_path):
    write(tmp_path)
    (tmp_path / ".lock").write_text("123")
    write(tmp_path, {"x": 2})
    assert len([*tmp_path.iterdir()]) == 2


def forge(folder, content, stored=None, **fields):
    """Write a manifest, and a file of tensors, whose checksums fit."""
    files = {}
    if stored is not None:
        name, digest = "tensors-0123456789abcdef.safetensors", hashlib.sha256(stored).hexdigest()
        (folder / name).write_bytes(stored)
        files = {name: {"bytes": len(stored), "sha256": digest}}
    told = {"format": "test-kind", "version": 1, "files": files, "content": content, **fields}
    seal(folder, json.dumps(told))


def header(text):
    return struct.pack("<Q", len(text)) + text.encode()


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"\xff" * 100,
        struct.pack("<Q", 2**60) + b"{}",
        header('{"a": {"dtype": "F32", "shape": [1000000000000], "data_offsets": [0, 4000000000000]}}'),
        header('{"a": {"dtype": "F32", "shape": [1000000000000], "data_offsets": [0, 4]}}') + b"1234",
        header('{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}') + b"1234",
        header('{"a": {"dtype": "X99", "shape": [1], "data_offsets": [0, 4]}}') + b"1234",
        header("[" * 10000) + b"1234",
    ],
)
def test_made_up_tensors_are_damage(tmp_path, stored):
    forge(tmp_path, {}, stored)
    with raises("damaged", f"folder {tmp_path}"):
        read(tmp_path)


@pytest.mark.parametrize(
    "fields",
    [
        *({"files": files} for files in (3, [3], None, {"a": 3}, {"a": {}}, {"/etc/passwd": {}}, {"": {}})),
        *({"content": content} for content in (None, 3, [3])),
    ],
)
def test_made_up_manifests_are_damage(tmp_path, fields):
    forge(tmp_path, **{"content": {}, **fields})
    with raises("damaged", f"folder {tmp_path}"):
        read(tmp_path)


@pytest.mark.parametrize("text", ["[" * 10**6, '{"a":' * 10**6, "[]", "1" * 10**5, "null", '{"format": "test-kind"}'])
def test_manifests_that_are_no_manifests_are_damage(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with raises("damaged", f"folder {tmp_path}"):
        read(tmp_path)


@pytest.mark.parametrize("depth", [900, 100_000])
def test_content_that_is_nested_too_deeply_is_damage(tmp_path, depth):
    deep = "[" * depth + "]" * depth
    head = '{"format": "test-kind", "version": 1, "files": '
    for text in (f'{head}{{}}, "content": {deep}}}', f'{head}{deep}, "content": {{}}}}'):
        seal(tmp_path, text)
        with raises("damaged", f"folder {tmp_path}"):
            read(tmp_path)


def test_what_is_no_number_for_json_is_damage(tmp_path):
    write(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(path.read_text().replace("0.1", "NaN"))
    with raises("damaged", f"folder {tmp_path}"):
        read(tmp_path)
