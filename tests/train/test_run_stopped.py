"""Runs in which nodes stop: they end with an evaluation, phases wake nodes up again, and resuming changes nothing."""

from __future__ import annotations

import pytest
import torch

from graphcollab import Phases, compare, run
from graphcollab.components import EarlyStopping
from graphcollab.data.partition import linear_regression_tasks
from graphcollab.methods import dac, fedavg, local, panm, pens, random_peers
from graphcollab.testing import differences
from graphcollab.train import RecordGraph
from tests.raising import raises


def tasks(seed=0):
    return linear_regression_tasks(nodes=(6, 6), dim=4, train=20, val=10, test=20, seed=seed)


def model():
    return torch.nn.Linear(4, 1)


def test_the_last_round_is_evaluated_whenever_it_comes():
    result = run(random_peers(samples=2, patience=1, lr=1.0), tasks(), model, rounds=100, evaluate_every=10)
    assert result.data.round < 100
    assert result.history.rounds[-1] == result.data.round
    compared = compare({"r": random_peers}, tasks, model, [0], {"*": {"patience": [1], "lr": [1.0]}}, rounds=50)
    assert compared.values("r")[0] > 0


def test_resuming_a_run_that_has_stopped_changes_nothing(tmp_path):
    settings = {"evaluate_every": 10, "checkpoint": tmp_path}
    method = random_peers(samples=2, patience=1, lr=1.0)
    first = run(method, tasks(), model, rounds=100, **settings)
    again = run(method, tasks(), model, rounds=100, **settings)
    assert differences(first.data, again.data) == []
    assert first.history.rounds == again.history.rounds
    assert torch.equal(first.history.last("test_loss"), again.history.last("test_loss"))


def test_a_phase_without_early_stopping_wakes_all_nodes_up():
    method = Phases(local(epochs=1, lr=1.0, optimizer="adam", patience=2), 30, random_peers(samples=2))
    result = run(method, tasks(), model, rounds=33)
    assert result.data.round == 33
    assert bool(result.data.trains.all())
    assert float(result.data.bytes_sent.min()) >= 0
    assert float(result.data.bytes_sent.sum()) == 3 * 12 * 2 * 4 * 5


def test_a_plateau_counts_as_waiting():
    result = run(local(epochs=1, lr=1e-30, weight_decay=0.0, patience=3), tasks(), model, rounds=15)
    assert result.data.round == 4  # the first round has the best models, three more are no better
    assert bool(result.data.stopped.all())


def test_stopped_nodes_are_compared_by_what_led_to_their_best_models():
    method = dac(metric="cosine_updates", samples=4, patience=2, lr=0.3)
    seen = []

    class Look(RecordGraph):
        def on_round(self, data, history):
            stopped = data.stopped[data.scores.edge_index[0]]
            seen.extend(data.scores.values[stopped].tolist())

    run(method, tasks(), model, rounds=40, callbacks=[Look()])
    assert len(seen) > 10
    assert sum(score == 0 for score in seen) < len(seen) / 10


@pytest.mark.filterwarnings("ignore:.*never played")
def test_no_edges_lead_to_nodes_that_have_stopped():
    method = panm(samples=3, neighbors=2, explore_rounds=200, patience=2, lr=0.5, epochs=3)
    result = run(method, tasks(), model, rounds=15)
    assert bool(result.data.stopped.any())
    sender, receiver = result.data.edge_index
    assert not bool((result.data.stopped[receiver] & (sender != receiver)).any())


def test_a_server_and_early_stopping_of_nodes_do_not_go_together():
    with raises("conflict", "stop"):
        fedavg().replace(stop=EarlyStopping(2))


def test_scores_are_recorded_in_rounds_that_measured():
    result = run(
        pens(samples=3, chosen=1, explore_rounds=2), tasks(), model, rounds=5, callbacks=[RecordGraph(scores=True)]
    )
    assert sorted(result.history.scores) == [1, 2]
    method = panm(samples=3, neighbors=2, explore_rounds=2, every=3)
    result = run(method, tasks(), model, rounds=8, callbacks=[RecordGraph(scores=True)])
    assert sorted(result.history.scores) == [1, 2, 3, 6]


@pytest.mark.parametrize("until", [0, -1, 2.5, True])
def test_phases_begin_in_a_round(until):
    with raises("value", "explore_rounds", "1"):
        pens(explore_rounds=until)


def test_pens_counts_its_own_rounds_and_keeps_few_peers():
    result = run(Phases(local(), 3, pens(samples=4, chosen=2, explore_rounds=8)), tasks(), model, rounds=9)
    assert set(result.data.chosen_rounds.tolist()) == {5}
    edges = torch.tensor([[0, 1, 2], [1, 0, 1]])
    few = linear_regression_tasks(nodes=(2, 1), dim=4, train=20, val=10, test=20)
    result = run(pens(samples=2, explore_rounds=2), few, model, edges, rounds=4)
    sender, receiver = result.data.edge_index
    assert {(j, i) for j, i in zip(sender.tolist(), receiver.tolist(), strict=True) if j != i} == {
        (0, 1),
        (1, 0),
        (2, 1),
    }


def test_everybody_may_meet_everybody_after_a_phase_without_edges():
    result = run(Phases(local(epochs=1), 1, random_peers(samples=2)), tasks(), model, rounds=3)
    assert "allowed" not in result.data
    assert result.data.edge_index.shape[1] == 12 * 3


def test_bytes_of_what_is_measured_beyond_what_is_merged():
    from graphcollab.components import CosineWeights
    from graphcollab.testing import Scene

    parameters, head = 4 * 6 + 6 + 6 * 3 + 3, 6 * 3 + 3
    for metric, floats in ((CosineWeights("all"), parameters), ("cosine_weights", head), ("inverse_loss", parameters)):
        data, _ = Scene.small().play(dac(metric=metric, samples=5, part="head", two_step=None), rounds=1)
        assert data.bytes_sent.tolist() == [4 * 5 * floats] * 6


def test_a_tau_that_grows_does_not_overflow():
    result = run(dac(tau=1e308, growth=0.2, samples=3), tasks(), model, rounds=4)
    assert result.data.edge_index.shape[1] == 12 * 4
