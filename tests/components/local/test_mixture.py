from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from graphcollab import Method
from graphcollab.components import Fit, KeepWeights, Receive
from graphcollab.engine import SGD, Adam
from graphcollab.testing import Scene, differences

ONE_WAY = [(1, 0, 0.5)]  # from node 1 to node 0


def through(eta, steps=1, **settings):
    fit = Fit(steps=steps, batch_size=1, optimizer=SGD(lr=eta), through="all", **settings)
    return Method("phase 2", local=fit, weigh=KeepWeights(), exchange=Receive())


def start_mixture(points, method, x=((2.0,), (3.0,))):
    """Node 0 wants c = 1 and gives node 1 half; node 1 stands at 3 and stays there."""
    data, env = points([[[1.0]], [[3.0]]], edges=ONE_WAY).begin(method, x)
    return method.start(data, env), env  # received from these models


def test_one_step(points):
    method = through(eta=0.1)
    data, env = start_mixture(points, method)
    assert (data.received.flatten().tolist(), data.own_share.tolist()) == ([1.5, 0.0], [0.5, 1.0])
    after = method.play(data, env)
    h = 2 - 0.1 * 0.5 * (0.5 * 2 + 0.5 * 3 - 1)
    assert after.x.part("all").flatten().tolist() == pytest.approx([0.5 * h + 1.5, 3.0])
    assert after.bytes_sent.tolist() == [0.0, 4.0]


def test_fixed_point_is_the_own_optimum_for_the_mixture(points):
    """α = (½, ½), c = 1, h_j = 3: the mixture comes to 1, the own share of it to -1."""
    method = through(eta=1.0, steps=200)
    data, env = start_mixture(points, method)
    mixture = method.play(data, env).x.part("all")[0].item()
    assert mixture == pytest.approx(1.0)
    assert (mixture - 0.5 * 3) / 0.5 == pytest.approx(-1.0)


@pytest.mark.parametrize("optimizer", [SGD(lr=0.1, weight_decay=0.01, momentum=0.9), Adam(lr=0.01)])
@pytest.mark.parametrize("keep_state", [False, True])
@pytest.mark.parametrize("backend", ["vmap", "loop"])
def test_without_neighbors_it_is_plain_local_training_bit_for_bit(optimizer, keep_state, backend):
    nobody = torch.empty(2, 0, dtype=torch.int64)
    scene = Scene.small(torch.float32).replace(backend=backend, edge_index=nobody)
    settings = {"epochs": 2, "batch_size": 4, "optimizer": optimizer, "keep_state": keep_state}
    one, _ = scene.play(Method("a", local=Fit(**settings)), rounds=3)
    two, _ = scene.play(Method("a", Fit(**settings, through="all"), KeepWeights(), Receive()), rounds=3)
    del two.received, two.own_share
    assert differences(one, two) == []


def test_nodes_at_rest_keep_their_own_model(points):
    method = through(eta=0.1)
    data, env = start_mixture(points, method)
    data.trains = torch.tensor([False, True])
    after = method.local(data, env)
    assert after.x.part("all").flatten().tolist() == [2.0, 3.0]


def test_what_is_not_mixed_takes_whole_steps():
    scene, alone = Scene.small(shared_head=True), Fit(steps=1, batch_size=4, optimizer=SGD(lr=0.1))
    method = Method("half", replace(alone, through="head"), KeepWeights(), Receive("head"))
    data, env = scene.replace(edge_index=[(j, i, 0.1) for j in range(6) for i in range(6) if j != i]).begin(method)
    assert data.own_share.tolist() == pytest.approx([0.5] * 6)
    new, mixture = method.local(data, env), copy.copy(data)
    heads = data.x.part("head")
    mixture.x = data.x.with_part("head", 0.4 * heads + 0.1 * heads.sum(0))  # half its own, a tenth of each other's
    plain = alone(mixture, env)
    for a, b, old, spec in zip(new.x.tensors, plain.x.tensors, mixture.x.tensors, data.x.specs, strict=True):
        head, body = spec.columns("head"), spec.columns("backbone")
        torch.testing.assert_close(a[:, body], b[:, body])
        torch.testing.assert_close(a[:, head] - old[:, head], 0.25 * (b - old)[:, head])


def test_without_the_exchange_nodes_train_alone():
    one, two = (Scene.small().play(Method("m", Fit(through=through)))[0] for through in ("all", None))
    assert differences(one, two) == []


def test_the_part_must_be_the_one_that_is_exchanged():
    assert dict(Fit(through="head").agrees) == {"part": "head"}
    assert dict(Fit().agrees) == {}
