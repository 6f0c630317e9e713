from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from graphcollab.comm import Plane, Relation
from graphcollab.components import ChannelAttention, Env, Exchange
from graphcollab.components.weigh.channel_attention import in_sparse
from graphcollab.engine import SGD, Adam, AdamW, Stacks
from graphcollab.engine.stack import ParamSpec
from graphcollab.nn import MixingEncoder
from tests.methods import plain_attention
from tests.raising import raises

SPEC = ParamSpec.from_module(nn.Linear(2, 3))
ENV = Env(None, Plane(), 0)
NODE = torch.arange(4)
EDGES = torch.cartesian_prod(NODE, NODE).flip(1).T
LN2 = math.log(2)
PAPER = {"score": "product", "normalize": False, "own": "softmax"}
FORMS = [{}, PAPER, {"own": "largest"}, {"own": "softmax"}, {"score": "scaled"}, {"normalize": False, "bias": False}]


def normal(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def learned(**form):
    """A mixer whose temperature and gate have learned something."""
    mixer = MixingEncoder.create(SPEC, seed=9, **form)
    numbers = {"temperature": torch.tensor(0.08)}
    mixer = mixer.with_tensors({name: numbers.get(name, tensor) for name, tensor in mixer.tensors.items()})
    return mixer if mixer.gate is None else replace(mixer, gate=torch.tensor([-1.0], dtype=torch.float64))


def graph(x, weigh):
    data = Data(num_nodes=4, edge_index=EDGES, node_id=NODE, bytes_sent=torch.zeros(4, dtype=torch.float64))
    data.x_init = data.x_start = Stacks.single(SPEC, torch.zeros(4, 9, dtype=torch.float64))
    data.x = Stacks.single(SPEC, x)
    data.trains = data.serves = torch.ones(4, dtype=torch.bool)
    data.isolated = torch.zeros(4, dtype=torch.bool)
    data.val_loss = data.alone_loss = torch.tensor([1.0, 2.0, 0.5, 1.5], dtype=torch.float64)
    data.alone, data.x_alone = data.trains, data.x
    return weigh.init(data, ENV)


@pytest.mark.parametrize(("own", "gate"), [("softmax", 0.0), ("largest", 0.0), ("gate", 1 / (1 + math.exp(4)))])
def test_identical_changes_weigh_the_same(own, gate):
    weigh = ChannelAttention(own=own)
    data = weigh(graph(normal(1, 9, seed=0).expand(4, 9).contiguous(), weigh), ENV)
    expected = gate * torch.eye(4).double() + (1 - gate) / 4
    torch.testing.assert_close(data.edge_weight, expected.flatten())


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_weights_are_those_of_plain_loops(form):
    weigh = ChannelAttention(pretrained=learned(**form))
    data = weigh(graph(normal(4, 9, seed=1), weigh), ENV)
    expected = plain_attention.weights(data.mixer, data.x.part("all"), SPEC)  # [receiver, sender]
    torch.testing.assert_close(data.edge_weight, expected[EDGES[1], EDGES[0]])
    drawn = ChannelAttention(**form)
    data = drawn(graph(normal(4, 9, seed=1), drawn), ENV)
    assert data.mixer.form == learned(**form).form
    expected = plain_attention.weights(data.mixer, data.x.part("all"), SPEC)
    torch.testing.assert_close(data.edge_weight, expected[EDGES[1], EDGES[0]])


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize(("scale", "share"), [("sum", 1.0), ("mean", 0.25)])
def test_encoders_learn_from_the_loss_of_the_mixed_models(scale, share, form):
    """The step of every parameter equals autograd through plain loops and the exchange, with the updates held fixed."""
    weigh = ChannelAttention(optimizer=SGD(lr=1.0), scale=scale, pretrained=learned(**form))
    exchange = Exchange("x_start", "update")
    before = weigh(graph(normal(4, 9, seed=2), weigh), ENV)
    target, update = normal(4, 9, seed=3), before.x.part("all")
    data = exchange(before, ENV)
    cotangent = data.x.part("all") - target  # of ½‖x - target‖² at every node
    after = weigh.learn(data, ENV, exchange.weight_gradient(data, ENV, cotangent))
    params = {name: tensor.clone().requires_grad_() for name, tensor in before.mixer.tensors.items()}
    mixed = plain_attention.weights(before.mixer.with_tensors(params), update, SPEC) @ update
    (share * 0.5 * (mixed - target).square().sum()).backward()
    for name, param in params.items():
        torch.testing.assert_close(before.mixer.tensors[name] - after.mixer.tensors[name], param.grad, msg=name)
    assert "temperature" not in params or float(params["temperature"].grad.abs()) > 1e-3
    assert after.mixer_step == 1


def steps(optimizer, scale, size, count=5):
    """How far the encoders get from gradients of a size, with the loss summed over nodes, or averaged."""
    weigh = ChannelAttention(optimizer=optimizer, scale=scale)
    data = Exchange("x_start", "update")(weigh(graph(normal(4, 9, seed=2), weigh), ENV), ENV)
    start = data.mixer.tensors
    for k in range(count):
        data = weigh.learn(data, ENV, size * normal(16, seed=k))
    return torch.cat([(data.mixer.tensors[name] - start[name]).flatten() for name in start])


def test_what_decays_does_not_depend_on_the_scale():
    """Adam's step does not depend on the gradient's scale, and decay beside it does not either; coupled decay does."""
    sums, means = (steps(ChannelAttention().optimizer, scale, 1.0) for scale in ("sum", "mean"))
    assert float(sums.abs().max()) > 0.03
    torch.testing.assert_close(sums, means, rtol=0, atol=1e-5)
    sums, means = (steps(AdamW(lr=0.01, weight_decay=0.0), scale, 1.0) for scale in ("sum", "mean"))
    torch.testing.assert_close(sums, means, rtol=0, atol=1e-5)
    sums, means = (steps(Adam(lr=0.01, weight_decay=0.01), scale, 1e-2) for scale in ("sum", "mean"))
    assert float((sums - means).abs().max()) > 0.01


def two_nodes(weigh, edges=((0, 1, 0, 1), (0, 0, 1, 1))):
    """Nodes that have changed alike, so that each gives itself p + (1 - p) / 2."""
    edges, nodes = torch.tensor(edges), int(max(edges[1])) + 1
    data = Data(num_nodes=nodes, edge_index=edges, node_id=torch.arange(nodes))
    data.bytes_sent, data.isolated = torch.zeros(nodes).double(), torch.zeros(nodes, dtype=torch.bool)
    data.trains = data.serves = data.alone = ~data.isolated
    others = edges[:, edges[0] != edges[1]]
    data.allowed = Relation(others, torch.ones(others.shape[1]), (nodes, nodes))
    data.x_init = Stacks.single(SPEC, torch.zeros(nodes, 9, dtype=torch.float64))
    data.x = data.x_local = data.x_alone = Stacks.single(SPEC, torch.ones(nodes, 9, dtype=torch.float64))
    return weigh(weigh.init(data, ENV), ENV)


def taught(weigh, data, mixed, alone):
    """A round's validation losses, of mixed models and of those that hear nobody."""
    data = copy.copy(weigh(data, ENV))
    data.val_loss, data.alone_loss = torch.tensor(mixed, dtype=torch.float64), torch.tensor(alone, dtype=torch.float64)
    return weigh.learn(data, ENV, torch.zeros(data.edge_index.shape[1], dtype=torch.float64))


def test_gates_by_hand():
    """In round t, log-odds move by 0.01 t log(mixed / alone), the logarithm of a ratio between 1/20.1 and 20.1."""
    weigh = ChannelAttention()
    data = two_nodes(weigh)
    gate = -4.0
    for mixed, alone, moved in (
        ([4.0, 1.0], [1.5, 0.5], 0.01 * math.log(5 / 2)),
        ([1.0, 0.5], [2.0, 1.0], -0.02 * math.log(2)),
        ([2.0, 1.0], [2.0, 1.0], 0.0),
        ([500.0, 1.0], [1.0, 1.0], 0.04 * 3),
        ([0.001, 0.001], [1.0, 1.0], -0.05 * 3),
        ([1.0, 1.0], [0.0, 0.0], 0.06 * 2),  # models that are perfect alone
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([-3.0, 1.0], [-2.0, -2.0], 0.08 * 2 * 2 / 6),  # sums may be negative: -2 and -4
        ([-8.0, 0.0], [-3.0, -1.0], -0.09 * 2 * 4 / 12),  # -8 and -4
        ([1.0, 0.0], [-3.0, 0.0], 0.1 * 2),  # 1 and -3
    ):
        data = taught(weigh, data, mixed, alone)
        gate += moved
        assert data.mixer.gate.tolist() == pytest.approx([gate])
        assert data.alone.tolist() == [True, True]
    p = 1 / (1 + math.exp(-gate))
    assert weigh(data, ENV).edge_weight.tolist() == pytest.approx([(1 + p) / 2, (1 - p) / 2, (1 - p) / 2, (1 + p) / 2])


def test_gates_move_as_far_whatever_is_open_already_and_however_losses_are_counted():
    for gate, scale in ((-4.0, "sum"), (0.0, "sum"), (4.0, "mean")):
        mixer = replace(MixingEncoder.create(SPEC), gate=torch.tensor([gate], dtype=torch.float64))
        weigh = ChannelAttention(optimizer=AdamW(lr=0.02), pretrained=mixer, scale=scale)
        data = taught(weigh, two_nodes(weigh), [4.0, 1.0], [1.5, 0.5])
        assert data.mixer.gate.tolist() == pytest.approx([gate + 0.02 * math.log(5 / 2)])


def test_a_gate_that_has_closed_ends_the_comparison():
    """From log-odds of -4 to -6, in steps of t log 2, but no more than ½."""
    weigh = ChannelAttention(optimizer=AdamW(lr=0.5))
    data = two_nodes(weigh)
    for gate in (-4 - 0.5 * math.log(2), -4.5 - 0.5 * math.log(2), -5 - 0.5 * math.log(2), -5.5 - 0.5 * math.log(2)):
        data = taught(weigh, data, [1.0, 1.0], [2.0, 2.0])
        assert data.mixer.gate.tolist() == pytest.approx([gate])
        assert data.alone.tolist() == [True, True]
    data = taught(weigh, data, [1.0, 1.0], [2.0, 2.0])
    assert data.mixer.gate.tolist() == [-6.0]
    assert data.alone.tolist() == [False, False]
    data = taught(weigh, data, [9.0, 9.0], [math.nan, math.nan])
    assert data.mixer.gate.tolist() == [-6.0]
    assert data.mixer.shares().tolist() == pytest.approx([1 / (1 + math.exp(6))])


def test_every_part_of_the_graph_moves_its_own_gate():
    """Nodes 0 and 1 gain, and their gate closes; 2 and 3 lose; node 4 is alone."""
    weigh = ChannelAttention(optimizer=AdamW(lr=0.1))
    data = two_nodes(weigh, ((0, 1, 0, 1, 2, 3, 2, 3, 4), (0, 0, 1, 1, 2, 2, 3, 3, 4)))
    data = taught(weigh, data, [1e-9, 1e-9, 4.0, 1.0, 9.0], [1.0, 3.0, 1.5, 0.5, 1.0])
    assert data.mixer.gate.tolist() == pytest.approx([-4.3, -4 + 0.1 * math.log(5 / 2)])
    data.alone = torch.tensor([True, True, False, True, False])  # something else has taken node 2 out
    for _ in range(4):
        data = taught(weigh, data, [1e-9, 1e-9, 2.0, 2.0, 9.0], [1.0, 3.0, 2.0, 2.0, 1.0])
    assert data.mixer.gate.tolist() == pytest.approx([-6.0, -4 + 0.1 * math.log(5 / 2)])
    assert data.alone.tolist() == [False, False, False, True, False]


def test_nodes_at_rest_and_those_that_do_not_compare_do_not_move_gates():
    weigh = ChannelAttention()
    data = two_nodes(weigh)
    data.trains = data.serves = torch.tensor([False, True])
    after = taught(weigh, data, [math.nan, 3.0], [math.nan, 1.0])
    assert after.mixer.gate.tolist() == pytest.approx([-4 + 0.01 * math.log(3)])
    data = two_nodes(weigh)
    data.serves = torch.tensor([False, True])  # node 0 is late
    assert taught(weigh, data, [9.0, 3.0], [1.0, 1.0]).mixer.gate.tolist() == after.mixer.gate.tolist()
    after = taught(weigh, two_nodes(weigh), [9.0, 3.0], [math.nan, 1.0])  # the reference of node 0 has diverged
    assert after.mixer.gate.tolist() == pytest.approx([-4 + 0.01 * math.log(3)])
    assert taught(weigh, two_nodes(weigh), [9.0, 3.0], [math.nan, math.nan]).mixer.gate.tolist() == [-4.0]


def test_gates_need_models_to_compare_with():
    weigh = ChannelAttention()
    data = graph(normal(4, 9, seed=1), weigh)
    del data.x_alone
    with raises("conflict", "own", "'largest'"):
        weigh.init(data, ENV)
    for other in (ChannelAttention(own="largest"), ChannelAttention(pretrained=learned(), frozen=True)):
        other.init(data, ENV)


def test_state_of_the_optimizer_is_kept_per_encoder():
    weigh = ChannelAttention(optimizer=Adam(lr=0.1))
    data = weigh(graph(normal(4, 9, seed=4), weigh), ENV)
    data = Exchange("x_start", "update")(data, ENV)
    after = weigh.learn(data, ENV, normal(16, seed=5))
    assert set(after.mixer_exp_avg.tensors) == set(after.mixer.tensors)
    assert all(float(t.abs().max()) == 0 for t in data.mixer_exp_avg.tensors.values())
    assert any(float(t.abs().max()) > 0 for t in after.mixer_exp_avg.tensors.values())


def test_bytes():
    weigh = ChannelAttention()
    data = weigh(graph(normal(4, 9, seed=6), weigh), ENV)
    assert data.bytes_sent.tolist() == [4.0 * 9 * 3] * 4  # every change to the three others
    after = weigh.learn(Exchange("x_start", "update")(data, ENV), ENV, normal(16, seed=7))
    mixed, reduced = 4.0 * 9 * 3, 4.0 * 2 * 3 / 4 * (data.mixer.num_parameters + 1)
    assert after.bytes_sent.tolist() == pytest.approx([4.0 * 9 * 3 + mixed + reduced] * 4)
    frozen = ChannelAttention(pretrained=data.mixer, frozen=True)
    codes = frozen(graph(normal(4, 9, seed=6), frozen), ENV)
    assert codes.bytes_sent.tolist() == [4.0 * 15 * 3] * 4


def test_pretrained_and_frozen(tmp_path):
    mixer = learned()
    path = mixer.save(tmp_path / "mixer.safetensors")
    for source in (mixer, path, str(path)):
        weigh = ChannelAttention(pretrained=source, frozen=True)
        data = graph(torch.zeros(4, 9, dtype=torch.float64), weigh)
        assert (weigh.learns, weigh.needs) == (False, ())
        for name, tensor in mixer.tensors.items():
            torch.testing.assert_close(data.mixer.tensors[name], tensor.double())
        assert "mixer_exp_avg" not in data
    assert ChannelAttention(pretrained=mixer).needs == ("val",)
    paper = learned(**PAPER).save(tmp_path / "paper.safetensors")
    assert graph(torch.zeros(4, 9), ChannelAttention(pretrained=paper, frozen=True)).mixer.form == PAPER


def test_pretrained_encoders_bring_their_settings(tmp_path):
    paper = MixingEncoder.create(SPEC, hidden=6, out=3, bias=False, **PAPER)
    for source in (paper, paper.save(tmp_path / "paper.safetensors")):
        weigh = ChannelAttention(pretrained=source, frozen=True)
        found = {name: getattr(weigh, name) for name in ("hidden", "out", "bias", *PAPER)}
        assert found == {"hidden": 6, "out": 3, "bias": False, **PAPER}
        assert not ChannelAttention(pretrained=source, hidden=6, own="softmax").compares
        for name, given, theirs in (
            ("hidden", 7, 6),
            ("own", "largest", "'softmax'"),
            ("score", "scaled", "'product'"),
        ):
            with raises("conflict", name, f"{name}={given!r}", f"{name}={theirs}"):
                ChannelAttention(pretrained=source, **{name: given})
    grouped = MixingEncoder.create(SPEC, hidden=6).for_groups(torch.tensor([0, 1]))
    assert (grouped.settings["hidden"], grouped.settings["bias"]) == (6, True)
    nobody = MixingEncoder.create(SPEC, hidden=6).for_groups(torch.tensor([-1, -1]))
    assert nobody.settings["hidden"] == 6


def test_frozen_mixers_keep_their_temperature_and_gate():
    mixer, x = learned(), normal(4, 9, seed=1)
    cold = mixer.with_tensors({**mixer.tensors, "temperature": torch.tensor(0.0)})
    weights = []
    for one in (mixer, cold, replace(mixer, gate=torch.tensor([-4.0], dtype=torch.float64))):
        weigh = ChannelAttention(pretrained=one, frozen=True)
        weights.append(weigh(graph(x, weigh), ENV).edge_weight)
        expected = plain_attention.weights(one.to(torch.float64), x, SPEC)
        torch.testing.assert_close(weights[-1], expected[EDGES[1], EDGES[0]])
    assert all(float((weights[0] - other).abs().max()) > 0.02 for other in weights[1:])


def test_refusals():
    with raises("value", "scale", "'sum'", "'mean'", "'max'"):
        ChannelAttention(scale="max")
    with raises("missing", "pretrained"):
        ChannelAttention(frozen=True)
    other = ChannelAttention(pretrained=MixingEncoder.create(ParamSpec.from_module(nn.Linear(5, 3))))
    with raises("shape", "layer 'model'", "3"):
        graph(torch.zeros(4, 9, dtype=torch.float64), other)
    for name, value in (("score", "tanh"), ("own", "none")):
        with raises("value", name, repr(value)):
            ChannelAttention(**{name: value})
    bare = Data(num_nodes=4, edge_index=EDGES[:, EDGES[0] != 3], x=Stacks.single(SPEC, torch.zeros(4, 9)))
    with raises("disconnected", "graph"):
        ChannelAttention().init(bare, ENV)


def test_where_not_all_hear_each_other():
    """Two pairs are whole; an edge that is dropped makes its component sparse; nodes left behind do not count."""
    weigh = ChannelAttention()
    data = graph(normal(4, 9, seed=8), weigh)
    assert in_sparse(data) is None
    data.edge_index = EDGES[:, (EDGES[0] != 3) | (EDGES[1] == 3)]  # nobody hears node 3
    assert in_sparse(data).tolist() == [True] * 4
    data.isolated = torch.tensor([False, False, False, True])
    assert in_sparse(data) is None
    pairs = torch.tensor([[1, 0, 3, 2], [0, 1, 2, 3]])
    data.isolated, data.edge_index = torch.zeros(4, dtype=torch.bool), pairs
    data.allowed, data.component = pairs, torch.tensor([0, 0, 1, 1])
    assert in_sparse(data) is None
    data.edge_index = pairs[:, 1:]  # node 0 hears nobody any more
    assert in_sparse(data).tolist() == [True, True, False, False]


def test_nodes_at_rest_send_nothing_and_weigh_nothing():
    weigh = ChannelAttention()
    data = graph(normal(4, 9, seed=8), weigh)
    data.trains = data.serves = torch.tensor([True, True, False, True])
    after = weigh(data, ENV)
    assert after.bytes_sent.tolist() == [4.0 * 9 * 2] * 2 + [0.0] + [4.0 * 9 * 2]
    heard = [[1, 3], [0, 3], [], [0, 1]]
    expected = plain_attention.weights(data.mixer, data.x.part("all"), SPEC, heard)
    assert expected[2].tolist() == [0.0, 0.0, 1.0, 0.0]
    torch.testing.assert_close(after.edge_weight, expected[EDGES[1], EDGES[0]])


@pytest.mark.parametrize(("scale", "share"), [("sum", 1.0), ("mean", 1 / 3)])
def test_isolated_nodes_neither_pay_nor_count(scale, share):
    weigh, plain = ChannelAttention(optimizer=SGD(lr=1.0), scale=scale), ChannelAttention(optimizer=SGD(lr=1.0))
    data = graph(normal(4, 9, seed=8), weigh)
    data.isolated = torch.tensor([False, False, True, False])
    data.trains = data.serves = ~data.isolated
    data = Exchange("x_start", "update")(weigh(data, ENV), ENV)
    gradient = normal(16, seed=9)
    after, full = weigh.learn(data, ENV, gradient), plain.learn(data, ENV, gradient)
    reduced = 4.0 * 2 * 2 / 3 * (data.mixer.num_parameters + 1)
    assert (after.bytes_sent - data.bytes_sent).tolist() == pytest.approx([reduced, reduced, 0.0, reduced])
    for name, tensor in data.mixer.tensors.items():
        torch.testing.assert_close(tensor - after.mixer.tensors[name], share * (tensor - full.mixer.tensors[name]))
