from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphcollab import l2c, local, run
from graphcollab.models import MLP
from graphcollab.testing import Scene
from graphcollab.train import Callback, HealthCheck, History
from tests.raising import raises, warns

CLUSTER = torch.tensor([4, 9, 9, 4])


def graph(pairs, round_=1, count=4, weight=None):
    """What a round leaves behind: edges as pairs (sender, receiver)."""
    edge_index = torch.tensor(pairs).t().reshape(2, -1)
    weight = torch.ones(len(pairs)) if weight is None else torch.tensor(weight)
    isolated = torch.zeros(count, dtype=torch.bool)
    return Data(edge_index=edge_index, edge_weight=weight, num_nodes=count, round=round_, isolated=isolated)


def names(count):
    return tuple(f"n{k}" for k in range(count))


def watched(before, after, cluster=CLUSTER, higher=True, losses=None, **settings):
    """Return the findings of histories in which node k has the values before[t][k] and after[t][k]."""
    before, after = torch.tensor(before, dtype=torch.float64), torch.tensor(after, dtype=torch.float64)
    history = History(names(before.shape[1]), "accuracy" if higher else "mse", higher)
    check = HealthCheck(cluster, patience=3, **settings)
    check.on_start(None, history, len(before))
    for t in range(len(before)):
        values = {"val_metric_before": before[t], "val_metric_after": after[t]}
        if losses is not None:
            values["val_loss_before"] = torch.tensor(losses[t])
        history.add(2 * t + 1, 0.0, values)
        check.on_evaluate(None, history)
    return history.findings


def each(*levels, nodes=4):
    return [[level] * nodes for level in levels]


# ---- never sampled


def test_nodes_that_nobody_listens_to_are_named_once():
    history, check = History(names(4)), HealthCheck(after=3)
    check.on_round(graph([(1, 0), (0, 0), (3, 3)], 1), history)
    check.on_round(graph([(1, 2), (2, 0)], 2, weight=[1.0, 0.0]), history)
    assert history.findings == []
    with warns("quality", "nodes", "2", "'n2'", "'n3'", "3"):
        check.on_round(graph([(0, 1)], 3), history)
    assert [(f.round, f.kind, f.nodes) for f in history.findings] == [(3, "never sampled", ("n2", "n3"))]
    assert history.heard.tolist() == [1, 2, 0, 0]
    for round_ in range(4, 9):
        check.on_round(graph([(0, 1)], round_), history)  # silent
    assert history.watched == 8


def test_a_round_counts_once_however_many_listen():
    history = History(names(4))
    HealthCheck().on_round(graph([(0, 1), (0, 2), (0, 3)]), history)
    assert history.heard.tolist() == [1, 0, 0, 0]


def test_isolated_nodes_and_methods_without_edges_are_no_trouble():
    history, check = History(names(2)), HealthCheck(after=1)
    data = graph([(0, 1)], count=2)
    data.isolated[1] = True
    check.on_round(data, history)
    assert history.findings == []
    run(local(epochs=1), Scene.small(torch.float32).tasks, MLP(4, (6,), 3), rounds=2, callbacks=[HealthCheck(after=1)])


# ---- cluster death


def test_a_cluster_that_dies():
    # cluster 9, nodes 1 and 2, falls from .8 to .6 (before) and .4 (after) in evaluation 6; the other goes on
    rising = [0.5, 0.6, 0.7, 0.8, 0.8, 0.8]
    before = [[v, v, v, v] for v in rising] + [[0.8, 0.6, 0.6, 0.8]] * 4
    after = [[v, v, v, v] for v in rising] + [[0.8, 0.4, 0.4, 0.8]] * 4
    with pytest.warns(RuntimeWarning) as caught:
        found = watched(before, after)
    # three evaluations are bad in evaluation 8, at round 2 * 8 + 1; the best mean over three before is .8
    assert [(f.round, f.kind, f.nodes) for f in found] == [(17, "cluster death", ("n1", "n2"))]
    text = str(caught[0].message)
    assert len(caught) == 1
    assert text == found[0].text
    assert "cluster 9 of 2 nodes ('n1', 'n2'): merged models are worse than the 0.8 once reached, 3 evaluations" in text
    assert "accuracy is now 0.6 before and 0.4 after merging)" in text
    assert "merge='similarity'" in text


def test_losses_rise_where_clusters_die():
    before, after = each(9.0, 5.0, 2.0, 2.0, 2.0, 6.0, 6.0, 6.0), each(8.0, 4.0, 2.0, 2.0, 2.0, 9.0, 9.0, 9.0)
    with warns("quality", "nodes", "2", "6", "9"):
        found = watched(before, after, higher=False)
    assert [f.nodes for f in found] == [("n0", "n3"), ("n1", "n2")]
    assert watched(before, after, higher=True) == []  # were larger better, it would be a rise


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
    assert watched(before, after) == []


def test_small_groups_may_fluctuate():
    """The fall is no larger than three times what values change by from one evaluation to the next."""
    noisy = [0.7, 0.9] * 6
    assert watched(each(*[0.8] * 15), each(*noisy, 0.55, 0.52, 0.5)) == []
    with pytest.warns(RuntimeWarning):
        assert len(watched(each(*[0.8] * 15), each(*noisy, 0.1, 0.1, 0.1))) == 2


def test_nodes_at_rest_do_not_count():
    """Nodes that have stopped keep the values of their last round, here a bad one."""
    before, after = each(*[0.8] * 9), each(*[0.8] * 5, *[0.4] * 4)
    working = [[float(t)] * 4 for t in range(9)]
    stopped = [[float(min(t, 5))] * 4 for t in range(9)]
    with pytest.warns(RuntimeWarning):
        assert watched(before, after, losses=working)
    assert watched(before, after, losses=stopped) == []


def test_without_clusters_many_nodes_must_suffer_at_once():
    before, after = np.full((9, 20), 0.8), np.full((9, 20), 0.8)
    after[5:, [3, 7]] = 0.3
    with warns("quality", "nodes", "2", "'n3'", "'n7'", "0.8") as caught:
        found = watched(before, after, cluster=None)
    assert [f.nodes for f in found] == [("n3", "n7")]
    assert len(caught) == 1
    after[5:, 7] = 0.8
    assert watched(before, after, cluster=None) == []  # one node alone is no group


@pytest.mark.parametrize("gain", [0.02, 0.0])
@pytest.mark.parametrize("known", [True, False])
def test_no_alarm_in_ordinary_noise(gain, known):
    """Oracle runs: 60 nodes in 3 clusters with 50 validation samples each, drawn anew at every evaluation."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        true = 0.8 - 0.6 * 0.85 ** np.arange(100)[:, None] + 0.02 * rng.normal(size=(100, 1)) + np.zeros((100, 60))
        before = rng.binomial(50, true.clip(0, 1)) / 50
        after = rng.binomial(50, (true + gain).clip(0, 1)) / 50
        assert watched(before, after, cluster=torch.arange(60) % 3 if known else None) == []


def test_a_dying_cluster_is_found_in_noise():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        true = np.full((60, 60), 0.8)
        true[40:, :20] -= 0.15
        before = rng.binomial(50, true) / 50
        after = rng.binomial(50, true - 0.1 * (true < 0.8)) / 50
        with pytest.warns(RuntimeWarning):
            found = watched(before, after, cluster=torch.arange(60) // 20)
        assert [f.nodes for f in found] == [tuple(f"n{k}" for k in range(20))]
        assert 2 * 42 + 1 <= found[0].round <= 2 * 45 + 1


# ---- runs


@dataclass
class Merging(Callback):
    """Puts made-up values of merging into a run's history: node 0 and 1 die from evaluation ``death`` on."""

    death: int

    def on_start(self, data, history, rounds):
        self.history = history

    def values(self):
        found = {}
        for when in ("before", "after"):
            hit = torch.full((6,), 0.8, dtype=torch.float64)
            hit[:2] -= (0.4 if when == "after" else 0.2) * (len(self.history) + 1 >= self.death)
            found[f"val_metric_{when}"] = hit
        return found


def play(rounds, folder=None):
    tasks = replace(Scene.small(torch.float32).tasks, cluster=torch.tensor([0, 0, 1, 1, 2, 2]))
    edges = torch.tensor([[1, 0, 3, 2, 1], [0, 1, 2, 3, 4]])  # nobody listens to 4 and 5
    check = HealthCheck(tasks.cluster, after=3, patience=2)
    method = l2c(epochs=1, lr=0.1, batch_size=4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        result = run(
            method,
            tasks,
            lambda: MLP(4, (6,), 3),
            graph=edges,
            rounds=rounds,
            callbacks=[Merging(5), check],
            checkpoint=folder,
        )
    return result.history, [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)]


def test_a_resumed_run_finds_the_same_and_warns_once(tmp_path):
    straight, told = play(8)
    assert [(f.round, f.kind, f.nodes) for f in straight.findings] == [
        (3, "never sampled", ("node 4", "node 5")),
        (6, "cluster death", ("node 0", "node 1")),
    ]
    assert len(told) == 2
    heard = []
    for rounds in (2, 5, 7, 8):
        history, texts = play(rounds, tmp_path)
        heard += texts
    assert heard == told
    assert history.findings == straight.findings
    assert history.heard.tolist() == straight.heard.tolist()
    assert history.watched == 8


def test_what_was_found_at_a_forgotten_evaluation_is_forgotten():
    history = History(names(4))
    history.rounds = [2, 4]
    with pytest.warns(RuntimeWarning):
        history.findings = [
            *watched(each(*[0.8] * 6), each(*[0.8] * 3, *[0.4] * 3)),
            *watched(each(*[0.8] * 6, nodes=2), each(*[0.8] * 3, *[0.4] * 3, nodes=2), torch.zeros(2)),
        ]
    history.findings[-1] = replace(history.findings[-1], round=4)
    HealthCheck().on_start(None, history, 9)
    assert [f.round for f in history.findings] == [4]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"after": 0}, ("value", "after")),
        ({"patience": True}, ("value", "patience")),
    ],
)
def test_bad_settings(settings, message):
    with raises(*message):
        HealthCheck(**settings)


def test_clusters_of_other_nodes():
    with raises("shape", "cluster", "3", "4"):
        HealthCheck(CLUSTER).on_start(None, History(names(3)), 1)


def test_ruined_models_are_a_death_even_if_merging_makes_them_no_worse():
    history = History(("a", "b"))
    for value in [0.9] * 12 + [0.5] * 8:
        both = torch.tensor([value, value])
        history.add(len(history) + 1, 0.0, {"val_metric_before": both, "val_metric_after": both})
    with warns("quality", "nodes", "0.9"):
        HealthCheck(torch.tensor([0, 0])).on_evaluate(Data(), history)
    assert [finding.kind for finding in history.findings] == ["cluster death"]
