"""Bundles: whole or not at all, verified, and never over something else."""

from __future__ import annotations

import json
import os

import pytest
import torch

from graphcollab.train.bundle import read_bundle, write_bundle

TENSORS = {"a": torch.arange(3), "b": torch.ones(2, 2, dtype=torch.bfloat16).T}


def write(folder, content=None, kind="test-kind", version=1, tensors=TENSORS):
    return write_bundle(folder, kind, version, {"x": [1, 0.1]} if content is None else content, tensors)


def read(folder, kind="test-kind", version=1):
    return read_bundle(folder, kind, version)


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
        with pytest.raises(FileExistsError, match=f"holds something else \\('{name}'\\), which is not overwritten"):
            write(folder)
        assert [path.read_text() for path in folder.iterdir()] == [text]
    write(tmp_path / "other", kind="other-kind")
    with pytest.raises(FileExistsError, match="something else"):
        write(tmp_path / "other")
    with pytest.raises(NotADirectoryError):
        write(tmp_path / "0" / "thesis.tex")


@pytest.mark.parametrize("place", range(0, 400, 13))
def test_damage_is_noticed(tmp_path, place):
    write(tmp_path)
    for path in (tmp_path / "manifest.json", tensors_file(tmp_path)):
        whole = path.read_bytes()
        place = place % len(whole)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        blank = json_equal(path.read_bytes(), whole)
        if not blank:
            with pytest.raises(ValueError, match=r"damaged|of version|holds|checksum"):
                read(tmp_path)
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ValueError, match="damaged"):
            read(tmp_path)
        path.write_bytes(whole)
    read(tmp_path)


def json_equal(one, other):
    """Whether two manifests say the same, such as where a blank has become another one."""
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return False


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected a folder of test-kind, but it is not there"):
        read(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match=r"has no manifest.json"):
        read(tmp_path)
    write(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"is a file"):
        read(tmp_path / "manifest.json")
    tensors_file(tmp_path).unlink()
    with pytest.raises(ValueError, match=r"damaged: .*No such file"):
        read(tmp_path)


def test_kinds_and_versions_are_refused_by_name(tmp_path):
    write(tmp_path)
    with pytest.raises(ValueError, match="holds 'test-kind', and 'other' was expected"):
        read(tmp_path, kind="other")
    with pytest.raises(ValueError, match=r"of version 1 of test-kind, this package reads version 2: .* that wrote it"):
        read(tmp_path, version=2)
    write(tmp_path, version=7)
    with pytest.raises(ValueError, match=r"of version 7 .* written by a newer graphcollab: update"):
        read(tmp_path)


def test_names_lead_nowhere_else(tmp_path):
    write(tmp_path / "a")
    path = tmp_path / "a" / "manifest.json"
    text = path.read_text().replace("tensors-", "../tensors-")
    path.write_text(text)
    with pytest.raises(ValueError, match="damaged"):
        read(tmp_path / "a")
