"""FedAMP against hand cases, a fixed point, and plain loops."""

from __future__ import annotations

import math

import pytest
import torch

from graphcollab.methods import fedamp, local
from graphcollab.testing import Scene
from graphcollab.testing.claims import dense
from tests.methods.plain import Plain, mixed
from tests.raising import raises

THETA = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]
TARGETS = [[[0.0, 0.0]], [[2.0, 0.0]], [[0.0, 2.0]]]
WEIGHTS = [[0.806902, 0.183940, 0.009158], [0.183940, 0.812691, 0.003369], [0.009158, 0.003369, 0.987473]]
MIXTURES = [[0.183940, 0.018316], [0.812691, 0.006738], [0.003369, 1.974946]]
SOLVED = [[0.122626, 0.012210], [1.208461, 0.004492], [0.002246, 1.983298]]


def near(rows):
    return [pytest.approx(row, abs=1e-6) for row in rows]


def test_a_round_by_hand(points):
    """Mixtures of given points; then, since F = ½ ‖θ - c‖², a step of η = 1 / (1 + λ / α) solves for θ, and stays."""
    data, env = points(TARGETS).begin(fedamp(lr=0.0, alpha=0.5, sigma=1.0, steps=1), THETA)
    data = fedamp(lr=0.0, alpha=0.5, sigma=1.0, steps=1).play(data, env)
    assert dense(data).tolist() == near(WEIGHTS)
    assert data.x.part("all").tolist() == near(MIXTURES)
    method = fedamp(lr=1 / 3, lam=1.0, alpha=0.5, sigma=1.0, steps=2)
    data = method.play(data, env)
    assert method.models(data, env).part("all").tolist() == near(SOLVED)


@pytest.mark.parametrize("alpha", [0.25, 1.0])
def test_the_fixed_point_does_not_depend_on_alpha(points, alpha):
    method = fedamp(lr=1 / (1 + 1 / alpha), lam=1.0, alpha=alpha, sigma=4.0, steps=2)
    data, env = points([[[-1.0]], [[1.0]]]).begin(method)
    for _ in range(100):
        data = method.play(data, env)
    assert method.models(data, env).part("all").flatten().tolist() == pytest.approx([-0.788267, 0.788267], abs=1e-6)


@pytest.mark.parametrize("sigma", [2.0, "median"])
def test_against_plain_loops(sigma):
    scene, lr, lam, alpha, steps = Scene.small(), 0.2, 0.3, 0.15, 3
    plain = Plain(scene)
    center, weights = [plain.start] * 6, None
    for _ in range(3):
        model = [
            plain.train(center[i], i, steps, lr, lambda theta, u=center[i]: lam / alpha * (theta - u)) for i in range(6)
        ]
        weights = torch.zeros(6, 6, dtype=torch.float64)
        for i in range(6):
            square = {j: float((model[i] - model[j]).square().sum()) for j in range(6) if j != i}
            unit = sorted(square.values())[2] if sigma == "median" else sigma
            for j, x in square.items():
                weights[i, j] = alpha * math.exp(-x / unit) / (1 if sigma == "median" else sigma)
            weights[i, i] = 1 - weights[i].sum()
        center = mixed(model, weights)
    method = fedamp(lr=lr, steps=steps, batch_size=100, lam=lam, alpha=alpha, sigma=sigma)
    data, env = scene.play(method, rounds=3)
    torch.testing.assert_close(method.models(data, env).tensors[0], torch.stack(model), rtol=0, atol=1e-8)
    torch.testing.assert_close(data.x.tensors[0], torch.stack(center), rtol=0, atol=1e-8)
    torch.testing.assert_close(dense(data), weights, rtol=0, atol=1e-8)


def test_what_travels():
    """Everybody's model, once along every edge."""
    data, _ = Scene.small().play(fedamp(lr=0.1, steps=1), rounds=2)
    assert data.bytes_sent.tolist() == [2 * 5 * 4.0 * data.x.specs[0].num_parameters] * 6


def test_nodes_at_rest_keep_the_models_they_are_judged_by():
    method = fedamp(lr=0.1, steps=2, fraction=0.5)
    data, env = Scene.small().begin(method)
    for _ in range(4):
        rests, before = ~data.trains, method.models(data, env).tensors[0]
        data = method.play(data, env)
        assert torch.equal(method.models(data, env).tensors[0][rests], before[rests])
        assert not torch.equal(method.models(data, env).tensors[0], before)


def test_with_no_coupling_nodes_train_from_mixtures_of_near_models():
    """A kernel that reaches nobody leaves local training."""
    train = {"lr": 0.1, "batch_size": 4}
    method = fedamp(epochs=2, lam=0.0, sigma=1e-9, **train)
    data, env = Scene.small().play(method, rounds=2)
    alone = Scene.small().models(local(epochs=2, weight_decay=0.0, **train))
    torch.testing.assert_close(method.models(data, env).tensors[0], alone.tensors[0], rtol=0, atol=1e-12)


def test_own_weights_are_never_negative(points):
    """Models that are equal: five weigh α each, and that is too much."""
    method = fedamp(lr=0.0, alpha=0.5, sigma=1.0, steps=1)
    data, env = points([[[0.0]]] * 6).begin(method)
    weights = dense(method.play(data, env))
    assert weights[0].tolist() == pytest.approx([0.0] + [0.2] * 5)


@pytest.mark.parametrize("setting", [{"alpha": 0.0}, {"sigma": 0.0}, {"sigma": "mean"}, {"lam": -1.0}])
def test_bad_settings(setting):
    with raises("value", *setting):
        fedamp(**setting)
