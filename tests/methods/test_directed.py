from __future__ import annotations

import pytest
import torch

from graphcollab.methods import directed, local
from graphcollab.testing import Scene
from graphcollab.testing.contract import check_two_architectures
from tests.methods.forms import check_form
from tests.raising import raises

QUICK = {"learn_rounds": 1, "epochs": 2, "lr": 0.1, "batch_size": 4}


def test_contract_of_other_forms():
    """One round of each phase."""
    check_form(directed(**QUICK, fair=False))


def test_two_architectures_share_a_head_in_both_phases():
    check_two_architectures(directed(**QUICK, part="head"))


def test_weights_are_frozen_in_phase_2_and_every_edge_left_carries_a_model():
    scene, method = Scene.small(), directed(**{**QUICK, "learn_rounds": 8}, delta=0.5)
    data, env = scene.begin(method)
    sent, width = torch.zeros(6, dtype=torch.float64), data.x.part("all").shape[1]
    for round_ in range(11):
        sender, receiver = data.edge_index
        before, tried = data, torch.bincount(sender[sender != receiver], minlength=6)
        data = method.play(data, env)
        sent += 4 * width * tried
        assert torch.equal(data.bytes_sent, sent)
        if round_ >= 8:
            assert torch.equal(data.edge_index, before.edge_index)
            assert torch.equal(data.edge_weight, before.edge_weight)
    sender, receiver = data.edge_index
    assert 6 < data.num_edges < 36, "some edges have vanished, and some have not"
    sums = torch.zeros(6, dtype=torch.float64).index_add_(0, receiver, data.edge_weight)
    torch.testing.assert_close(sums, torch.ones(6, dtype=torch.float64))
    torch.testing.assert_close(data.own_share, data.edge_weight[sender == receiver])


def test_phase_1_trains_alone():
    scene, settings = Scene.small(), {"epochs": 2, "lr": 0.1, "batch_size": 4}
    one, two = scene.models(directed(learn_rounds=2, **settings)), scene.models(local(**settings))
    assert torch.equal(one.tensors[0], two.tensors[0])


def test_second_phase_by_hand(points):
    """Both want what they have; p stays ½ and α = ⅔, ⅓: node 0 moves to ⅔ 0 + ⅓ 3 and a step of ⅔² η back to 0."""
    method = directed(learn_rounds=1, steps=1, trial_steps=1, lr=0.0, mixture_lr=0.3, weight_decay=0.0, batch_size=1)
    data, env = points([[[0.0]], [[3.0]]]).begin(method, [[0.0], [3.0]])
    data = method.play(data, env)
    data.edge_weight = torch.where(data.edge_index[0] == data.edge_index[1], 2 / 3, 1 / 3).double()
    data = method.play(data, env)
    expected = 1 - 0.3 * 4 / 9
    assert data.x.part("all").flatten().tolist() == pytest.approx([expected, 3 - expected])
    assert data.round == 2


def test_settings():
    method = directed(learn_rounds=3, lr=0.1, mixture_lr=0.4, steps=7, trial_steps=2)
    assert method.until == 3
    assert (method.method.local.steps, method.method.weigh.steps, method.next.local.steps) == (7, 2, 7)
    assert (method.method.weigh.optimizer.lr, method.next.local.optimizer.lr) == (0.1, 0.4)
    with raises("value", "learn_rounds"):
        directed(learn_rounds=0)
