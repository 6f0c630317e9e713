"""The hand case of the paper's equations, played through the real method on real tasks.

One step of SGD with step size 1 on ½‖θ - c‖² from θ = 0 gives Δ = -c: ((1,0), (0,1), (-1,0)).
"""

from __future__ import annotations

import math

import pytest
import torch

from graphcollab.engine import Adam, AdamW
from graphcollab.methods import l2c
from tests.raising import raises

TRAIN = [[[-1.0, 0.0]], [[0.0, -1.0]], [[1.0, 0.0]]]
VAL = [[[0.0, -2.0]], [[0.0, 0.0]], [[0.0, 0.0]]]
PLAIN = {"epochs": 1, "lr": 1.0, "weight_decay": 0.0, "mixer_weight_decay": 0.0}
PAPER = {"own": "softmax", "decoupled": False}


def play(points, **settings):
    method = l2c(**{**PLAIN, **settings})
    data, env = points(TRAIN, VAL).begin(method)
    into_0 = data.edge_index[1] == 0
    assert data.edge_index[0, into_0].tolist() == [0, 1, 2]
    data.edge_logit = data.edge_logit.clone()
    data.edge_logit[into_0] = torch.tensor([0.0, math.log(2), 0.0], dtype=torch.float64)
    return method.play(data, env), into_0


def test_round_of_the_paper(points):
    data, into_0 = play(points, **PAPER)
    assert data.edge_weight[into_0].tolist() == pytest.approx([0.25, 0.5, 0.25])
    assert data.x.part("all")[0].tolist() == pytest.approx([0.0, -0.5])
    assert data.edge_logit[into_0].tolist() == pytest.approx([-0.1, math.log(2) + 0.1, -0.1], abs=1e-6)
    # first moments are a tenth of the gradient
    assert data.edge_logit_exp_avg[into_0].tolist() == pytest.approx([0.01875, -0.0375, 0.01875])
    # every node sends two changes of two floats
    assert data.bytes_sent.tolist() == [16.0, 16.0, 16.0]


def test_round(points):
    """Decay is beside the step, by 1 - 0.1 · 0.5, and the own logit is raised to that of node 1."""
    data, into_0 = play(points, mixer_weight_decay=0.5)
    assert data.edge_weight[into_0].tolist() == pytest.approx([0.25, 0.5, 0.25])
    assert data.x.part("all")[0].tolist() == pytest.approx([0.0, -0.5])
    largest = 0.95 * math.log(2) + 0.1
    assert data.edge_logit[into_0].tolist() == pytest.approx([largest, largest, -0.1], abs=1e-6)
    assert data.edge_logit_exp_avg[into_0].tolist() == pytest.approx([0.01875, -0.0375, 0.01875])
    assert data.bytes_sent.tolist() == [16.0, 16.0, 16.0]


@pytest.mark.parametrize(
    ("variant", "expected"), [("neighbors", [-0.75, -0.5]), ("consistent", [0.0, -0.5]), ("algorithm", [0.25, -0.5])]
)
def test_three_forms_of_equation_2_differ(points, variant, expected):
    data, _ = play(points, variant=variant)
    assert data.x.part("all")[0].tolist() == pytest.approx(expected)


def two_pairs(points, own, rounds):
    """Return the models of two pairs of nodes, and how far apart c - x is in each.

    Logits are 0 for the own model, ln 3 for the other of the pair, -2 for the other pair, and do not learn.
    """
    targets = torch.tensor([1.0, 1.2, -1.0, -1.2], dtype=torch.float64)
    method = l2c(epochs=1, lr=0.5, weight_decay=0.0, mixer_lr=0.0, own=own)
    data, env = points([[[c]] for c in targets.tolist()]).begin(method)
    logit = torch.full((4, 4), -2.0, dtype=torch.float64)
    logit[[0, 1, 2, 3], [0, 1, 2, 3]], logit[[0, 1, 2, 3], [1, 0, 3, 2]] = 0.0, math.log(3)
    data.edge_logit = logit[data.edge_index[1], data.edge_index[0]]
    for _ in range(rounds):
        data = method.play(data, env)
    x = data.x.part("all").flatten()
    return x, ((targets - x)[[1, 3]] - (targets - x)[[0, 2]]).tolist()


def test_following_another_more_than_oneself_diverges(points):
    """x ← x + ½ W (c - x): what sets a pair apart grows by 1 + ½ (b - a) each round, where b > a goes to the other.

    With own logits raised after the first round, b = a: it stays, and pairs come to the means of their targets.
    """
    total = 1 + 3 + 2 * math.exp(-2)
    growth = 1 + 0.5 * (3 - 1) / total
    assert growth == pytest.approx(1.2342, abs=1e-4)
    _, apart = two_pairs(points, "softmax", 60)
    assert apart == pytest.approx([0.2 * growth**60, -0.2 * growth**60])
    assert apart[0] > 5e4
    x, apart = two_pairs(points, "largest", 60)
    assert apart == pytest.approx([0.2 * growth, -0.2 * growth])
    assert [float(x[:2].mean()), float(x[2:].mean())] == pytest.approx([1.1, -1.1])


def test_weakest_neighbors_are_dropped_once_at_their_round(points):
    method = l2c(**{**PLAIN, "drop_round": 1, "drop_count": 1})
    data, env = points(TRAIN, VAL).begin(method)
    edges = []
    for _ in range(4):
        data = method.play(data, env)
        edges.append(data.num_edges)
    assert edges == [9, 6, 6, 6]
    sums = torch.zeros(3, dtype=torch.float64).index_add_(0, data.edge_index[1], data.edge_weight)
    assert sums.tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert (data.edge_index[0] == data.edge_index[1]).sum() == 3, "self-loops stay"


def test_node_without_validation_data_is_named(points):
    method = l2c()
    scene = points(TRAIN, VAL).scene
    splits = {"train": scene.tasks.splits["train"]}
    tasks = type(scene.tasks)(scene.tasks.pools, splits, names=("a", "b", "c"), loss="mse", metric="mse")
    with raises("empty", "split 'val'", "3", "'a'", "'b'", "'c'"):
        scene.replace(tasks=tasks).begin(method)


def test_unknown_variant():
    with raises("value", "variant", "'consistent'", "'neighbors'", "'algorithm'"):
        l2c(variant="both")


def test_settings():
    method, paper = l2c(), l2c(**PAPER)
    for one in (method, paper):
        assert (one.local.optimizer.lr, one.local.optimizer.weight_decay) == (0.01, 5e-4)
        assert (one.local.batch_size, one.local.epochs) == (10, 5)
    assert method.weigh.optimizer == AdamW(lr=0.1, weight_decay=0.01)
    assert paper.weigh.optimizer == Adam(lr=0.1, weight_decay=0.01)
    assert (method.weigh.own, paper.weigh.own) == ("largest", "softmax")


def test_nothing_is_dropped_unless_it_is_said_when(points):
    method = l2c()
    data, env = points(TRAIN, VAL).begin(method)
    for _ in range(15):
        data = method.play(data, env)
    assert data.num_edges == 9
    dropping = l2c(drop_round=10)
    assert (dropping.rewire.at, dropping.rewire.transform.fraction) == (10, 0.9)
