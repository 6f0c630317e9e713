"""Folders: whole or not at all, verified, and never over something else."""

from __future__ import annotations

import os
import struct
import threading

import pytest
import torch

from graphcollab._base.packed import BEGINNING, BLANK
from graphcollab.persistence.folder import FILE, read_folder, write_folder
from tests.raising import raises
from tests.train.forged import saying, seal, sealed

TENSORS = {"a": torch.arange(3), "b": torch.ones(2, 2, dtype=torch.bfloat16).T}


def write(folder, content=None, kind="test-kind", version=1, tensors=TENSORS):
    return write_folder(folder, kind, version, {"x": [1, 0.1]} if content is None else content, tensors)


def read(folder, kind="test-kind", version=1):
    return read_folder(folder, kind, version)


def test_there_and_back(tmp_path):
    content, tensors = read(write(tmp_path / "new" / "folder"))
    assert content["x"] == [1, 0.1]
    assert tensors["a"].tolist() == [0, 1, 2]
    assert tensors["b"].dtype == torch.bfloat16
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == [FILE]


def test_a_new_one_replaces_the_old_one(tmp_path):
    write(tmp_path)
    (tmp_path / f".{FILE}.0123456789abcdef.part").write_bytes(b"left by a process that died")
    write(tmp_path, {"x": 2}, tensors={"a": torch.zeros(1)})
    assert read(tmp_path)[0]["x"] == 2


def test_a_write_that_fails_leaves_the_old_one(tmp_path, monkeypatch):
    write(tmp_path)

    def fail(part, path):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk is full"):
        write(tmp_path, {"x": 2}, tensors={"a": torch.zeros(1)})
    monkeypatch.undo()
    assert read(tmp_path)[0]["x"] == [1, 0.1]
    assert len([*tmp_path.iterdir()]) == 1


def test_something_else_is_not_overwritten(tmp_path):
    for k, (name, text) in enumerate([("thesis.tex", "x"), (FILE, "{}"), (FILE, "")]):
        folder = tmp_path / str(k)
        folder.mkdir()
        (folder / name).write_text(text)
        with raises("exists", f"folder {folder}", repr(name), kind=FileExistsError):
            write(folder)
        assert [path.read_text() for path in folder.iterdir()] == [text]
    with raises("exists", f"folder {tmp_path / '0' / 'thesis.tex'}", "is a file"):
        write(tmp_path / "0" / "thesis.tex")


@pytest.mark.parametrize("place", range(0, 400, 13))
def test_damage_is_noticed(tmp_path, place):
    path = write(tmp_path) / FILE
    whole = path.read_bytes()
    place = place % len(whole)
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with raises("damaged", f"folder {tmp_path}"):
        read(tmp_path)
    path.write_bytes(whole[:place])
    with raises("damaged", f"folder {tmp_path}"):
        read(tmp_path)
    path.write_bytes(whole)
    read(tmp_path)


def test_what_is_missing_is_named(tmp_path):
    with raises("missing-file", f"folder {tmp_path / 'nothing'}", "test-kind", "is not there", kind=FileNotFoundError):
        read(tmp_path / "nothing")
    with raises("missing-file", f"folder {tmp_path}", f"has no {FILE}"):
        read(tmp_path)
    write(tmp_path)
    with raises("missing-file", None, "is a file"):
        read(tmp_path / FILE)


def test_pipes_and_files_without_end_are_not_read(tmp_path):
    (path := write(tmp_path) / FILE).unlink()
    os.mkfifo(path)
    with raises("damaged", f"folder {tmp_path}", "is no regular file"):
        read(tmp_path)
    path.unlink()
    write(tmp_path)
    with path.open("r+b") as sparse:
        sparse.truncate(2**40)
    with raises("damaged", f"folder {tmp_path}"):
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
    for writer in writers:
        writer.join()
    assert len([*tmp_path.iterdir()]) == 1


def header(text):
    beginning = BEGINNING.decode() + BLANK.decode() + '\\", \\"format\\": \\"test-kind\\"}"}, '
    whole = (beginning + text).encode()
    return struct.pack("<Q", len(whole)) + whole


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"\xff" * 100,
        struct.pack("<Q", 2**60) + b"{}",
        header('"a": {"dtype": "F32", "shape": [1000000000000], "data_offsets": [0, 4000000000000]}}'),
        header('"a": {"dtype": "F32", "shape": [1000000000000], "data_offsets": [0, 4]}}') + b"1234",
        header('"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}') + b"1234",
        header('"a": {"dtype": "X99", "shape": [1], "data_offsets": [0, 4]}}') + b"1234",
        header("[" * 10000) + b"1234",
    ],
)
def test_made_up_tensors_are_damage(tmp_path, stored):
    (tmp_path / FILE).write_bytes(sealed(stored))
    with raises("damaged", f"folder {tmp_path}"):
        read(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 10**6, '{"a":' * 10**6, "[]", "1" * 10**5, "null", '{"format": "test-kind"}'),
        *(f'{{"format": "test-kind", "version": 1, "content": {one}}}' for one in ("null", "3", "[3]", "[" * 10**5)),
    ],
)
def test_descriptions_that_make_no_sense_are_damage(tmp_path, text):
    (tmp_path / FILE).write_bytes(saying(text, TENSORS | {"b": torch.ones(1)}))
    with raises("damaged", f"folder {tmp_path}"):
        read(tmp_path)


@pytest.mark.parametrize("depth", [100_000])
def test_content_that_is_nested_too_deeply_is_damage(tmp_path, depth):
    write(tmp_path)
    seal(tmp_path, f'{{"format": "test-kind", "version": 1, "content": {"[" * depth + "]" * depth}}}')
    with raises("damaged", f"folder {tmp_path}"):
        read(tmp_path)
