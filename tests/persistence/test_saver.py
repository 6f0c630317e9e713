"""When a run is saved, what is kept, and what is refused before its first round."""

from __future__ import annotations

import errno
import os
import threading

import numpy as np
import pytest
import torch

from graphcollab import run
from graphcollab.methods import local
from graphcollab.models import MLP
from graphcollab.persistence import History, saver
from graphcollab.persistence.checkpoint import load_checkpoint
from graphcollab.persistence.lock import hold_folder
from graphcollab.persistence.saver import Saver
from graphcollab.testing import Scene, differences
from graphcollab.train import Callback, Checkpoint
from tests.raising import raises
from tests.train.forged import latest_checkpoint

METHOD = local(epochs=1, batch_size=4)


def play(folder, rounds=3, every=None, resume=True, **settings):
    tasks, model = Scene.small(torch.float32).tasks, lambda: MLP(4, (6,), 3)
    return run(METHOD, tasks, model, rounds=rounds, checkpoint=folder and Checkpoint(folder, every, resume), **settings)


class Rounds(Callback):
    def __init__(self):
        self.played = 0

    def on_round(self, data, history):
        self.played += 1


class Stop(Callback):
    def __init__(self, round_):
        self.round = round_

    def on_round(self, data, history):
        if data.round == self.round:
            raise KeyboardInterrupt


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless it is moved, in seconds."""

    class Clock:
        now = 100.0

        def perf_counter(self):
            return self.now

    made = Clock()
    monkeypatch.setattr(saver, "time", made)
    return made


def test_saving_takes_a_tenth_of_the_time(tmp_path, clock, monkeypatch):
    data, _ = Scene.small().begin(METHOD)
    write, rounds = saver.write_checkpoint, []

    def slow(*given):
        clock.now += 2.0
        write(*given)

    monkeypatch.setattr(saver, "write_checkpoint", slow)
    one = Saver(tmp_path)
    with hold_folder(tmp_path):
        for round_ in range(1, 61):
            data = data.clone()
            data.round, clock.now = round_, clock.now + 1.0
            if one.due(round_):
                one.save(data, History(("a",)))
                rounds.append(round_)
    assert rounds == [1, 19, 37, 55]  # 18 s of work for every 2 s


def test_the_last_state_is_always_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(Saver, "due", lambda self, round_: False)
    play(tmp_path)
    assert names(tmp_path) == ["round-000003"]


def test_the_state_before_a_round_that_fails_is_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(Saver, "due", lambda self, round_: False)
    tasks = Scene.small(torch.float32).tasks

    class Poison(Callback):
        def on_evaluate(self, data, history):
            if data.round == 3:
                tasks.pools["train"].inputs.fill_(float("nan"))

    with pytest.raises(Exception, match="not finite"):
        run(METHOD, tasks, lambda: MLP(4, (6,), 3), rounds=9, checkpoint=tmp_path, callbacks=[Poison()])
    assert names(tmp_path) == ["round-000003"]
    assert load_checkpoint(tmp_path / "round-000003")[1].rounds == [1, 2, 3]


def test_a_first_round_that_fails_saves_nothing(tmp_path):
    class Fail(Callback):
        def on_start(self, data, history, rounds):
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        play(tmp_path / "new", callbacks=[Fail()])
    assert names(tmp_path / "new") == []


def test_a_full_disk_leaves_the_checkpoints_that_are_there(tmp_path, monkeypatch):
    write, calls = saver.write_checkpoint, []

    def full(folder, *given):
        calls.append(folder)
        if len(calls) == 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(folder, *given)

    monkeypatch.setattr(saver, "write_checkpoint", full)
    with pytest.raises(OSError, match="No space left"):
        play(tmp_path, rounds=6, every=1)
    assert names(tmp_path) == ["round-000002", "round-000003"]
    straight = play(None, rounds=6)
    assert differences(play(tmp_path, rounds=6).data, straight.data) == []
    assert differences(load_checkpoint(tmp_path / "round-000006")[1].values, straight.history.values) == []


def test_what_a_killed_run_left_is_removed(tmp_path):
    for resume in (True, False):
        (tmp_path / ".round-000001.0123456789abcdef.part").mkdir()
        (tmp_path / ".round-000001.0123456789abcdef.part" / "manifest.json").write_text("")
        (tmp_path / ".lock").write_text("12345")
        play(tmp_path, resume=resume, every=1)
        assert names(tmp_path) == ["round-000002", "round-000003"]


def test_other_files_in_the_folder_stay(tmp_path):
    for name in ("notes.txt", "round-best", "round-1"):
        (tmp_path / name).write_text("mine")
    play(tmp_path, every=1)
    play(tmp_path, rounds=1, resume=False)
    assert names(tmp_path) == ["notes.txt", "round-000001", "round-1", "round-best"]


def test_a_planted_link_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "manifest.json").write_text("precious")
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("round-000001", "round-000002", ".round-000003.0123456789abcdef.part"):
        (folder / name).symlink_to(victim)
    play(folder, resume=False, every=1)
    assert (victim / "manifest.json").read_text() == "precious"
    assert names(folder) == ["round-000002", "round-000003"]


@pytest.mark.parametrize("number", [2, 3])
def test_a_file_that_became_a_link_is_left_alone(tmp_path, number):
    folder, moved = tmp_path / "run", tmp_path / "moved"
    play(folder, every=1)
    log = folder / f"round-{number:06d}" / "state.safetensors"
    log.rename(moved)
    log.symlink_to(moved)
    before = moved.read_bytes()
    assert play(folder, rounds=6, every=1).history.rounds == [1, 2, 3, 4, 5, 6]
    assert moved.read_bytes() == before
    assert load_checkpoint(folder / "round-000006")[1].rounds == [1, 2, 3, 4, 5, 6]


def test_files_can_be_read_by_those_who_the_umask_says(tmp_path):
    before = os.umask(0o022)
    try:
        play(tmp_path, rounds=1)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("*/*")} == {0o644}
    assert (tmp_path / "round-000001").stat().st_mode & 0o777 == 0o755


def test_a_second_run_in_a_folder_is_refused(tmp_path):
    entered, leave = threading.Event(), threading.Event()

    class Wait(Callback):
        def on_round(self, data, history):
            if data.round == 2:
                entered.set()
                leave.wait(20)

    first = threading.Thread(target=lambda: play(tmp_path, callbacks=[Wait()], every=1))
    first.start()
    assert entered.wait(20)
    for resume in (True, False):
        for seed in (0, 1):
            with raises("in-use"):
                play(tmp_path, resume=resume, seed=seed)
    assert [name for name in names(tmp_path) if name != ".lock"] == ["round-000001"]
    leave.set()
    first.join()
    assert names(tmp_path) == ["round-000002", "round-000003"]


def test_no_run_comes_in_between_reading_and_writing(tmp_path, monkeypatch):
    resume = Saver.resume

    def meddle(self):
        with raises("in-use"):
            play(tmp_path, seed=1)
        return resume(self)

    monkeypatch.setattr(Saver, "resume", meddle)
    play(tmp_path)
    assert names(tmp_path)[-1] == "round-000003"


def test_a_file_in_the_way_is_refused_before_the_first_round(tmp_path):
    (tmp_path / "file").write_text("mine")
    count = Rounds()
    for place in (tmp_path / "file", tmp_path / "file" / "deep" / "run"):
        with raises("value", "checkpoint", str(tmp_path / "file")):
            play(place, callbacks=[count])
    with pytest.raises(ValueError, match="cannot be written to"):
        play("/proc/nothing", callbacks=[count])
    with pytest.raises(ValueError, match="checkpoint must be the name of a folder, got ''"):
        play("", callbacks=[count])
    assert count.played == 0
    assert (tmp_path / "file").read_text() == "mine"


def test_what_cannot_be_stored_is_refused_before_the_first_round(tmp_path, monkeypatch):
    start, count = type(METHOD).start, Rounds()

    def strange(self, data, env):
        data = start(self, data, env)
        data.strange = np.ones(3)
        return data

    monkeypatch.setattr(type(METHOD), "start", strange)
    with raises("type", "data.strange", "ndarray"):
        play(tmp_path / "run", callbacks=[count])
    assert count.played == 0
    assert names(tmp_path / "run") == []


@pytest.mark.parametrize("seed", [np.int64(1), np.uint8(1), torch.tensor(1)])
def test_seeds_of_any_integer_type(tmp_path, seed):
    play(tmp_path, seed=seed)
    assert play(tmp_path, rounds=4, seed=1).data.round == 4
    assert load_checkpoint(latest_checkpoint(tmp_path))[2]["seed"] == 1


@pytest.mark.parametrize("seed", [1.0, "1", None, True, np.ones(2), torch.ones(2)])
def test_seeds_that_are_no_integers(seed):
    with pytest.raises(ValueError, match="seed must be a whole number"):
        play(None, seed=seed)
