"""What `WatchWeights` keeps of weights and of meta-L2C's encoders."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from examples.benchmark._attention import WatchWeights, attention
from graphcollab import Method, Phases, methods, run
from graphcollab.comm import Plane
from graphcollab.components import ChannelAttention, Env, Exchange, Fit, Formula, Participation
from graphcollab.engine import SGD, AdamW, Stacks
from graphcollab.engine.stack import ParamSpec
from graphcollab.models import MLP
from graphcollab.testing import Scene, differences
from graphcollab.transforms import WithSelfLoops
from tests.methods import plain_attention

ENV = Env(None, Plane(), 0)
NODE = torch.arange(4)
EDGES = torch.cartesian_prod(NODE, NODE).flip(1).T
PAPER = {"score": "product", "normalize": False, "own": "softmax"}
WATCHED = {"own_weight", "weight_entropy", "largest_weight"}
QUICK: dict[str, Any] = {"epochs": 1, "lr": 0.1, "batch_size": 4}


@dataclass(frozen=True)
class OwnTwice(Formula):
    """The own model weighs as much as two others."""

    def weights(self, data, env):
        sender, receiver = data.edge_index
        many = torch.bincount(receiver, minlength=data.num_nodes)[receiver] + 1
        return torch.where(sender == receiver, 2.0, 1.0) / many


def averaging():
    fit = Fit(steps=1, batch_size=4, optimizer=SGD(lr=0.1))
    return Method("own", fit, OwnTwice(), Exchange("zero", "x"), prepare=WithSelfLoops())


def play(method, rounds=3, **settings):
    tasks = Scene.small(torch.float32).tasks
    model = lambda: MLP(4, (6,), 3)  # noqa: E731
    return run(method, tasks, model, rounds=rounds, callbacks=[WatchWeights()], **settings).history


def test_what_is_kept_by_hand():
    # node 0 hears 1 and 2: 2/4, 1/4, 1/4; node 1 hears 0: 2/3, 1/3; nodes 2 to 5 hear nobody
    history = play(averaging(), graph=torch.tensor([[1, 2, 0], [0, 0, 1]]))
    assert {*history.values} >= WATCHED
    nothing = [math.nan] * 4
    entropy = [1.5 * math.log(2) / math.log(3), (math.log(3) - 2 / 3 * math.log(2)) / math.log(2)]
    for name, expected in (
        ("own_weight", [1 / 2, 2 / 3]),
        ("weight_entropy", entropy),
        ("largest_weight", [0.25, 1 / 3]),
    ):
        assert history.last(name).tolist() == pytest.approx([*expected, *nothing], abs=1e-6, nan_ok=True)


def test_watching_changes_nothing():
    scene = Scene.small(torch.float32)
    plain, seen = (
        run(methods.meta_l2c(**QUICK), scene.tasks, scene.modules, rounds=2, callbacks=callbacks)
        for callbacks in ([], [WatchWeights()])
    )
    assert differences(plain.data, seen.data) == []
    assert {*seen.history.values} - {*plain.history.values} >= WATCHED


def test_nodes_that_hear_nobody_in_a_round_keep_their_values():
    attend, method = Participation(drop=0.4, late=0.2), averaging()
    values = play(method, rounds=6, participation=attend).values
    data, env = Scene.small().replace(participation=attend).begin(method)
    last = [(math.nan, math.nan)] * 6
    for t in range(6):
        there, in_time = attend.at_work(data, env)
        for i in range(6):
            heard = [j for j in range(6) if j != i and there[i] and in_time[j]]
            if heard:  # of 7 shares 2 are the own model's, and those of the nodes that are not there
                last[i] = 1 - len(heard) / 7, 1 / 7
        assert values["own_weight"][t].tolist() == pytest.approx([own for own, _ in last], abs=1e-6, nan_ok=True)
        assert values["largest_weight"][t].tolist() == pytest.approx([w for _, w in last], abs=1e-6, nan_ok=True)
        data.round += 1


def test_the_step_size_of_a_pull_is_left_out():
    history = play(methods.cobo(lr=0.1, batch_size=4), rounds=1)
    assert history.last("own_weight").tolist() == [0] * 6
    assert history.last("weight_entropy").tolist() == pytest.approx([1] * 6, abs=1e-4)  # one pair has taken a step
    assert history.last("largest_weight").tolist() == [1] * 6


def test_what_is_received_or_added_to_leaves_the_rest_to_the_own_model():
    scene = Scene.small(torch.float32)
    method = methods.directed(learn_rounds=1, epochs=1, lr=0.1, batch_size=4)
    result = run(method, scene.tasks, scene.modules, rounds=3, callbacks=[WatchWeights()])
    assert result.history.last("own_weight").tolist() == pytest.approx(result.data.own_share.tolist(), abs=1e-6)
    for variant in ("neighbors", "algorithm"):  # self-loops are left out of the sum, and weigh all the same
        method = methods.l2c(**QUICK, variant=variant)
        result = run(method, scene.tasks, scene.modules, rounds=3, callbacks=[WatchWeights()])
        sender, receiver = result.data.edge_index
        weight = result.data.edge_weight[sender == receiver]
        assert result.history.last("own_weight").tolist() == pytest.approx(weight.tolist(), abs=1e-6)


def test_what_attention_says():
    """Codes have length √e^(10 t) for the temperature's parameter t; what decays is what was there a round ago."""
    scene = Scene.small(torch.float32)
    before, result = (
        run(methods.meta_l2c(**QUICK), scene.tasks, scene.modules, rounds=rounds, callbacks=[WatchWeights()])
        for rounds in (3, 4)
    )
    layers = {f"weigher/layer_share/{layer}" for layer in ("backbone.1", "head")}
    told = {"weigher/code_norm", "weigher/force/gradient", "weigher/force/decay", *layers}
    assert {name for name in result.history.values if name.startswith("weigher/")} == told
    # what is kept of the last round was made by the encoders after it, and the forces by its step
    norm = math.exp(5 * float(result.data.mixer.tensors["temperature"]))
    assert result.history.last("weigher/code_norm").tolist() == pytest.approx([norm] * 6, rel=1e-5)
    shares = torch.stack([result.history.last(name) for name in sorted(layers)])
    assert shares.sum(0).tolist() == pytest.approx([1.0] * 6)
    assert float(shares.min()) > 0
    size = math.sqrt(sum(float(tensor.square().sum()) for tensor in before.data.mixer.tensors.values()))
    assert result.history.last("weigher/force/decay").tolist() == pytest.approx([0.01 * size] * 6, rel=1e-5)
    assert (result.history.last("weigher/force/gradient") > 0).all()


def test_what_another_phase_has_said_is_not_said_again():
    scene = Scene.small(torch.float32)
    phases = Phases(methods.meta_l2c(**QUICK), 2, methods.l2c(**QUICK))
    history = run(phases, scene.tasks, scene.modules, rounds=4, callbacks=[WatchWeights()]).history
    said = history.table("weigher/force/gradient")
    assert said[:2].isfinite().all()
    assert said[2:].isnan().all()
    assert history.table("own_weight").isfinite().all()
    served = Phases(methods.meta_l2c(**QUICK), 2, methods.fedavg(**QUICK))
    history = run(served, scene.tasks, scene.modules, rounds=3, callbacks=[WatchWeights()]).history
    assert history.table("own_weight")[2].isnan().all()


def test_nothing_is_kept_where_models_do_not_travel_along_edges():
    assert not {*play(methods.fedavg(**QUICK)).values} & WATCHED
    late = play(Phases(methods.fedavg(**QUICK), 2, averaging()))
    assert late.table("own_weight").isnan().all(1).tolist() == [True, True, False]


def normal(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("form", [{}, PAPER], ids=str)
def test_what_attention_says_of_itself(form):
    """Norms of codes, layers' shares in the logits of those that are heard, and what pulls at the encoders."""
    spec = ParamSpec.from_module(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)))
    weigh, x = ChannelAttention(optimizer=AdamW(lr=0.5, weight_decay=0.02), **form), normal(4, 13, seed=1)
    data = Data(num_nodes=4, edge_index=EDGES[:, EDGES.sum(0) != 5])  # 2 and 3 do not hear each other
    data.node_id, data.bytes_sent, data.isolated = NODE, torch.zeros(4).double(), torch.zeros(4, dtype=torch.bool)
    data.trains = data.serves = data.alone = ~data.isolated
    data.val_loss = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    data.alone_loss = torch.tensor([1.0, 1.0, 6.0, math.nan], dtype=torch.float64)
    data.x_init = data.x_start = Stacks.single(spec, torch.zeros(4, 13, dtype=torch.float64))
    data.x = data.x_alone = Stacks.single(spec, x)
    data = weigh(weigh.init(data, ENV), ENV)
    mixer = data.mixer
    data = Exchange("x_start", "update")(data, ENV)
    assert {*attention(weigh, data, ENV)} == {"code_norm", "layer_share/0", "layer_share/1"}  # nothing is learned yet
    gradient = normal(14, seed=5)
    found = attention(weigh, weigh.learn(data, ENV, gradient).update({"mixer": mixer}), ENV)

    codes = [plain_attention.codes(mixer, change, spec) for change in x]
    if not form:  # vectors of length 1, each of L = 2 layers half
        codes = [{name: code / code.norm() / math.sqrt(2) for name, code in one.items()} for one in codes]
        assert found["code_norm"].tolist() == pytest.approx([1.0] * 4)
    norms = [math.sqrt(sum(float(code @ code) for code in one.values())) for one in codes]
    assert found["code_norm"].tolist() == pytest.approx(norms)
    heard = [[1, 2, 3], [0, 2, 3], [0, 1], [0, 1]]
    for i, others in enumerate(heard):
        sizes = {name: sum(abs(float(codes[i][name] @ codes[j][name])) for j in others) for name in ("0", "1")}
        for name, size in sizes.items():
            assert float(found[f"layer_share/{name}"][i]) == pytest.approx(size / sum(sizes.values()))
    params = {name: tensor.clone().requires_grad_() for name, tensor in mixer.tensors.items()}
    weights = plain_attention.weights(mixer.with_tensors(params), x, spec, heard, sparse=True)
    (weights[data.edge_index[1], data.edge_index[0]] @ gradient).backward()
    pull = math.sqrt(sum(float(param.grad.square().sum()) for param in params.values()))
    size = math.sqrt(sum(float(tensor.square().sum()) for tensor in mixer.tensors.values()))
    assert float(found["force/gradient"]) == pytest.approx(pull)
    assert float(found["force/decay"]) == pytest.approx(0.02 * size)
