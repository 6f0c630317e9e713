"""The log of lines of JSON: the same values as the history's, whole at any moment, and nothing lost."""

from __future__ import annotations

import json
import math

import pytest
import torch

from graphcollab import compare, local, run
from graphcollab.models import MLP
from graphcollab.train import Callback, JsonLinesLog
from tests.raising import raises
from tests.scenes import Scene

METHOD = local(lr=0.1, epochs=1, batch_size=4)
TASKS = Scene.small(torch.float32).tasks.hold_out(0.3, 0, into="test")


def play(path, rounds, folder=None, more=(), **settings):
    make = lambda: MLP(4, (6,), 3)  # noqa: E731
    return run(METHOD, TASKS, make, rounds=rounds, callbacks=[JsonLinesLog(path), *more], checkpoint=folder, **settings)


def lines_of(path):
    text = path.read_text()
    assert text.endswith("\n")
    return [
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON")) for line in text.splitlines()
    ]


class Break(Callback):
    def on_evaluate(self, data, history):
        if data.round == 3:
            raise RuntimeError("the power fails")


def test_lines_say_what_the_history_says(tmp_path):
    path = tmp_path / "folder" / "log.jsonl"
    history = play(path, 5, evaluate_every=2).history
    lines = lines_of(path)
    assert [line["round"] for line in lines] == history.rounds == [2, 4, 5]
    assert [line["seconds"] for line in lines] == history.seconds
    for name in history.values:
        table = history.table(name).double()  # [evaluations, K]
        for line, values in zip(lines, table, strict=True):
            known = values[values.isfinite()]
            if not len(known):
                assert line[name]["mean"] is None
                continue
            assert line[name]["mean"] == pytest.approx(float(known.mean()))
            assert line[name]["std"] == pytest.approx(float(known.std(correction=0)))
            worst = known.max() if name.endswith("loss") else known.min()  # of six nodes 10 % are one
            if name == "test_metric" or name.endswith("loss"):
                assert line[name]["worst10"] == pytest.approx(float(worst))


def test_a_resumed_run_replaces_what_it_plays_again(tmp_path):
    path, whole = tmp_path / "log.jsonl", tmp_path / "whole.jsonl"
    play(path, 2)  # another run before
    with pytest.raises(RuntimeError, match="the power fails"):
        play(path, 5, tmp_path / "run", [Break()], checkpoint_every=2)
    assert [(line["run"], line["round"]) for line in lines_of(path)] == [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)]
    with path.open("a") as file:
        file.write('{"run": 1, "rou')  # and a line that was being written
    play(path, 5, tmp_path / "run", checkpoint_every=2)
    play(whole, 5)
    known = [{**line, "run": 0, "seconds": 0} for line in lines_of(path) if line["run"] == 1]
    assert known == [{**line, "seconds": 0} for line in lines_of(whole)]
    assert [line["round"] for line in lines_of(path) if line["run"] == 0] == [1, 2]


def test_trials_of_a_comparison_are_numbered(tmp_path):
    make = lambda: MLP(4, (6,), 3)  # noqa: E731
    grids = {"local": {"lr": [0.1, 0.2]}}
    log = JsonLinesLog(tmp_path / "log.jsonl")
    compare({"local": local}, lambda seed: TASKS, make, [0], grids, rounds=2, callbacks=[log])
    assert [(line["run"], line["round"]) for line in lines_of(log.path)] == [(0, 1), (0, 2), (1, 1), (1, 2)]


@pytest.mark.parametrize("text", ["no log\n", '{"round": 3}\n', "[1]\n"])
def test_a_file_of_something_else_is_left_alone(tmp_path, text):
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    with raises("format", f"file {path}"):
        play(path, 1)
    assert path.read_text() == text


def test_what_is_not_finite_is_null(tmp_path):
    path = tmp_path / "log.jsonl"

    class Observed(Callback):
        def values(self):
            return {"odd": torch.full((6,), math.inf)}

    play(path, 1, more=[Observed()])
    assert lines_of(path)[0]["odd"]["mean"] is None
