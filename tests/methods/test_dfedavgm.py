from __future__ import annotations

import pytest
import torch

from graphcollab.components import Uniform
from graphcollab.methods import dfedavgm, dpsgd
from graphcollab.testing import Scene, differences
from tests.raising import raises

RING = [[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]]


def flat(data):
    return data.x.part("all").flatten().tolist()


def test_two_steps_of_the_heavy_ball(points):
    """f = ½x², x = 1, η = 0.1, θ = 0.5: y = 0.9, then 0.9 - 0.09 + 0.5 (0.9 - 1) = 0.76. Alone, a node keeps that."""
    for steps, expected in ((1, 0.9), (2, 0.76)):
        method = dfedavgm(steps=steps, lr=0.1, momentum=0.5, batch_size=1)
        data, env = points([[[0.0]]]).begin(method, [[1.0]])
        assert flat(method.play(data, env)) == pytest.approx([expected])


def test_momentum_starts_afresh_every_round(points):
    """From 0.76, again without a past: 0.684, then 0.684 - 0.0684 - 0.038 = 0.5776 = 0.76²."""
    method = dfedavgm(steps=2, lr=0.1, momentum=0.5, batch_size=1)
    data, env = points([[[0.0]]]).begin(method, [[1.0]])
    data = method.play(method.play(data, env), env)
    assert flat(data) == pytest.approx([0.5776])
    assert "fit_state" not in data


def test_results_are_mixed_and_not_starts(points):
    """z = (0.76, 1.52, …); on a ring of four W is a third for each of three: (z_0 + z_1 + z_3) / 3."""
    method = dfedavgm(steps=2, lr=0.1, momentum=0.5, batch_size=1)
    data, env = points([[[0.0]]] * 4, edges=RING).begin(method, [[1.0], [2.0], [3.0], [4.0]])
    after = method.play(data, env)
    expected = [0.76 * (1 + 2 + 4) / 3, 0.76 * (1 + 2 + 3) / 3, 0.76 * (2 + 3 + 4) / 3, 0.76 * (1 + 3 + 4) / 3]
    assert flat(after) == pytest.approx(expected)
    assert after.bytes_sent.tolist() == [8.0] * 4  # one float to each of two neighbors


def test_weights_are_symmetric_and_doubly_stochastic(points):
    star = [[0, 1, 0, 2, 0, 3], [1, 0, 2, 0, 3, 0]]
    method = dfedavgm(lr=0.0)
    data, env = points([[[0.0]]] * 4, edges=star).begin(method, [[1.0], [2.0], [3.0], [6.0]])
    after = method.play(data, env)
    weight = torch.zeros(4, 4).index_put((after.edge_index[1], after.edge_index[0]), after.edge_weight.float())
    assert torch.equal(weight, weight.T)
    torch.testing.assert_close(weight.sum(0), torch.ones(4))
    assert sum(flat(after)) == pytest.approx(12.0)  # so the mean is preserved


def test_without_momentum_it_is_dpsgd_with_local_epochs():
    settings = {"epochs": 2, "lr": 0.1, "batch_size": 4, "weight_decay": 0.01}
    scene = Scene.small()
    (one, _), (two, _) = scene.play(dfedavgm(momentum=0.0, **settings)), scene.play(dpsgd(**settings))
    assert differences(one, two) == []


def test_refusals(points):
    with raises("value", "momentum", "1"):
        dfedavgm(momentum=-1)
    with raises("value", "steps", "0"):
        dfedavgm(steps=0)
    directed = points([[[0.0]], [[4.0]]], edges=[[0], [1]])
    with raises("disconnected", "graph"):
        directed.begin(dfedavgm())
    method = dfedavgm(lr=0.0).replace(weigh=Uniform())
    data, env = directed.begin(method, [[0.0], [4.0]])
    assert flat(method.play(data, env)) == [0.0, 2.0]
