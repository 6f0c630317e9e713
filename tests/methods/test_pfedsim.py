from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from graphcollab import run
from graphcollab.engine import SGD, Stacks
from graphcollab.methods import fedavg, pfedsim
from graphcollab.models import SplitModel
from graphcollab.testing import Scene
from graphcollab.testing.contract import check_two_architectures
from tests.methods.forms import check_form
from tests.raising import raises

SETTINGS = {"epochs": 2, "lr": 0.1, "batch_size": 4}


def same_everywhere(data, part):
    rows = data.x.part(part)
    return torch.equal(rows, rows[:1].expand_as(rows))


def test_warm_up_is_fedavg():
    data, _ = Scene.small().play(pfedsim(warmup=3, **SETTINGS), rounds=3)
    average, _ = Scene.small().play(fedavg(weight_decay=0.0, **SETTINGS), rounds=3)
    torch.testing.assert_close(data.x.tensors[0], average.x.tensors[0], rtol=0, atol=1e-12)
    assert data.bytes_sent.tolist() == average.bytes_sent.tolist()


def test_then_backbones_are_mixed_and_classifiers_stay():
    """A round after the warm-up, recomputed from the local stage by plain sums."""
    method = pfedsim(warmup=1, **SETTINGS)
    data, env = Scene.small().play(method, rounds=1)
    sent = data.bytes_sent
    alone = copy.copy(data)
    alone.x_start = data.x
    alone = method.next.local(alone, env)
    after = method.play(data, env)
    assert torch.equal(after.x.part("head"), alone.x.part("head"))
    classes = alone.x.part("head")[:, :18].view(6, 3, 6)  # 3 classes of 6 latents, then biases
    for i in range(6):
        mixture, total = 0.0, 0.0
        for j in range(6):
            alike = torch.cosine_similarity(classes[i], classes[j], dim=1).mean()
            affinity = -math.log(1 - min(max(float(alike), 0.0), 0.9999))
            mixture, total = mixture + affinity * alone.x.part("backbone")[j], total + affinity
        torch.testing.assert_close(after.x.part("backbone")[i], mixture / total, rtol=0, atol=1e-10)
    width = data.x.part("backbone").shape[1]
    assert (after.bytes_sent - sent).tolist() == [4.0 * (2 * width + 21)] * 6  # and the classifier up
    assert after.messages_sent.tolist() == [2 + 2] * 6  # one up, one down, whoever is heard
    assert not same_everywhere(after, "backbone")


def test_nodes_of_opposite_tasks_keep_apart():
    """Classifiers 0 and 1 are alike, 2 is their opposite; local steps of size 0 change nothing."""
    scene = Scene.small(sizes=(8, 8, 8))
    method = pfedsim(warmup=0, optimizer=SGD(lr=0.0))
    data, env = scene.begin(method)
    rows = data.x.tensors[0].clone()
    head = data.x.specs[0].columns("head")
    rows[2, head] = -rows[2, head]
    rows[:, : head.start] = torch.tensor([[1.0], [3.0], [5.0]])
    data.x = Stacks.single(data.x.specs[0], rows)
    after = method.play(data, env)
    assert after.x.part("backbone")[:, 0].tolist() == pytest.approx([2.0, 2.0, 5.0], abs=1e-12)
    assert torch.equal(after.x.part("head"), rows[:, head])


def test_classifiers_of_zeros_change_nothing():
    scene = Scene.small()
    method = pfedsim(warmup=0, optimizer=SGD(lr=0.0))
    data, env = scene.begin(method)
    rows = data.x.tensors[0].clone()
    rows[:, data.x.specs[0].columns("head")] = 0
    rows += torch.arange(6.0)[:, None] * (rows != 0)
    data.x = Stacks.single(data.x.specs[0], rows)
    assert torch.equal(method.play(data, env).x.tensors[0], rows)


def test_split_models_send_backbone_and_classifier_only():
    """Two rounds of warm-up send 2 (θ + φ) floats each, then 2 θ + φ; projection and prototypes stay untouched."""
    model = SplitModel(nn.Sequential(nn.Linear(4, 5), nn.ReLU()), (4,), 3, latent=6, norm="layer").double()
    data, _ = Scene.small().replace(modules=[model]).play(pfedsim(warmup=2, **SETTINGS), rounds=3)
    theta, phi = 25 + 36, 21
    assert data.bytes_sent.tolist() == [4.0 * (2 * 2 * (theta + phi) + 2 * theta + phi)] * 6
    assert [part for part in data.x.specs[0].parts if same_everywhere(data, part)] == ["prototypes", "projection"]


def test_architectures_mix_what_they_have_in_common():
    scene = Scene.small(shared_head=True)
    with raises("mismatch", "part 'backbone'", "'head'"):
        scene.begin(pfedsim())
    data, _ = scene.play(pfedsim(warmup=1, part="head", **SETTINGS), rounds=1)
    assert same_everywhere(data, "head")
    for warmup in (0, 1):
        check_two_architectures(pfedsim(warmup=warmup, part="head", **SETTINGS))


def test_a_graph_that_is_given_says_who_may_be_heard():
    """Nodes 0 to 2 and 3 to 5 are apart: after the warm-up nothing of one half reaches the other."""
    edges = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    method = pfedsim(warmup=0, **SETTINGS)
    data, _ = Scene.small().replace(edge_index=edges).play(method, rounds=1)
    weight = torch.zeros(6, 6).index_put((data.edge_index[1], data.edge_index[0]), data.edge_weight.float())
    assert weight[:3, 3:].abs().max() == weight[3:, :3].abs().max() == 0
    assert weight[5].tolist() == [0, 0, 0, 0, 0, 1]
    assert weight.sum(1).tolist() == pytest.approx([1.0] * 6)


def test_contract_without_a_warm_up():
    """With all nodes at work the server adds nothing to what the edges say."""
    check_form(pfedsim(warmup=0, **{**SETTINGS, "epochs": 1}))


def test_runs_without_a_graph():
    scene = Scene.small()
    result = run(pfedsim(warmup=1, **SETTINGS), scene.tasks, scene.modules[0], rounds=3)
    assert result.graph().edge_index.shape[1] == 36


def test_settings():
    assert pfedsim(warmup=0).name == pfedsim().name == "pfedsim"
    with raises("value", "warmup"):
        pfedsim(warmup=0.5)
    with raises("value", "cap"):
        pfedsim(cap=1.0)
    with raises("unknown", "part 'classifier'", kind=KeyError):
        Scene.small().begin(pfedsim(head="classifier"))
