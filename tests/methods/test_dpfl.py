"""DPFL against hand cases and plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphcollab.components.weigh import double_greedy as module
from graphcollab.methods import dpfl, local
from graphcollab.testing import Scene
from graphcollab.testing.claims import dense
from tests.methods.forms import check_form
from tests.methods.plain import Plain, mixed
from tests.raising import raises

TRAIN = {"lr": 0.2, "steps": 3, "batch_size": 100, "momentum": 0.0, "weight_decay": 0.0}


def numbers(seed, stream, receiver, sender, round_):
    """Numbers between 0 and 1 that tests can work out, in place of the library's random ones."""
    mixed_up = np.sin(12.9898 * np.asarray(receiver) + 78.233 * np.asarray(sender) + 3.7 * stream + 1.3 * round_)
    return torch.as_tensor(43758.5453 * mixed_up % 1.0)


def search(loss, node, candidates, order, draws, budget):
    """Sets of nodes, one step after the other."""
    inside, complement = {node}, {node, *candidates}
    for z in sorted(candidates, key=order.get):
        if len(inside) >= budget:
            break
        gain = max(loss(inside) - loss(inside | {z}), 0.0)
        relief = max(loss(complement) - loss(complement - {z}), 0.0)
        p = 1.0 if gain + relief == 0 else gain / (gain + relief)
        if draws[z] < p:
            inside = inside | {z}
        else:
            complement = complement - {z}
    return inside


@pytest.mark.parametrize(("budget", "every"), [(3, 1), (10, 1), (4, 2)])
def test_against_plain_loops(monkeypatch, budget, every):
    monkeypatch.setattr(module, "keyed_uniform", numbers)
    scene = Scene.small()
    plain = Plain(scene)
    model, pools = [plain.start] * 6, {}
    sets = []
    for round_ in range(3):
        model = [plain.train(model[i], i, TRAIN["steps"], TRAIN["lr"]) for i in range(6)]
        if (round_ + 1) % every:
            continue

        def average(members, model=model):
            total = sum(plain.sizes[j] for j in members)
            return sum(plain.sizes[j] / total * model[j] for j in sorted(members))

        sets = []
        for i in range(6):
            others = pools.get(i, set(range(6)) - {i})
            order, draws = (
                {j: float(numbers(0, stream, i, j, round_)) for j in others}
                for stream in (module._ORDER_STREAM, module._ADD_STREAM)
            )
            found = search(lambda s, i=i: plain.loss(average(s), i, "val")[0], i, others, order, draws, budget)
            sets.append(found)
            pools.setdefault(i, found - {i})
        weights = [[plain.sizes[j] / sum(plain.sizes[k] for k in s) * (j in s) for j in range(6)] for s in sets]
        model = mixed(model, weights)
    assert any(1 < len(s) < 6 for s in sets)
    data, _ = scene.play(dpfl(budget=budget, every=every, **TRAIN), rounds=3)
    torch.testing.assert_close(data.x.tensors[0], torch.stack(model), rtol=0, atol=1e-8)


def test_weights_are_sample_counts(points):
    """n = (1, 3, 1) and θ = (0, 2, 9): with c = 1.5 node 0 takes 1 alone."""
    method = dpfl(lr=0.0, steps=1, budget=2, every=1)
    data, env = points([[[1.5]], [[2.0]] * 3, [[9.0]]]).begin(method, [[0.0], [2.0], [9.0]])
    after = method.play(data, env)
    chosen = dense(after)[0].tolist()
    assert chosen in ([0.25, 0.75, 0.0], [1.0, 0.0, 0.0])  # the latter if 9 was looked at first, and added
    assert after.x.part("all")[0].item() in (1.5, 0.0)
    assert after.bytes_sent.tolist() == [8.0] * 3  # two receivers each looked at every model


def test_all_average_at_once(points, monkeypatch):
    """S = ({0, 1}, {0, 1}, {1, 2}) of θ = (0, 4, 8); one after the other it would be (2, 3, 5.5)."""
    sets = [{0, 1}, {0, 1}, {1, 2}]

    def fixed(losses, edge_index, *rest):
        return torch.tensor([j in sets[i] for j, i in edge_index.T.tolist()])

    monkeypatch.setattr(module, "double_greedy", fixed)
    method = dpfl(lr=0.0, steps=1, every=1)
    data, env = points([[[0.0]]] * 3).begin(method, [[0.0], [4.0], [8.0]])
    assert method.play(data, env).x.part("all").flatten().tolist() == [2.0, 2.0, 6.0]


def test_a_budget_of_one_is_local_training():
    train = {"lr": 0.1, "batch_size": 4}
    data, _ = Scene.small().play(dpfl(budget=1, every=1, momentum=0.0, weight_decay=0.0, epochs=2, **train), rounds=3)
    alone, _ = Scene.small().play(local(weight_decay=0.0, epochs=2, **train), rounds=3)
    assert torch.equal(data.x.tensors[0], alone.x.tensors[0])
    assert data.bytes_sent.tolist() == [0.0] * 6


def test_rounds_between_choices_send_nothing():
    method = dpfl(every=2, budget=3, **TRAIN)
    data, env = Scene.small().begin(method)
    sent = []
    for _ in range(4):
        data = method.play(data, env)
        sent.append(data.bytes_sent)
    width = data.x.specs[0].num_parameters
    assert sent[0].tolist() == [0.0] * 6
    assert sent[1].tolist() == sent[2].tolist() == [5 * 4.0 * width] * 6  # everybody was a candidate of all
    pooled = torch.bincount(data.edge_index[0][data.edge_pool], minlength=6)
    assert (sent[3] - sent[2]).tolist() == (4.0 * width * pooled).tolist()
    assert int(pooled.sum()) <= 6 * 2


@pytest.mark.parametrize("settings", [{"budget": 5}, {"budget": 2}])
def test_contract(settings):
    check_form(dpfl(every=1, lr=0.1, epochs=1, batch_size=4, **settings))


@pytest.mark.parametrize("setting", [{"budget": 0}, {"every": 0}])
def test_bad_settings(setting):
    with raises("value", *setting):
        dpfl(**setting)
