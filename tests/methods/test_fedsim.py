from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from graphcollab import Tasks
from graphcollab.engine import SGD
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods import fedsim, local
from graphcollab.testing import Scene
from tests.methods.forms import check_form
from tests.raising import raises

SETTINGS = {"epochs": 2, "lr": 0.1, "batch_size": 4}


class Number(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(torch.zeros(1))


class SumOfTwo(nn.Module):
    """Outputs u + v, whatever the input; u is the head."""

    def __init__(self):
        super().__init__()
        self.backbone, self.head = Number(), Number()

    def forward(self, inputs):
        return (self.head.value + self.backbone.value).expand(len(inputs), 1)


def half_square(outputs, targets):
    return 0.5 * (outputs - targets).square().mean()


@pytest.fixture
def two_nodes():
    """Losses ½ (u + v - c)² with c = 2 and 8, of one and three samples."""
    samples = [(torch.zeros(n, 1), torch.full((n, 1), c)) for n, c in ((1, 2.0), (3, 8.0))]
    return Scene(Tasks.from_samples(samples, samples, loss=half_square, metric="mse"), [SumOfTwo()])


def shared_and_own(data):
    return data.x.part("head").flatten().tolist(), data.x.part("backbone").flatten().tolist()


def test_two_rounds_by_hand(two_nodes):
    """Round 1: both residuals are -c, so u_i = v_i = c / 2 with η = ½; u = (1 + 3 · 4) / 4.

    Round 2: residuals 3.25 + 1 - 2 = 2.25 and 3.25 + 4 - 8 = -0.75, so u_i = (2.125, 3.625), of mean 3.25 again.
    """
    method = fedsim(steps=1, lr=0.5)
    data, env = two_nodes.play(method, rounds=1)
    assert shared_and_own(data) == ([3.25, 3.25], [1.0, 4.0])
    assert data.bytes_sent.tolist() == [8.0, 8.0]  # one float up, one down
    data = method.play(data, env)
    assert shared_and_own(data) == ([3.25, 3.25], [-0.125, 4.375])


def test_uniform_weights(two_nodes):
    data, _ = two_nodes.play(fedsim(steps=1, lr=0.5, weights="uniform"), rounds=1)
    assert shared_and_own(data) == ([2.5, 2.5], [1.0, 4.0])


def test_step_size_of_the_server(two_nodes):
    """Half the way to 3.25; then from 1.625 residuals 0.625 and -2.375 lead to a mean of 2.4375, half the way again."""
    method = fedsim(steps=1, lr=0.5, server_lr=0.5)
    data, env = two_nodes.play(method, rounds=1)
    assert shared_and_own(data) == ([1.625, 1.625], [1.0, 4.0])
    assert shared_and_own(method.play(data, env))[0] == [2.03125, 2.03125]


@pytest.mark.parametrize("part", ["head", "backbone"])
def test_shared_part_is_averaged_and_the_rest_is_purely_local(part):
    """u is Σ n_i u_i / n of what local steps made; v is what they made, bit for bit."""
    scene, method = Scene.small(), fedsim(part=part, **SETTINGS)
    own = "backbone" if part == "head" else "head"
    data, env = scene.begin(method)
    counts = scene.tasks.sizes("train").double()
    for _ in range(3):
        alone = copy.copy(data)
        alone.x_start = data.x
        alone = method.local(alone, env)
        data = method.play(data, env)
        assert torch.equal(data.x.part(own), alone.x.part(own))
        mean = (counts[:, None] * alone.x.part(part)).sum(0) / counts.sum()
        torch.testing.assert_close(data.x.part(part), mean.expand(6, -1), rtol=0, atol=1e-12)
    spec = data.x.specs[0]
    width = spec.columns(part).stop - spec.columns(part).start
    assert data.bytes_sent.tolist() == [4.0 * 2 * width * 3] * 6


def test_first_round_differs_from_local_training_in_the_shared_part_only():
    one, _ = Scene.small().play(fedsim(**SETTINGS), rounds=1)
    two, _ = Scene.small().play(local(weight_decay=0.0, **SETTINGS), rounds=1)
    assert torch.equal(one.x.part("backbone"), two.x.part("backbone"))
    assert not torch.allclose(one.x.part("head"), two.x.part("head"))


def test_different_backbones_share_a_head():
    scene = Scene.small(shared_head=True)
    data, _ = scene.play(fedsim(**SETTINGS))
    head = data.x.part("head")
    assert torch.equal(head, head[:1].expand_as(head))
    with raises("mismatch", "part 'backbone'"):
        scene.begin(fedsim(part="backbone"))


def test_parts_that_do_not_lie_side_by_side():
    class Three(nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone, self.middle, self.head = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)

        def forward(self, inputs):
            return self.head(self.middle(self.backbone(inputs).relu()).relu())

    scene = Scene.small().replace(modules=[Three().double()])
    data, _ = scene.play(fedsim(part="backbone+head", **SETTINGS))
    for part, same in (("backbone", True), ("middle", False), ("head", True)):
        rows = data.x.part(part)
        assert torch.equal(rows, rows[:1].expand_as(rows)) is same
    with raises("conflict", "part 'backbone+head'"):
        ParamSpec.from_module(Three()).columns("backbone+head")
    assert data.bytes_sent.tolist() == [4.0 * 2 * (25 + 18) * 2] * 6


def test_settings():
    assert fedsim(optimizer=SGD(lr=0.3, momentum=0.9)).local.optimizer.momentum == 0.9
    assert fedsim(optimizer="adam", lr=1e-4).local.optimizer.lr == 1e-4
    with raises("value", "server_lr"):
        fedsim(server_lr=0)
    with raises("unknown", "part 'neck'", kind=KeyError):
        Scene.small().begin(fedsim(part="neck"))


@pytest.mark.parametrize("changed", [{"server_lr": 0.5}, {"part": "backbone", "buffers": "average"}, {"fraction": 0.5}])
def test_contract(changed):
    check_form(fedsim(**{**SETTINGS, "epochs": 1}, **changed))
