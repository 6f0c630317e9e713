"""Folders that somebody has made up: `load` refuses them with one kind of error, ends, and reads no foreign memory."""

from __future__ import annotations

import copy
import os
import random
import shutil

import pytest
import torch

from graphcollab import Tasks, build_model, load, run
from graphcollab.methods import local
from graphcollab.persistence.folder import read_folder, write_folder
from graphcollab.persistence.saved_models import KIND, VERSION
from tests.raising import raises
from tests.train.forged import forge, manifest_of


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder of two sites' models of rows of a table; no test changes it."""
    rows = {"site": ["a", "b"] * 8, "age": [38.0, 61.0, 47.0, 70.0] * 4, "y": ["ill", "well", "well", "ill"] * 4}
    tasks = Tasks.from_frame(rows, target="y")
    return run(local(), tasks, build_model("mlp", (1,), 2, hidden=3), rounds=1).save(tmp_path_factory.mktemp("m") / "m")


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of that folder."""
    return shutil.copytree(saved, tmp_path / "models")


def content_of(folder):
    return manifest_of(folder)["content"]


def places(value, path=()):
    """The paths of all entries of a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield (*path, key)
        yield from places(one, (*path, key))


ODD = (
    None,
    True,
    -1,
    0,
    7,
    10**9,
    2**70,
    1.5,
    "x",
    "",
    [],
    {},
    [1],
    ["a"],
    {"a": 1},
    {"same": ""},
    {"tuple": [1]},
    [[]],
)


def test_whatever_a_manifest_says_the_error_is_the_packages_own(folder):
    draw, whole, taken = random.Random(0), content_of(folder), 0
    paths = [*places(whole)]
    for _ in range(250):
        content = copy.deepcopy(whole)
        *inside, last = draw.choice(paths)
        parent = content
        for key in inside:
            parent = parent[key]
        if draw.random() < 0.2:
            del parent[last]
        else:
            parent[last] = draw.choice(ODD)
        forge(folder, content)
        try:
            load(folder)
            taken += 1
        except (ValueError, ImportError):
            pass
    assert 25 < taken < 225  # some entries are not read, such as ``about``


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c["architectures"].__setitem__(0, 3), ("damaged",)),
        (lambda c: c["answers"].pop("kind"), ("damaged",)),
        (lambda c: c["inputs"].update(shape=3), ("damaged",)),
        (lambda c: c["inputs"].update(type="load"), ("damaged",)),
    ],
)
def test_made_up_entries(folder, change, says):
    content = content_of(folder)
    change(content)
    forge(folder, content)
    with raises(*says) as refused:
        load(folder)
    assert str(folder) in str(refused.value)


def test_fewer_classes_than_outputs(folder):
    content = content_of(folder)
    content["answers"]["classes"] = ["ill"]
    forge(folder, content)
    models, outputs = load(folder), torch.tensor([[1.0, 0.0]])
    assert models._answers.predict(outputs).tolist() == ["ill"]
    with raises("range", "outputs", "1", "0"):
        models._answers.predict(-outputs)


def test_a_parameter_that_no_layer_has(folder):
    content, tensors = read_folder(folder, KIND, VERSION)
    write_folder(folder, KIND, VERSION, content, {**tensors, "0/models/more": torch.zeros(2, 3)})
    with raises("damaged", f"folder {folder}"):
        load(folder)


def test_files_that_do_not_end(folder):
    part = next(folder.glob("*.safetensors"))
    kept = part.rename(folder.with_name("kept"))
    os.mkfifo(part)
    with raises("damaged", f"folder {folder}", "is no regular file"):
        load(folder)
    part.unlink()
    part.symlink_to("/dev/zero")
    with raises("damaged", f"folder {folder}", "is no regular file"):
        load(folder)
    part.unlink()
    with part.open("wb") as sparse:
        sparse.truncate(2**40)
    with raises("damaged", f"folder {folder}"):
        load(folder)
    part.unlink()
    part.symlink_to(kept)  # where files are kept elsewhere
    assert load(folder).names == ("a", "b")
