"""PENS, PANM and the baselines: whom nodes meet, count, keep and listen to."""

from __future__ import annotations

import pytest
import torch

from graphcollab import Tasks, run
from graphcollab.analysis.metrics.traffic import cluster_traffic
from graphcollab.data.partition import linear_regression_tasks
from graphcollab.engine import SGD
from graphcollab.methods import local, oracle, panm, pens, random_peers
from graphcollab.methods.method import last_graph
from graphcollab.testing import Scene
from graphcollab.train import RecordGraph
from tests.methods.forms import check_form
from tests.raising import raises


def chosen(data):
    edge_index, weight = last_graph(data)
    kept = (weight > 0) & (edge_index[0] != edge_index[1])
    return {i: sorted(edge_index[0, kept & (edge_index[1] == i)].tolist()) for i in range(data.num_nodes)}


def test_contract_of_bags_that_are_kept():
    check_form(panm(neighbors=2, samples=2, every=1, epochs=1))


@pytest.mark.parametrize("measure", ["bag", "sample"])
def test_contract_of_augmentation(measure):
    check_form(
        panm(
            metric="cosine_weights",
            neighbors=2,
            samples=2,
            explore_rounds=1,
            every=2,
            measure=measure,
            patience=2,
            epochs=1,
        )
    )


def test_pens_merges_with_the_best_of_those_it_met(points):
    # Node 0 has the target 0; the others' models are 1, 2 and 4: those of nodes 1 and 2 have the smallest losses.
    scene = points([[[0.0]], [[1.0]], [[2.0]], [[4.0]]])
    method = pens(samples=3, chosen=2, explore_rounds=5, optimizer=SGD(lr=0.0))
    data, env = scene.begin(method, [[0.0], [1.0], [2.0], [4.0]])
    after = method.play(data, env)
    assert chosen(after) == {0: [1, 2], 1: [0, 2], 2: [0, 1], 3: [1, 2]}
    assert after.x.part("all")[0].tolist() == [1.0]
    assert after.chosen.edge_index[:, after.chosen.edge_index[1] == 0].tolist() == [[1, 2], [0, 0]]
    assert after.bytes_sent.tolist() == [12.0] * 4  # everybody's model traveled to three others


def test_pens_listens_to_those_chosen_more_often_than_by_chance():
    tasks = linear_regression_tasks(nodes=(6, 6), seed=0)
    method = pens(samples=4, chosen=2, explore_rounds=15, lr=0.1, batch_size=5)
    result = run(method, tasks, torch.nn.Linear(10, 1), rounds=20, callbacks=[RecordGraph()])
    counts, neighbors = result.data.chosen, result.data.neighbors
    assert int(counts.values.sum()) == 12 * 2 * 15
    assert torch.equal(neighbors.values, counts.values[counts.values > 15 * 2 / 11])
    _, mean = cluster_traffic({20: result.history.graphs[20]}, tasks.cluster)
    assert float(mean[0]) > 0.8  # by chance 5 / 11


def test_pens_keeps_all_peers_where_there_are_no_more_than_it_chooses():
    method = pens(samples=5, chosen=5, explore_rounds=1)  # everybody is chosen once, as by chance
    one, _ = Scene.small().play(method, rounds=2)
    assert chosen(one) == {i: [j for j in range(6) if j != i] for i in range(6)}


@pytest.mark.filterwarnings("ignore:.*never played")
def test_panm_keeps_the_most_similar():
    # Cosines of updates are 1 inside the clusters of nodes that see the same data, and lower between them.
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))
    y = torch.arange(8) % 2
    tasks = Tasks.from_samples([(x, y)] * 3 + [(x, 1 - y)] * 3, val_fraction=0)
    method = panm(neighbors=2, samples=3, explore_rounds=8, every=2, batch_size=8)
    result = run(method, tasks, torch.nn.Linear(3, 2), rounds=8, callbacks=[RecordGraph()])
    assert chosen(result.data) == {0: [1, 2], 1: [0, 2], 2: [0, 1], 3: [4, 5], 4: [3, 5], 5: [3, 4]}
    member = result.data.edge_index[:, result.data.edge_member]
    assert member.shape[1] == 12


@pytest.mark.parametrize(("metric", "measure"), [(None, "bag"), ("cosine_weights", "sample"), ("inverse_loss", "bag")])
def test_panm_works_with_every_metric(metric, measure):
    """Published code never records new candidates with a cosine, and its bags never grow."""
    tasks = linear_regression_tasks(nodes=(10, 10), seed=0)
    method = panm(
        metric=metric, neighbors=2, samples=4, explore_rounds=8, every=2, measure=measure, lr=0.1, batch_size=5
    )
    result = run(method, tasks, torch.nn.Linear(10, 1), rounds=30, callbacks=[RecordGraph()], evaluate_every=30)
    bag = result.data.bag.edge_index
    cluster = tasks.cluster
    inside = cluster[bag[0]] == cluster[bag[1]]
    assert float(inside.double().mean()) > 0.9
    assert bag.shape[1] > 1.5 * 2 * 20  # bags have grown beyond the two neighbors of the first stage


def test_panm_with_a_cosine_is_as_good_as_the_oracle():
    tasks = linear_regression_tasks(nodes=(10, 10, 10), seed=1)
    train = {"lr": 0.1, "batch_size": 5, "patience": 50}
    ours = run(panm(explore_rounds=10, merge="softmax", **train), tasks, torch.nn.Linear(10, 1), rounds=40)
    known = run(oracle(samples=5, **train), tasks, torch.nn.Linear(10, 1), rounds=40)
    bag = ours.data.bag.edge_index
    assert bool((tasks.cluster[bag[0]] == tasks.cluster[bag[1]]).all())
    assert ours.summary()["mean"] < 1.05 * known.summary()["mean"]


def test_bags_stay_as_they_are_where_nobody_new_is_left():
    scene = Scene.small()
    method = panm(neighbors=5, samples=5, explore_rounds=1, every=1)  # all five others are in the bag
    data, _ = scene.play(method, rounds=4)
    assert data.bag.edge_index.shape[1] == 30


def test_oracle_meets_its_cluster_and_random_everybody():
    tasks = linear_regression_tasks(nodes=(5, 5), seed=0)
    model = torch.nn.Linear(10, 1)
    inside = run(oracle(samples=3), tasks, model, rounds=4, callbacks=[RecordGraph()]).history.graphs
    assert cluster_traffic(inside, tasks.cluster)[1].tolist() == [1.0] * 4
    mixed = run(random_peers(samples=9), tasks, model, rounds=2, callbacks=[RecordGraph()]).history.graphs
    assert cluster_traffic(mixed, tasks.cluster)[1].tolist() == pytest.approx([4 / 9] * 2)


def test_an_oracle_needs_clusters():
    x, y = torch.randn(6, 3), torch.arange(6) % 2
    with raises("missing", "cluster"):
        run(oracle(samples=1), Tasks.from_samples([(x, y)] * 3), torch.nn.Linear(3, 2), rounds=1)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: pens(samples=2, chosen=3), ("conflict", "chosen", "chosen=3", "samples=2")),
        (lambda: panm(neighbors=0), ("value", "neighbors")),
        (lambda: panm(merge="fedsim"), ("value", "merge", "'fedsim'")),
        (lambda: panm(metric="inverse_loss", merge="softmax"), ("conflict", "merge", "InverseLoss")),
        (lambda: panm(every=2.5), ("value", "every", "2.5")),
        (lambda: panm(measure="all"), ("value", "measure", "'all'")),
        (lambda: random_peers(samples=0), ("value", "samples")),
        (lambda: random_peers(samples=2, patience=0), ("value", "patience")),
        (
            lambda: random_peers(samples=2, optimizer="lbfgs"),
            ("value", "optimizer", "'lbfgs'"),
        ),
    ],
)
def test_bad_settings(make, error):
    with raises(*error):
        make()


def test_no_communication_with_adam_and_early_stopping():
    tasks = linear_regression_tasks(nodes=(3, 3), seed=0)
    result = run(
        local(epochs=1, lr=0.1, weight_decay=0.0, batch_size=5, optimizer="adam", patience=50),
        tasks,
        torch.nn.Linear(10, 1),
        rounds=3,
    )
    assert result.history.last("bytes_sent").tolist() == [0] * 6
    assert "best_x" in result.data


def test_a_graph_that_is_given_says_who_may_meet_whom():
    edges = torch.tensor([[1, 2, 0, 3], [0, 0, 1, 2]])
    scene = Scene.small()
    result = run(random_peers(samples=3), scene.tasks, list(scene.modules), edges, rounds=3, callbacks=[RecordGraph()])
    allowed = set(zip(*edges.tolist(), strict=True))
    for edge_index, _ in result.history.graphs.values():
        met = {(j, i) for j, i in zip(*edge_index.tolist(), strict=True) if j != i}
        assert met == allowed  # nobody may meet more than three
