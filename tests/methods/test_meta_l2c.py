from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from graphcollab.engine import SGD, AdamW
from graphcollab.methods import meta_l2c
from graphcollab.nn import MixingEncoder
from graphcollab.testing import Scene
from tests.methods import plain_attention
from tests.raising import raises

PLAIN = {"epochs": 1, "lr": 0.5, "weight_decay": 0.0}
PAPER = {"score": "product", "normalize": False, "own": "softmax", "decoupled": False}


@pytest.mark.parametrize(
    ("form", "gate"), [({}, 1 / (1 + math.exp(4))), ({"own": "largest"}, 0.0), (PAPER, 0.0)], ids=str
)
def test_nodes_that_change_alike_weigh_the_same(points, form, gate):
    method = meta_l2c(**PLAIN, **form)
    data, env = points([[[1.0, 2.0]]] * 4).begin(method)
    data = method.play(data, env)
    expected = gate * torch.eye(4).double() + (1 - gate) / 4
    torch.testing.assert_close(data.edge_weight.view(4, 4), expected)
    assert data.x.part("all").flatten().tolist() == pytest.approx([0.5, 1.0] * 4)


@pytest.mark.parametrize("form", [{}, {"own": "softmax"}, {"score": "scaled"}, PAPER], ids=str)
def test_encoders_and_round_are_those_of_autograd_through_everything(points, form):
    train, val = [[[1.0, 2.0]], [[-1.0, 0.5]], [[2.0, 0.0]]], [[[0.0, 1.0]], [[3.0, 0.0]], [[1.0, 1.0]]]
    method = meta_l2c(**PLAIN, **form)
    method = method.replace(weigh=replace(method.weigh, optimizer=SGD(lr=1.0)))
    data, env = points(train, val).begin(method)
    mixer = data.mixer
    after = method.play(data, env)
    # by hand: one step from 0 with step size 0.5
    moved = 0.5 * torch.tensor(train, dtype=torch.float64)[:, 0]
    params = {name: tensor.clone().requires_grad_() for name, tensor in mixer.tensors.items()}
    mixed = plain_attention.weights(mixer.with_tensors(params), moved, data.x.specs[0]) @ moved
    torch.testing.assert_close(after.x.part("all"), mixed.detach())
    (0.5 * (mixed - torch.tensor(val, dtype=torch.float64)[:, 0]).square().sum()).backward()
    for name, param in params.items():
        torch.testing.assert_close(mixer.tensors[name] - after.mixer.tensors[name], param.grad, msg=name)


def test_frozen_mixer_stays_and_needs_no_validation_data():
    scene = Scene.small()
    trained, _ = scene.play(meta_l2c(epochs=1, mixer_lr=0.1))
    assert float(trained.mixer.tensors["temperature"]) != 0
    assert float(trained.mixer.gate) != -4
    method = meta_l2c(epochs=1, pretrained=trained.mixer, frozen=True)
    tasks = scene.tasks
    bare = scene.replace(tasks=type(tasks)(tasks.pools, {"train": tasks.splits["train"]}))
    data, _ = bare.play(method)
    assert all(torch.equal(data.mixer.tensors[n], t) for n, t in trained.mixer.tensors.items())
    assert torch.equal(data.mixer.gate, trained.mixer.gate)
    with raises("empty", "split 'val'"):
        bare.begin(meta_l2c())


def groups_of_three(points, rounds, **settings):
    """Two groups with opposite targets, after some rounds: the weight of the own group, and of the own model, [K]."""
    near, far = [[1.0, 1.0], [1.2, 0.9]], [[-1.0, -1.0], [-0.9, -1.2]]
    method = meta_l2c(**{**PLAIN, "lr": 0.1, "mixer_lr": 0.1, **settings})
    data, env = points([near, near, near, far, far, far]).begin(method)
    for _ in range(rounds):
        data = method.play(data, env)
    weight = data.edge_weight.view(6, 6)  # [receiver, sender]
    same = (torch.arange(6) < 3)[:, None] == (torch.arange(6) < 3)
    return (weight * same).sum(1), weight.diagonal()


@pytest.mark.parametrize("form", [{}, {"own": "largest"}, PAPER], ids=str)
def test_weights_favor_nodes_of_the_same_group(points, form):
    group, own = groups_of_three(points, 15, **form)
    assert float(group.mean()) > 0.9
    assert form or float(own.max()) < 0.8  # and listen to others


def test_the_papers_form_is_said_in_settings():
    method, paper = meta_l2c(), meta_l2c(**PAPER, scale="mean", mixer_lr=0.1)
    assert (method.weigh.score, method.weigh.normalize, method.weigh.own) == ("cosine", True, "gate")
    assert method.weigh.optimizer == AdamW(lr=0.01, weight_decay=0.01)
    assert (method.weigh.scale, paper.weigh.scale) == ("sum", "mean")
    assert (paper.weigh.score, paper.weigh.normalize, paper.weigh.own) == ("product", False, "softmax")
    assert (type(paper.weigh.optimizer).__name__, paper.weigh.optimizer.lr) == ("Adam", 0.1)
    assert "ApplyTransform" not in repr(method.rewire)  # nothing is dropped
    assert meta_l2c(drop_round=10).rewire.at == 10


@pytest.mark.parametrize("settings", [{}, {"mixer_lr": 0.0}, {"own": "largest"}, {"mixer_lr": 0.1}])
def test_neighbors_in_a_ring_that_want_the_opposite_do_not_drift_apart(points, settings):
    """Losses are ½(x ∓ 1)²; with equal weights of a third the difference of neighbors grows by a sixth every round."""
    targets = [[[1.0 + 0.01 * k]] if k % 2 else [[-1.0 + 0.013 * k]] for k in range(6)]
    node = torch.arange(6)
    ring = torch.stack([torch.cat([node - 1, node + 1]) % 6, node.repeat(2)]).tolist()
    method = meta_l2c(epochs=1, lr=0.5, weight_decay=0.0, **settings)
    data, env = points(targets, targets, edges=ring).begin(method)
    for _ in range(40):
        data = method.play(data, env)
        own = data.edge_weight[data.edge_index[0] == data.edge_index[1]]
        assert float(own.min()) > 0.5 - 1e-6
    assert float(data.x.part("all").abs().max()) < 1.1


def test_a_mixer_of_several_groups_is_not_one_to_begin_with():
    mixer = MixingEncoder.create(Scene.small().begin(meta_l2c())[0].x.specs[0]).for_groups(
        torch.tensor([0, 0, 1, 1, 1, 1])
    )
    with raises("mismatch", "pretrained"):
        Scene.small().begin(meta_l2c(pretrained=mixer))
