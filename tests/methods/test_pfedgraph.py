"""pFedGraph against hand cases and plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity

from graphcollab import Phases
from graphcollab.methods import fedavg, pfedgraph
from graphcollab.testing import Scene
from graphcollab.testing.claims import dense
from tests.methods.forms import check_form
from tests.methods.plain import Plain, mixed
from tests.raising import raises

CHANGES = [[1.0, 0.0], [4.0, 3.0], [0.0, -2.0]]
COUNTED = [[[0.0, 0.0]] * 2, [[0.0, 0.0]], [[0.0, 0.0]]]  # shares ½, ¼, ¼


def test_a_round_by_hand(points):
    method = pfedgraph(lr=0.0, steps=1, weight_decay=0.0)
    data, env = points(COUNTED).begin(method, CHANGES)
    data.x_init = data.x_init.map(torch.zeros_like)
    data = method.play(data, env)
    weights = [[0.6875, 0.3125, 0.0], [0.5625, 0.4375, 0.0], [0.3125, 0.0, 0.6875]]
    assert dense(data).tolist() == [pytest.approx(row, abs=1e-12) for row in weights]
    found = [[1.9375, 0.9375], [2.3125, 1.3125], [0.3125, -1.375]]
    assert data.x.part("all").tolist() == [pytest.approx(row, abs=1e-12) for row in found]
    assert data.bytes_sent.tolist() == [16.0] * 3  # two receivers each, whatever they make of it
    assert data.messages_sent.tolist() == [2, 1, 0]


def project(values):
    """The nearest point of the simplex, by looking for the threshold."""
    low, high = values.min() - 1, values.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(values - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(values - low, 0)


@pytest.mark.parametrize(("snap", "lam"), [(0.9, 0.4), (None, -0.4), (0.9, 0.0)])
def test_against_plain_loops(snap, lam):
    scene, lr, alpha, steps = Scene.small(), 0.2, 0.7, 3
    plain = Plain(scene)
    share = np.array(plain.sizes) / sum(plain.sizes)
    model, weights = [plain.start] * 6, None
    for _ in range(3):

        def pull(theta, u):
            theta = theta.detach().requires_grad_()
            return torch.autograd.grad(-lam * torch.cosine_similarity(theta, u, dim=0), theta)[0]

        model = [plain.train(model[i], i, steps, lr, lambda theta, u=model[i]: pull(theta, u)) for i in range(6)]
        weights = []
        for i in range(6):
            alike = [
                1.0 if i == j else float(cosine_similarity(model[i] - plain.start, model[j] - plain.start, dim=0))
                for j in range(6)
            ]
            alike = [1.0 if snap is not None and s > snap else s for s in alike]
            weights.append(project(share + np.array(alike) / (2 * alpha)).tolist())
        model = mixed(model, weights)
    settings = {"lr": lr, "steps": steps, "batch_size": 100, "momentum": 0.0, "weight_decay": 0.0}
    data, _ = scene.play(pfedgraph(alpha=alpha, lam=lam, snap=snap, **settings), rounds=3)
    torch.testing.assert_close(data.x.tensors[0], torch.stack(model), rtol=0, atol=1e-8)
    assert dense(data).tolist() == [pytest.approx(row, abs=1e-8) for row in weights]


def test_a_large_alpha_is_federated_averaging():
    settings = {"lr": 0.1, "epochs": 2, "batch_size": 4, "momentum": 0.0, "weight_decay": 0.0}
    one = Scene.small().models(pfedgraph(alpha=1e9, lam=0.0, **settings))
    two = Scene.small().models(fedavg(**settings))
    torch.testing.assert_close(one.tensors[0], two.tensors[0], rtol=0, atol=1e-7)


def test_comparing_the_head_alone_sends_heads_of_those_who_weigh_nothing(points):
    settings = {"lr": 0.1, "epochs": 1, "batch_size": 4, "alpha": 0.01, "snap": None, "lam": 0.0}
    data, _ = Scene.small().play(pfedgraph(compare="head", **settings), rounds=1)
    weights, spec = dense(data), data.x.specs[0]
    heard = ((weights > 0) & ~torch.eye(6, dtype=torch.bool)).sum(0)
    head = data.x.part("head").shape[1]
    assert data.bytes_sent.tolist() == (4.0 * (heard * spec.num_parameters + (5 - heard) * head)).tolist()
    assert int(heard.sum()) < 30


def test_contract_with_a_strong_pull():
    check_form(pfedgraph(lam=0.5, lr=0.1, epochs=1, batch_size=4, fraction=0.5))


def test_the_first_round_of_the_published_code():
    settings = {"lr": 0.1, "epochs": 2, "batch_size": 4}
    method = Phases(pfedgraph(lam=0.0, **settings), 1, pfedgraph(lam=0.5, **settings))
    assert method.name == "pfedgraph"
    first, last = (Scene.small().play(method, rounds=rounds)[0].x.tensors[0] for rounds in (1, 2))
    assert torch.equal(first, Scene.small().play(pfedgraph(lam=0.0, **settings), rounds=1)[0].x.tensors[0])
    assert not torch.equal(last, Scene.small().play(pfedgraph(lam=0.0, **settings), rounds=2)[0].x.tensors[0])


@pytest.mark.parametrize("setting", [{"alpha": 0.0}, {"snap": 1.5}, {"lam": float("nan")}, {"compare": 3}])
def test_bad_settings(setting):
    with raises("value", *setting):
        pfedgraph(**setting)
