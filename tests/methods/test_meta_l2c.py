from __future__ import annotations

import pytest
import torch

from graphcollab.methods import meta_l2c
from graphcollab.testing import Scene

PLAIN = {"epochs": 1, "lr": 0.5, "weight_decay": 0.0, "drop_round": None}


def test_nodes_that_change_alike_weigh_the_same(points):
    method = meta_l2c(**PLAIN)
    data, env = points([[[1.0, 2.0]]] * 4).begin(method)
    data = method.play(data, env)
    assert data.edge_weight.tolist() == pytest.approx([0.25] * 16)
    assert data.x.part("all").flatten().tolist() == pytest.approx([0.5, 1.0] * 4)


def test_encoders_and_round_are_those_of_autograd_through_everything(points):
    train, val = [[[1.0, 2.0]], [[-1.0, 0.5]], [[2.0, 0.0]]], [[[0.0, 1.0]], [[3.0, 0.0]], [[1.0, 1.0]]]
    from graphcollab.engine import SGD

    method = meta_l2c(**PLAIN)
    method = method.replace(weigh=type(method.weigh)(optimizer=SGD(lr=1.0)))
    data, env = points(train, val).begin(method)
    mixer = data.mixer
    after = method.play(data, env)
    # by hand: one step from 0 with step size 0.5
    moved = 0.5 * torch.tensor(train, dtype=torch.float64)[:, 0]
    params = {name: tensor.clone().requires_grad_() for name, tensor in mixer.tensors.items()}
    code = mixer.with_tensors(params).encode(moved, data.x.specs[0])
    mixed = (code @ code.T).softmax(1) @ moved
    torch.testing.assert_close(after.x.part("all"), mixed.detach())
    (0.5 * (mixed - torch.tensor(val, dtype=torch.float64)[:, 0]).square().sum()).backward()
    for name, param in params.items():
        torch.testing.assert_close(mixer.tensors[name] - after.mixer.tensors[name], param.grad, msg=name)


def test_frozen_mixer_stays_and_needs_no_validation_data():
    scene = Scene.small()
    trained, _ = scene.play(meta_l2c(epochs=1))
    method = meta_l2c(epochs=1, pretrained=trained.mixer, frozen=True)
    tasks = scene.tasks
    bare = scene.replace(tasks=type(tasks)(tasks.pools, {"train": tasks.splits["train"]}))
    data, _ = bare.play(method)
    assert all(torch.equal(data.mixer.tensors[n], t) for n, t in trained.mixer.tensors.items())
    with pytest.raises(ValueError, match="without 'val' samples, which meta_l2c needs"):
        bare.begin(meta_l2c())


def test_weights_favour_nodes_of_the_same_group(points):
    """Two groups with opposite targets: after some rounds nodes weigh their own group most."""
    near, far = [[1.0, 1.0], [1.2, 0.9]], [[-1.0, -1.0], [-0.9, -1.2]]
    method = meta_l2c(**{**PLAIN, "lr": 0.1, "mixer_lr": 0.1})
    data, env = points([near, near, near, far, far, far]).begin(method)
    for _ in range(15):
        data = method.play(data, env)
    sender, receiver = data.edge_index
    same = (sender < 3) == (receiver < 3)
    assert float(data.edge_weight[same].sum() / 6) > 0.9
