"""Runs in which nodes are away, late, join or leave: what is evaluated, stored and compared."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from graphcollab import compare, run
from graphcollab.components import Participation
from graphcollab.methods import dpsgd, fedavg
from graphcollab.models import MLP
from graphcollab.testing import Scene, differences
from tests.raising import raises

TASKS = Scene.small(torch.float32).tasks
ELASTIC = Participation(joins={1: 2}, leaves={4: 3})


def model():
    return MLP(4, (6,), 3)


def test_nodes_that_are_not_there_do_not_blur_the_means():
    result = run(dpsgd(), TASKS, model, rounds=4, participation=ELASTIC)
    losses = result.history.table("val_loss")  # after rounds 1, 2, 3, 4
    missing = [[bool(row[k].isnan()) for row in losses] for k in range(6)]
    assert missing[1] == [True, True, False, False]  # round 2, from 0, is the third
    assert missing[4] == [False, False, False, True]
    assert not any(map(any, (missing[k] for k in (0, 2, 3, 5))))
    assert torch.equal(losses.isnan(), result.history.table("val_metric").isnan())
    others = losses[0, [0, 2, 3, 4, 5]]
    assert result.history.mean("val_loss")[0] == pytest.approx(float(others.mean()))
    assert result.history.summary("val_metric")["nodes"] == 5
    sent = result.history.table("bytes_sent")
    assert not bool(sent.isnan().any())
    assert sent[:2, 1].tolist() == [0, 0]
    assert sent[3, 4] == sent[2, 4] > 0


def test_nodes_that_are_away_for_a_round_are_evaluated():
    result = run(dpsgd(), TASKS, model, rounds=3, participation=Participation(0.4, 0.4))
    assert not bool(result.history.table("val_loss").isnan().any())


def test_a_run_without_stragglers_is_the_same():
    one = run(fedavg(fraction=0.5), TASKS, model, rounds=2)
    two = run(fedavg(fraction=0.5), TASKS, model, rounds=2, participation=Participation())
    assert differences(one.data, two.data) == []


def test_resuming_with_other_stragglers_is_refused(tmp_path):
    some = replace(ELASTIC, drop=0.2, late=0.1)
    run(dpsgd(), TASKS, model, rounds=2, checkpoint=tmp_path, participation=some)
    for other in (None, replace(ELASTIC, drop=0.2, late=0.2), ELASTIC):
        with raises("other-run", None, "participation."):
            run(dpsgd(), TASKS, model, rounds=4, checkpoint=tmp_path, participation=other)
    resumed = run(dpsgd(), TASKS, model, rounds=5, checkpoint=tmp_path, participation=some)
    straight = run(dpsgd(), TASKS, model, rounds=5, participation=some)
    assert differences(resumed.data, straight.data) == []
    assert torch.equal(
        resumed.history.table("val_loss").nan_to_num(-1), straight.history.table("val_loss").nan_to_num(-1)
    )


def test_methods_are_compared_under_the_same_stragglers():
    scene = Scene.small(torch.float32)
    pool = scene.tasks.pools["train"]
    lists = [(pool.inputs[8 * k : 8 * k + 8], pool.targets[8 * k : 8 * k + 8]) for k in range(6)]
    tasks = type(scene.tasks).from_samples(lists, lists, lists)
    plain = compare({"dpsgd": dpsgd}, lambda seed: tasks, model, seeds=[0], rounds=2)
    found = compare({"dpsgd": dpsgd}, lambda seed: tasks, model, seeds=[0], rounds=2, participation=Participation(0.5))
    assert found.results["dpsgd"].env.participation == Participation(0.5)
    assert found.values("dpsgd", "bytes_per_node")[0] < plain.values("dpsgd", "bytes_per_node")[0]
    assert math.isfinite(found.values("dpsgd")[0])


def test_attend_must_say_who():
    with raises("value", "participation", "0.1"):
        run(dpsgd(), TASKS, model, rounds=1, participation=0.1)


def test_unknown_nodes_are_refused_before_training():
    with raises("unknown", "participation", "17"):
        run(dpsgd(), TASKS, model, rounds=1, participation=Participation(joins={17: 2}))


def test_nodes_join_and_leave_by_name():
    names = TASKS.names
    found = run(dpsgd(), TASKS, model, rounds=3, participation=Participation(joins={names[1]: 2}, leaves={names[4]: 1}))
    plain = run(dpsgd(), TASKS, model, rounds=3, participation=Participation(joins={1: 2}, leaves={4: 1}))
    assert differences(found.data, plain.data) == []
    with raises("unknown", "node", "'nobody'", kind=KeyError):
        run(dpsgd(), TASKS, model, rounds=1, participation=Participation(joins={"nobody": 2}))
