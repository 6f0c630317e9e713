"""Bytes of checkpoints are damaged: what is read is right, or the one before it with a warning, or refused."""

from __future__ import annotations

import random
import warnings

import pytest
import torch

from graphcollab import run
from graphcollab.methods import local
from graphcollab.persistence.checkpoint import load_checkpoint
from graphcollab.testing import Scene, differences
from graphcollab.train import Checkpoint
from tests.train.forged import latest_checkpoint

PAGE = 4096


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("run") / "run"
    tasks = Scene.small(torch.float32).tasks
    run(local(epochs=1), tasks, lambda: torch.nn.Linear(4, 3), rounds=5, checkpoint=Checkpoint(place, every=1))
    return place


def flip(content, draw):
    place = draw.randrange(len(content) * 8)
    content[place // 8] ^= 1 << place % 8


def zero(content, draw):
    start = draw.randrange(0, len(content), PAGE)
    content[start : start + PAGE] = bytes(len(content[start : start + PAGE]))


def cut(content, draw):
    del content[draw.randrange(len(content)) :]


def grow(content, draw):
    content.extend(draw.randbytes(draw.randrange(1, 100)))


DAMAGES = (flip,) * 17 + (zero, cut, grow)


def damage(folder, draw):
    """Damage one to three files; return what they held and which checkpoints must not be read any more."""
    before = {}
    files = sorted(folder.glob("*/*"))
    weights = [file.stat().st_size for file in files]
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        kind = draw.choice(DAMAGES)
        file = draw.choices(files, weights if kind is flip else None)[0]  # every bit is as likely as any other
        content = bytearray(file.read_bytes())
        before.setdefault(file, bytes(content))
        kind(content, draw)
        file.write_bytes(content)
    return before, {file.parent.name for file, was in before.items() if file.read_bytes() != was}


def count_outcomes(folder, count):
    draw = random.Random(count)
    right = {name: load_checkpoint(folder / name) for name in ("round-000004", "round-000005")}
    seen = {"newest": 0, "older": 0, "refused": 0}
    for number in range(count):
        before, harmed = damage(folder, draw)
        good = [name for name in ("round-000005", "round-000004") if name not in harmed]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                found = latest_checkpoint(folder)
            except ValueError:
                assert not good, f"damage {number}: refused, but {good} are undamaged"
                seen["refused"] += 1
            else:
                assert found.name == good[0], f"damage {number}: {found.name} was read, {good} are undamaged"
                assert differences(load_checkpoint(found), right[found.name]) == []
                assert len(told) == (found.name != "round-000005")
                seen["newest" if found.name == "round-000005" else "older"] += 1
        for file, was in before.items():
            file.write_bytes(was)
    return seen


def test_damage_is_never_taken_for_a_state(folder):
    seen = count_outcomes(folder, 200)
    assert min(seen.values()) > 5


@pytest.mark.slow
@pytest.mark.nightly
def test_much_damage_is_never_taken_for_a_state(folder):
    seen = count_outcomes(folder, 10_000)
    assert min(seen.values()) > 200
