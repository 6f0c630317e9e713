from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st

from graphcollab.methods import ditto, fedavg, local
from graphcollab.testing import Scene
from tests.methods.lines import two_lines


def play_rounds(method, points, targets, rounds):
    data, env = points(targets).begin(method)
    for _ in range(rounds):
        data = method.play(data, env)
    return method.models(data, env).part("all").flatten(), data


@pytest.mark.parametrize(("lam", "expected"), [(1.0, [-2.0, 2.0]), (3.0, [-1.0, 1.0]), (0.0, [-4.0, 4.0])])
def test_fixed_point(points, lam, expected):
    """F = ½ (v - c)² with c = ∓4; the global model stays at 0, so v* = (c + λ 0) / (1 + λ)."""
    models, data = play_rounds(ditto(lam=lam, steps=1, lr=0.4), points, [[[-4.0]], [[4.0]]], 40)
    assert models.tolist() == pytest.approx(expected)
    assert data.x.part("all").flatten().tolist() == pytest.approx([0.0, 0.0])


def test_fixed_point_is_between_own_minimum_and_average(points):
    @settings(max_examples=4)
    @given(st.lists(st.floats(-10, 10), min_size=1, max_size=5), st.floats(0, 4))
    def check(centers, lam):
        models, _ = play_rounds(ditto(lam=lam, steps=1, lr=0.3), points, [[[c]] for c in centers], 30)
        mean = sum(centers) / len(centers)
        assert models.tolist() == pytest.approx([(c + lam * mean) / (1 + lam) for c in centers], abs=1e-3)

    check()


def test_global_model_is_the_uniform_mean(points):
    """One step with η = ½ leads to 1 and 4 from 0; the mean is 2.5 although the second node has three samples."""
    models, data = play_rounds(ditto(steps=1, lr=0.5), points, [[[2.0]], [[8.0]] * 3], 1)
    assert data.x.part("all").flatten().tolist() == [2.5, 2.5]
    assert models.tolist() == [1.0, 4.0]
    assert data.bytes_sent.tolist() == [8.0, 8.0]
    counted = play_rounds(ditto(steps=1, lr=0.5, weights="counts"), points, [[[2.0]], [[8.0]] * 3], 1)[1]
    assert counted.x.part("all").flatten().tolist() == [3.25, 3.25]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_between_local_training_and_fedavg(momentum):
    """The global model is FedAvg's, bit for bit; with λ = 0 the personal ones are trained locally."""
    scene = Scene.small()
    settings = {"epochs": 2, "lr": 0.1, "batch_size": 4, "momentum": momentum, "weight_decay": 1e-3}
    method = ditto(lam=0.0, **settings)
    data, env = scene.play(method, rounds=3)
    average = scene.models(fedavg(weights="uniform", **settings), rounds=3).tensors[0]
    assert torch.equal(data.x.tensors[0], average)
    alone = scene.models(local(**settings), rounds=3).tensors[0]
    torch.testing.assert_close(method.models(data, env).tensors[0], alone, rtol=0, atol=1e-12)


def test_client_sampling(points):
    """Nodes at rest keep their personal model; the global one moves by the mean over those at work."""
    method = ditto(fraction=0.5, steps=1, lr=0.5)
    targets = [[[float(k)]] for k in range(6)]
    data, env = points(targets).begin(method)
    for _ in range(6):
        before, working = data, data.trains
        data = method.play(data, env)
        old, new = before.x_personal.part("all").flatten(), data.x_personal.part("all").flatten()
        shared = before.x.part("all").flatten()
        stepped = old - 0.5 * ((old - torch.arange(6.0)) + (old - shared))
        assert new.tolist() == pytest.approx(torch.where(working, stepped, old).tolist())
        assert int(working.sum()) == 3
        moved = shared - 0.5 * (shared - torch.arange(6.0))
        assert data.x.part("all").flatten().tolist() == pytest.approx([float(moved[working].mean())] * 6)


def test_only_slopes_are_pulled():
    """Three rounds, whose common slopes begin with 0, (1 + 4) / 2, (1.75 - 0.5) / 2."""
    method = ditto(part="slopes", lam=1.0, steps=1, lr=0.25)
    data, env = two_lines().play(method, rounds=3)
    assert method.models(data, env).tensors[0].tolist() == [[1.0, 0.8125], [8.125, 3.875]]
    assert data.bytes_sent.tolist() == [24.0, 24.0]
