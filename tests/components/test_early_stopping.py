"""Nodes that stop with their best models."""

from __future__ import annotations

import torch

from graphcollab import Method, Phases, run
from graphcollab.components import EarlyStopping, Exchange, Fit, Judge, PeerSampler, PeerWeights, Uniform
from graphcollab.engine import SGD
from graphcollab.methods import local, oracle, random_peers
from graphcollab.testing import Scene
from graphcollab.transforms import WithSelfLoops
from tests.raising import raises

# A node's model is a point x, its loss half the squared distance to its target; a local step with lr halves that.


def stopping(patience, lr=0.5, exchange=True):
    return Method(
        "stopping",
        local=Fit(steps=1, batch_size=10, optimizer=SGD(lr=lr)),
        weigh=Uniform(),
        exchange=Exchange("zero", "x"),
        prepare=WithSelfLoops(),
        stop=EarlyStopping(patience),
        judge=Judge(field="best_x"),
    )


def test_nodes_keep_their_best_and_stop(points):
    # Node 0 begins at its optimum; merging with node 1 only draws it away. Its best is the model it had at first.
    scene = points([[[0.0]], [[4.0]]])
    method = stopping(2)
    data, env = scene.begin(method)
    data = method.play(data, env)
    assert data.best_loss.tolist() == [0, 2]
    assert data.stale.tolist() == [0, 0]
    data = method.play(data, env)  # x = 1, 1 → .5, 2.5 → 1.5: node 0 is stale, node 1 better by itself
    assert data.stale.tolist() == [1, 0]
    assert data.best_loss.tolist() == [0, 1.125]
    data = method.play(data, env)  # 1.5 → .75, 2.75 → 1.75; node 0 stops with x = 0
    assert data.stopped.tolist() == [True, False]
    assert data.trains.tolist() == [False, True]
    assert data.serves.tolist() == [True, True]
    assert data.x.part("all").flatten().tolist() == [0, 1.75]
    data = method.play(data, env)  # node 1: 1.75 → 2.875, merged with the 0 that node 0 goes on serving
    assert data.x.part("all").flatten().tolist() == [0, 1.4375]
    assert method.models(data, env).part("all").flatten().tolist() == [0, 2.875]


def test_stopped_nodes_stay_stopped_in_the_next_phase(points):
    scene = points([[[0.0]], [[4.0]]])
    method = Phases(stopping(1), 2, stopping(1))
    data, env = scene.begin(method)
    for _ in range(3):
        data = method.play(data, env)
    assert data.stopped.tolist() == [True, False]
    assert data.trains.tolist() == [False, True]


def test_a_run_ends_when_all_have_stopped():
    scene = Scene.small(torch.float32)
    result = run(random_peers(samples=2, lr=0.5, patience=2), scene.tasks, list(scene.modules), rounds=200)
    assert bool(result.data.stopped.all())
    assert result.data.round < 200
    assert result.history.rounds[-1] == result.data.round


def test_early_stopping_needs_validation_data():
    scene = Scene.small(torch.float32)
    tasks = scene.tasks.hold_out(0)
    tasks = type(tasks)(tasks.pools, {"train": tasks.splits["train"]})
    with raises("empty", "split 'val'"):
        run(random_peers(samples=2, patience=5), tasks, list(scene.modules), rounds=1)


def test_best_models_need_somebody_who_keeps_them():
    with raises("unknown", "judge", "'best_x'"):
        local().replace(judge=Judge(field="best_x"))


def test_stopped_nodes_meet_nobody_but_are_met():
    method = Method(
        "m",
        local=Fit(steps=1),
        weigh=PeerWeights(),
        exchange=Exchange("zero", "x"),
        rewire=PeerSampler(5),
        stop=EarlyStopping(1),
    )
    data, env = Scene.small().begin(method)
    data.stopped[0], data.trains = True, data.trains & (torch.arange(6) != 0)
    data = method.rewire.propose(data, env, 1)
    sender, receiver = data.edge_index[:, data.edge_index[0] != data.edge_index[1]]
    assert 0 not in receiver.tolist()
    assert 0 in sender.tolist()


def test_the_oracle_judges_by_best_models_when_it_stops_early():
    assert oracle(patience=50).judge == Judge(field="best_x")
