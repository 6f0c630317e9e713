from __future__ import annotations

import math

import pytest
import torch

from graphcollab import Method, run
from graphcollab.components import Fit, SampleNodes
from graphcollab.engine import SGD
from graphcollab.methods import fc
from graphcollab.testing import Scene

PLAIN = {"weight_decay": 0.0, "batch_size": 1}


def test_round_by_hand(points):
    """At 0 the gradients are 1, 1.1 and 5; with τ = ½ node 0 steps along 1.0333, and in the end along 1.05."""
    for iterations, expected in ((1, 1.0333), (60, 1.05)):
        method = fc(tau=0.5, iterations=iterations, lr=0.1, **PLAIN)
        data, env = points([[[-1.0]], [[-1.1]], [[-5.0]]]).begin(method, [[0.0]] * 3)
        after = method.play(data, env)
        assert after.x.part("all")[0].item() == pytest.approx(-0.1 * expected, abs=1e-5)
        rows = torch.zeros(3, dtype=torch.float64).index_add_(0, after.edge_index[1], after.edge_weight)
        assert rows.tolist() == pytest.approx([1.0] * 3)
        assert after.bytes_sent.tolist() == [4.0 * 2 * 2] * 3  # model there and gradient back; nothing is mixed


def test_gradients_are_those_of_the_own_model_on_the_others_data(points):
    """x = (0, 2), targets (3, 7): at 0 the gradients are -3 and -7, at 2 they are -1 and -5.

    The other way round, of the others' models on the own data, they would be -3 and -1, and -5 and -7.
    """
    method = fc(tau=math.inf, iterations=1, lr=1.0, **PLAIN)
    data, env = points([[[3.0]], [[7.0]]]).begin(method, [[0.0], [2.0]])
    assert method.play(data, env).x.part("all").flatten().tolist() == pytest.approx([5.0, 5.0])


def test_tau_0_is_local_sgd():
    scene = Scene.small()
    alone = Method("local", Fit(steps=1, batch_size=4, optimizer=SGD(lr=0.1, weight_decay=0.01)))
    one = scene.models(fc(tau=0.0, lr=0.1, weight_decay=0.01, batch_size=4), rounds=4)
    torch.testing.assert_close(one.tensors[0], scene.models(alone, rounds=4).tensors[0], rtol=1e-13, atol=1e-15)


def test_infinite_tau_is_synchronous_sgd():
    """All start alike and step along the mean gradient, so all stay alike: one model on everybody's batches."""
    scene = Scene.small()
    data, env = scene.begin(fc(tau=math.inf, iterations=1, lr=0.1, batch_size=4))
    method = fc(tau=math.inf, iterations=1, lr=0.1, batch_size=4)
    local = Method("local", Fit(steps=1, batch_size=4, optimizer=SGD(lr=0.1, weight_decay=5e-4)))
    central = scene.begin(local)[0]
    for _ in range(4):
        data, central = method.play(data, env), local.play(central, env)
        mean = central.x.tensors[0].mean(0).expand(6, -1).clone()
        central.x = central.x.like([mean])
        torch.testing.assert_close(data.x.tensors[0], mean)


def test_two_clusters_separate(points):
    """Six nodes around each of two targets: everybody ends at the mean of its own cluster, and weighs nobody else."""
    draw = torch.Generator().manual_seed(0)
    targets = torch.cat([torch.randn(6, 2, generator=draw) - 9, torch.randn(6, 2, generator=draw) + 9]).double()
    method = fc(quantile=5.5 / 12, iterations=30, lr=0.3, **PLAIN)
    data, env = points([[t] for t in targets.tolist()]).begin(method, [[0.0, 0.0]] * 12)
    for _ in range(60):
        data = method.play(data, env)
    found = data.x.part("all")
    torch.testing.assert_close(found[:6], targets[:6].mean(0).expand(6, -1), rtol=0, atol=1e-6)
    torch.testing.assert_close(found[6:], targets[6:].mean(0).expand(6, -1), rtol=0, atol=1e-6)
    sender, receiver = data.edge_index
    assert float(data.edge_weight[(sender < 6) != (receiver < 6)].max()) == 0.0
    assert float(data.edge_weight[(sender < 6) == (receiver < 6)].min()) > 0.16


def test_everybody_asks_everybody_by_default():
    scene = Scene.small()
    result = run(fc(lr=0.1), scene.tasks, scene.modules[0], rounds=2)
    assert result.data.num_edges == 36
    parameters = result.data.x.specs[0].num_parameters
    assert result.data.bytes_sent.tolist() == [2 * 4.0 * 5 * 2 * parameters] * 6


def test_only_nodes_that_are_sampled_play():
    method = fc(lr=0.1).replace(rewire=SampleNodes(0.5))
    data, env = Scene.small().play(method, rounds=1)
    assert int(data.trains.sum()) == 3
    after = method.play(data, env)
    moved = (after.x.tensors[0] != data.x.tensors[0]).any(1)
    assert torch.equal(moved, data.trains)
    sent = after.bytes_sent - data.bytes_sent
    parameters = data.x.specs[0].num_parameters
    assert sent.tolist() == [4.0 * 2 * 2 * parameters * float(at_work) for at_work in data.trains]
