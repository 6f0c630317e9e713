"""Callbacks that look into rounds: validation before and after merging, and similarities."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from graphcollab import methods, run
from graphcollab.models import MLP
from graphcollab.testing import Scene, differences
from graphcollab.train import Callback, WatchMetrics
from tests.raising import raises

WATCHED = ["val_loss_after", "val_loss_before", "val_metric_after", "val_metric_before"]
QUICK = {"epochs": 1, "lr": 0.1, "batch_size": 4}


def play(method, callbacks=(), folder=None, rounds=4, **settings):
    tasks = Scene.small(torch.float32).tasks
    model = lambda: MLP(4, (6,), 3)  # noqa: E731
    return run(method, tasks, model, rounds=rounds, callbacks=callbacks, checkpoint=folder, **settings)


class Notes(Callback):
    def __init__(self, **values):
        self.found = values

    def values(self):
        return self.found


def test_what_a_callback_observed_has_a_place_of_its_own_and_a_value_per_node():
    own = play(methods.local(**QUICK), [Notes(mine=torch.arange(Scene.small(torch.float32).tasks.num_nodes))], rounds=1)
    assert "mine" in own.history.values
    for callbacks, (code, *facts) in (
        ([Notes(val_metric=torch.ones(4))], ("duplicate", "Notes.values()['val_metric']")),
        ([Notes(mine=torch.ones(6)), Notes(mine=torch.ones(6))], ("duplicate", "Notes.values()['mine']")),
        ([Notes(mine=torch.ones(()))], ("contract", "Notes.values()['mine']", "got []")),
        ([Notes(mine=1.0)], ("contract", "Notes.values()['mine']", "got float")),
    ):
        with raises(code, "callbacks", *facts):
            play(methods.local(**QUICK), callbacks, rounds=1)


def test_observers_need_samples():
    class Validates(Callback):
        needs = ("val",)

    scene = Scene.small(torch.float32)
    tasks = type(scene.tasks)(scene.tasks.pools, {"train": scene.tasks.splits["train"]})
    with raises("empty", "split 'val'"):
        run(methods.dpsgd(), tasks, list(scene.modules), rounds=1, callbacks=[Validates()])


def test_a_callback_that_looks_on_cannot_change_what_it_is_shown():
    class Meddle(Callback):
        def before_mixing(self, data, *env):
            data.x, data.trains = None, None

        after_mixing = before_mixing

    assert differences(play(methods.l2c(**QUICK)).data, play(methods.l2c(**QUICK), [Meddle()]).data) == []


def test_a_callback_may_end_a_run_whose_last_round_is_then_evaluated(tmp_path):
    class Budget(Callback):
        def should_stop(self, data, history):
            return int(data.messages_sent.sum()) >= 60

    first = play(methods.dpsgd(**QUICK), [Budget()], tmp_path, rounds=9, evaluate_every=5)
    assert (first.data.round, first.history.rounds) == (2, [2])
    again = play(methods.dpsgd(**QUICK), [Budget()], tmp_path, rounds=9, evaluate_every=5)
    assert differences(first.data, again.data) == []
    assert first.history.rounds == again.history.rounds
    longer = play(methods.dpsgd(**QUICK), folder=tmp_path, rounds=4, evaluate_every=4).history
    assert longer.rounds == [4]


def test_hooks_in_their_order(tmp_path):
    log = []
    hooks = ("on_start", "before_mixing", "after_mixing", "on_round", "on_evaluate", "on_end")

    def note(name):
        return lambda self, data, *_: log.append((name, data.round))

    calls = type("Calls", (Callback,), {name: note(name) for name in hooks})()
    play(methods.dpsgd(**QUICK), [calls], tmp_path, rounds=1)
    assert log == [
        ("on_start", 0),
        ("before_mixing", 0),
        ("after_mixing", 0),
        ("on_round", 1),
        ("on_evaluate", 1),
        ("on_end", 1),
    ]
    log.clear()
    broken = SimpleNamespace(shows=0)

    class Breaks(Callback):
        def before_mixing(self, data, env):
            broken.shows += 1
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        play(methods.dpsgd(**QUICK), [calls, Breaks()], tmp_path, rounds=2)
    assert [name for name, _ in log] == ["on_start", "before_mixing", "on_end"]
    assert broken.shows == 1


def test_a_callback_that_looks_at_the_clock_ends_a_run_that_is_evaluated():
    """It says no when it is first asked after a round, and yes from then on."""

    class Clock(Callback):
        asked = 0

        def should_stop(self, data, history):
            self.asked += 1
            return self.asked > 2

    scene = Scene.small()
    result = run(methods.dpsgd(**QUICK), scene.tasks, scene.modules, rounds=20, evaluate_every=50, callbacks=[Clock()])
    assert result.history.rounds == [result.data.round]


def test_further_metrics_are_of_the_models_that_are_judged():
    watch = WatchMetrics(["brier", "log_loss"], ["val", "train"])
    result = play(methods.ditto(**QUICK), [watch], rounds=3)  # judged by personal models
    for split in ("val", "train"):
        scores = result.scores(["brier", "log_loss"], split)
        for name in ("brier", "log_loss"):
            torch.testing.assert_close(result.history.last(f"{split}_{name}"), scores[name])
            assert result.history.table(f"{split}_{name}").shape == (3, len(result.tasks.names))
    with raises("value", "metrics"):
        WatchMetrics([])
