from __future__ import annotations

import pytest
import torch

from graphcollab.methods import dpsgd
from tests.raising import raises

PLAIN = {"lr": 0.1, "weight_decay": 0.0, "batch_size": 1}


@pytest.mark.parametrize("weights", ["metropolis", "uniform"])
def test_gradient_is_taken_before_mixing(points, weights):
    """x = (0, 2), g = (1, 0), η = 0.1, W = ½ gives (0.9, 1); mixing first, or descending first, does not."""
    method = dpsgd(weights=weights, **PLAIN)
    data, env = points([[[-1.0]], [[2.0]]]).begin(method, [[0.0], [2.0]])
    after = method.play(data, env)
    assert after.edge_weight.tolist() == [0.5] * 4
    assert after.x.part("all").flatten().tolist() == pytest.approx([0.9, 1.0])
    assert after.bytes_sent.tolist() == [8.0 / 2] * 2  # one float to the one neighbor


def test_nodes_at_their_optimum_meet_in_the_middle(points):
    method = dpsgd(**PLAIN)
    data, env = points([[[0.0]], [[2.0]]]).begin(method, [[0.0], [2.0]])
    assert method.play(data, env).x.part("all").flatten().tolist() == pytest.approx([1.0, 1.0])


def test_several_epochs_then_mixing(points):
    """Two steps on ½(θ - c)² with η = ½ leave a quarter of the distance; then both average."""
    method = dpsgd(epochs=2, lr=0.5, weight_decay=0.0, batch_size=1)
    data, env = points([[[4.0]], [[0.0]]]).begin(method, [[0.0], [8.0]])
    assert method.play(data, env).x.part("all").flatten().tolist() == pytest.approx([2.5, 2.5])


def test_mean_is_preserved_and_consensus_follows_the_second_eigenvalue(points):
    """On a ring of six, Metropolis weights are circulant (⅓, ⅓, ⅓) with second eigenvalue ⅔."""
    node = list(range(6))
    edges = [node + node, [(k + 1) % 6 for k in node] + [(k - 1) % 6 for k in node]]
    start = torch.cos(torch.arange(6) * torch.pi / 3)  # the eigenvector
    targets = [[[float(value)]] for value in start]
    method = dpsgd(lr=0.0, weight_decay=0.0)
    data, env = points(targets, edges=edges).begin(method, [[5 + float(value)] for value in start])
    for round_ in range(1, 6):
        data = method.play(data, env)
        expected = 5 + (2 / 3) ** round_ * start.double()
        torch.testing.assert_close(data.x.part("all")[:, 0], expected, rtol=1e-5, atol=1e-6)


def test_refusals(points):
    with raises("value", "weights", "'metropolis'", "'uniform'", "'equal'"):
        dpsgd(weights="equal")
    with raises("disconnected", "graph"):
        points([[[0.0]], [[0.0]]], edges=[[0], [1]]).begin(dpsgd())


def test_only_nodes_at_work_mix(points):
    """Node 2 rests: the others mix among themselves, and give themselves what was meant for it."""
    method = dpsgd(epochs=1, lr=0.0, weights="uniform")
    data, env = points([[[0.0]]] * 3).begin(method, x=[[0.0], [3.0], [9.0]])
    data.trains = data.serves = torch.tensor([True, True, False])
    after = method.play(data, env)
    assert after.x.part("all").flatten().tolist() == pytest.approx([1.0, 2.0, 9.0])
    assert after.bytes_sent.tolist() == [4.0, 4.0, 0.0]
