"""HeurFedAMP against a hand case and plain loops."""

from __future__ import annotations

import math

import pytest
import torch

from graphcollab.methods import heurfedamp
from graphcollab.testing import Scene
from graphcollab.testing.claims import dense
from tests.methods.plain import Plain, mixed
from tests.raising import raises

THETA = [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [-1.0, 0.0]]
TARGETS = [[[4.0, -2.0]], [[1.0, 1.0]], [[0.0, 1.0]], [[-1.0, 0.0]]]


def near(row):
    return pytest.approx(row, abs=1e-6)


def test_a_round_by_hand(points):
    """Mixtures of given points; then, since F = ½ ‖θ - c‖², a step of η = 1 / (1 + λ / α) = ⅓ solves for θ."""
    settings = {"lam": 0.2, "alpha": 0.1, "sigma": 1.0, "own": 0.4, "steps": 1}
    data, env = points(TARGETS).begin(heurfedamp(lr=0.0, **settings), THETA)
    data = heurfedamp(lr=0.0, **settings).play(data, env)
    weights = dense(data).tolist()
    assert weights[0] == near([0.4, 0.358325, 0.176679, 0.064996])
    assert weights[1] == near([0.267485, 0.4, 0.267485, 0.065030])
    assert data.x.part("all")[0].tolist() == near([0.693328, 0.535004])
    method = heurfedamp(lr=1 / 3, **settings)
    data = method.play(data, env)
    assert method.models(data, env).part("all")[0].tolist() == near([(4 + 2 * 0.693328) / 3, (-2 + 2 * 0.535004) / 3])


@pytest.mark.parametrize(("sigma", "own"), [(10.0, 0.3), (200.0, 0.6)])
def test_against_plain_loops(sigma, own):
    scene, lr, lam, alpha, steps = Scene.small(), 0.2, 0.3, 0.15, 3
    plain = Plain(scene)
    center = [plain.start] * 6
    for _ in range(3):
        model = [
            plain.train(center[i], i, steps, lr, lambda theta, u=center[i]: lam / alpha * (theta - u)) for i in range(6)
        ]
        weights = torch.zeros(6, 6, dtype=torch.float64)
        for i in range(6):
            others = [j for j in range(6) if j != i]
            for j in others:
                cosine = float(model[i] @ model[j] / (model[i].norm() * model[j].norm()))
                weights[i, j] = math.exp(sigma * cosine)
            weights[i] *= (1 - own) / weights[i].sum()
            weights[i, i] = own
        center = mixed(model, weights)
    method = heurfedamp(lr=lr, steps=steps, batch_size=100, lam=lam, alpha=alpha, sigma=sigma, own=own)
    data, env = scene.play(method, rounds=3)
    torch.testing.assert_close(method.models(data, env).tensors[0], torch.stack(model), rtol=0, atol=1e-8)
    torch.testing.assert_close(data.x.tensors[0], torch.stack(center), rtol=0, atol=1e-8)
    torch.testing.assert_close(dense(data), weights, rtol=0, atol=1e-8)


def test_what_travels():
    """Everybody's model, once along every edge."""
    data, _ = Scene.small().play(heurfedamp(lr=0.1, steps=1), rounds=2)
    assert data.bytes_sent.tolist() == [2 * 5 * 4.0 * data.x.specs[0].num_parameters] * 6


def test_nodes_at_rest_keep_their_models_and_the_others_weigh_among_themselves():
    method = heurfedamp(lr=0.1, steps=2, own=0.3, fraction=0.5)
    data, env = Scene.small().begin(method)
    for _ in range(4):
        works, before = data.trains, method.models(data, env).tensors[0]
        data = method.play(data, env)
        after, weights = method.models(data, env).tensors[0], dense(data)
        assert torch.equal(after[~works], before[~works])
        assert not torch.equal(after[works], before[works])
        assert weights.diagonal().tolist() == pytest.approx([0.3 if at_work else 1.0 for at_work in works.tolist()])
        assert weights[works][:, works].sum(1).tolist() == pytest.approx([1.0] * 3)


@pytest.mark.parametrize("setting", [{"alpha": 0.0}, {"sigma": 0.0}, {"own": -0.1}, {"own": 1.5}, {"lam": -1.0}])
def test_bad_settings(setting):
    with raises("value", *setting):
        heurfedamp(**setting)
