"""What callbacks of reproductions see: merging, clusters that die of it, and similarities."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from examples.benchmark._watch import MERGING, ProbeSimilarity, WatchDeaths, WatchMerging
from graphcollab import Method, methods
from graphcollab.components import CosineWeights, Exchange, Fit, Uniform
from graphcollab.engine import SGD
from graphcollab.persistence import History
from graphcollab.testing import differences
from graphcollab.train import RecordGraph
from graphcollab.transforms import WithSelfLoops
from tests.train.test_observers import QUICK, play

CLUSTER = torch.tensor([4, 9, 9, 4])


def test_validation_before_and_after_merging_by_hand(points):
    # Targets 0 and 4, both nodes at 0: after the step x = (0, 2), merged to 1. Losses 0 and 2, then 0.5 and 4.5.
    scene = points([[[0.0]], [[4.0]]])
    fit = Fit(steps=1, batch_size=10, optimizer=SGD(lr=0.5))
    method = Method("mean", fit, Uniform(), Exchange("zero", "x"), prepare=WithSelfLoops())
    data, env = scene.begin(method)
    watch, history = WatchMerging(), History(("a", "b"))
    watch.on_start(data, history, 1)
    assert all(value.isnan().all() for value in watch.values().values())
    data = method.play(data, env._replace(observers=(watch,)))
    watch.on_round(data, history)
    assert {*watch.values()} == {*MERGING}
    assert watch.values()["val_loss_before"].tolist() == [0, 2]
    assert watch.values()["val_loss_after"].tolist() == [0.5, 4.5]
    assert watch.values()["val_metric_before"].tolist() == [0, 4]  # the mean squared error


def test_what_is_watched_is_in_the_history_and_changes_nothing():
    plain, seen = play(methods.l2c(**QUICK)), play(methods.l2c(**QUICK), [WatchMerging()])
    assert differences(plain.data, seen.data) == []
    assert set(seen.history.values) == {*plain.history.values, *MERGING}
    assert torch.equal(seen.history.table("val_loss_after"), seen.history.table("val_loss"))
    assert not bool(seen.history.table("val_loss_before").isnan().any())


def test_a_resumed_run_has_watched_the_same(tmp_path):
    """Also of nodes that do not train in the last round, whose values are of an earlier one."""
    method, often = methods.fedavg(**QUICK, fraction=0.5), {"evaluate_every": 2}
    straight = play(method, [WatchMerging()], rounds=6, **often).history
    play(method, [WatchMerging()], tmp_path, rounds=3, **often)
    resumed = play(method, [WatchMerging()], tmp_path, rounds=6, **often).history
    assert differences(straight.values, resumed.values) == []
    assert differences(straight.observed, resumed.observed) == []


def test_one_may_begin_to_watch_a_run_that_is_resumed(tmp_path):
    play(methods.dpsgd(**QUICK), folder=tmp_path, rounds=2)
    history = play(methods.dpsgd(**QUICK), [WatchMerging()], tmp_path, rounds=4).history
    assert history.table("val_loss_before").isnan().all(1).tolist() == [True, True, False, False]
    assert history.table("val_loss").shape == (4, 6)


def test_probes_measure_without_a_trace(tmp_path):
    probe = ProbeSimilarity(CosineWeights("all"))
    method = methods.dac(**QUICK, samples=2)
    plain, seen = play(method), play(method, [RecordGraph(scores=True), probe])
    assert differences(plain.data, seen.data) == []
    assert sorted(seen.history.scores) == [1, 2, 3, 4]
    edge_index, values = seen.history.scores[2]
    assert sorted(edge_index.T.tolist()) == sorted([j, i] for i in range(6) for j in range(6) if j != i)
    assert values.dtype == torch.float64
    play(method, [RecordGraph(scores=True), probe], tmp_path, rounds=2)
    resumed = play(method, [RecordGraph(scores=True), probe], tmp_path)
    assert differences(seen.history.scores, resumed.history.scores) == []


def deaths(before, after, cluster=CLUSTER, higher=True, losses=None):
    """Return what is found in histories in which node k has the values before[t][k] and after[t][k]."""
    before, after = torch.tensor(before, dtype=torch.float64), torch.tensor(after, dtype=torch.float64)
    history = History(tuple(f"n{k}" for k in range(before.shape[1])), "accuracy" if higher else "mse", higher)
    check = WatchDeaths(cluster, patience=3)
    check.on_start(None, history, len(before))
    for t in range(len(before)):
        values = {"val_metric_before": before[t], "val_metric_after": after[t]}
        if losses is not None:
            values["val_loss_before"] = torch.tensor(losses[t])
        history.add(2 * t + 1, 0.0, values)
        check.on_evaluate(None, history)
    return check.deaths


def each(*levels, nodes=4):
    return [[level] * nodes for level in levels]


def test_a_cluster_that_dies():
    # cluster 9, nodes 1 and 2, falls from .8 to .6 (before) and .4 (after) in evaluation 6; the other goes on
    rising = [0.5, 0.6, 0.7, 0.8, 0.8, 0.8]
    before = [[v, v, v, v] for v in rising] + [[0.8, 0.6, 0.6, 0.8]] * 4
    after = [[v, v, v, v] for v in rising] + [[0.8, 0.4, 0.4, 0.8]] * 4
    with pytest.warns(RuntimeWarning, match="cluster 9 dies") as caught:
        found = deaths(before, after)
    # three evaluations are bad in evaluation 8, at round 2 * 8 + 1; the best mean over three before is .8
    assert found == {9: 17}
    assert len(caught) == 1


def test_losses_rise_where_clusters_die():
    before, after = each(9.0, 5.0, 2.0, 2.0, 2.0, 6.0, 6.0, 6.0), each(8.0, 4.0, 2.0, 2.0, 2.0, 9.0, 9.0, 9.0)
    with pytest.warns(RuntimeWarning):
        assert [*deaths(before, after, higher=False)] == [4, 9]
    assert deaths(before, after, higher=True) == {}  # were larger better, it would be a rise


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (each(0.5, 0.6, 0.7, 0.7, 0.7, 0.7, 0.7), each(0.3, 0.4, 0.5, 0.5, 0.5, 0.5, 0.5)),  # hurts from the start
        (
            each(0.8, 0.8, 0.8, 0.65, 0.64, 0.63, 0.62),
            each(0.8, 0.8, 0.8, 0.69, 0.68, 0.67, 0.66),
        ),  # overfitting: merging helps
        (each(*[0.8] * 9), each(*[0.8] * 3, 0.3, 0.3, 0.8, 0.3, 0.3, 0.8)),  # never three in a row
        (each(*[0.8] * 9), each(*[0.8] * 4, *[0.75] * 5)),  # a loss of 6 %
        (each(0.8, 0.8, *[0.8] * 3), each(0.8, 0.8, *[0.4] * 3)),  # too few evaluations to know
        (each(*[0.8] * 9), each(*[0.8] * 4, *[math.nan] * 5)),
        (each(*[math.nan] * 9), each(*[math.nan] * 9)),
    ],
)
def test_what_is_no_death(before, after):
    assert deaths(before, after) == {}


def test_small_groups_may_fluctuate():
    """The fall is no larger than three times what values change by from one evaluation to the next."""
    noisy = [0.7, 0.9] * 6
    assert deaths(each(*[0.8] * 15), each(*noisy, 0.55, 0.52, 0.5)) == {}
    with pytest.warns(RuntimeWarning):
        assert len(deaths(each(*[0.8] * 15), each(*noisy, 0.1, 0.1, 0.1))) == 2


def test_nodes_at_rest_do_not_count():
    """Nodes that have stopped keep the values of their last round, here a bad one."""
    before, after = each(*[0.8] * 9), each(*[0.8] * 5, *[0.4] * 4)
    working = [[float(t)] * 4 for t in range(9)]
    stopped = [[float(min(t, 5))] * 4 for t in range(9)]
    with pytest.warns(RuntimeWarning):
        assert deaths(before, after, losses=working)
    assert deaths(before, after, losses=stopped) == {}


@pytest.mark.parametrize("gain", [0.02, 0.0])
def test_no_alarm_in_ordinary_noise(gain):
    """Oracle runs: 60 nodes in 3 clusters with 50 validation samples each, drawn anew at every evaluation."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        true = 0.8 - 0.6 * 0.85 ** np.arange(100)[:, None] + 0.02 * rng.normal(size=(100, 1)) + np.zeros((100, 60))
        before = rng.binomial(50, true.clip(0, 1)) / 50
        after = rng.binomial(50, (true + gain).clip(0, 1)) / 50
        assert deaths(before, after, cluster=torch.arange(60) % 3) == {}


def test_a_dying_cluster_is_found_in_noise():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        true = np.full((60, 60), 0.8)
        true[40:, :20] -= 0.15
        before = rng.binomial(50, true) / 50
        after = rng.binomial(50, true - 0.1 * (true < 0.8)) / 50
        with pytest.warns(RuntimeWarning):
            found = deaths(before, after, cluster=torch.arange(60) // 20)
        assert [*found] == [0]
        assert 2 * 42 + 1 <= found[0] <= 2 * 45 + 1


def test_a_resumed_run_finds_the_same_and_ruined_models_are_a_death_even_if_merging_makes_them_no_worse():
    history, check = History(("a", "b")), WatchDeaths(torch.tensor([0, 0]))
    for value in [0.9] * 12 + [0.5] * 8:
        both = torch.tensor([value, value])
        history.add(len(history) + 1, 0.0, {"val_metric_before": both, "val_metric_after": both})
    check.on_start(Data(), history, 1)
    with pytest.warns(RuntimeWarning):
        check.on_evaluate(Data(), history)
    assert check.deaths == {0: 17}
