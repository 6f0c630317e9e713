"""Weights of attention: numbers by hand, bounds, groups."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from graphcollab.engine.stack import ParamSpec
from graphcollab.nn import MixingEncoder
from tests.methods import plain_attention
from tests.raising import raises

SPEC = ParamSpec.from_module(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)))
NODE = torch.arange(3)
ALL = torch.cartesian_prod(NODE, NODE).flip(1).T
LN2 = math.log(2)


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_mixer(temperature=0.0, gate=-4.0, **form):
    """A mixer in double precision with these learned numbers, if its form has them."""
    mixer = MixingEncoder.create(SPEC, seed=1, **form).to(torch.float64)
    learned = {"temperature": numbers(temperature)[0]}
    mixer = mixer.with_tensors({name: learned.get(name, value) for name, value in mixer.tensors.items()})
    return replace(mixer, gate=None if mixer.gate is None else numbers(gate))


def both_of(one, other, group):
    """Two groups with a mixer each."""
    tensors = {f"{g}/{name}": value for g, mixer in enumerate((one, other)) for name, value in mixer.tensors.items()}
    return replace(one, tensors=tensors, group=torch.tensor(group), gate=torch.cat([one.gate, other.gate]))


def weights_of(mixer, change, edges=ALL, in_use=None):
    """The weights [E] of changes, by the mixer."""
    code = mixer.encode(change, SPEC)
    sender, receiver = edges
    logit = (code[receiver] * code[sender]).sum(1)
    return mixer.weigh(logit, edges, sender == receiver, len(change), in_use)


# Node 0 hears 1 and 2, with logits ln 2 and 0, and itself, with 5; node 1 hears nobody; node 2 hears node 1.
EDGES = torch.tensor([[0, 1, 2, 1, 1, 2], [0, 0, 0, 1, 2, 2]])
LOGIT = numbers(5.0, LN2, 0.0, 7.0, -2.0, 3.0)
OWN = EDGES[0] == EDGES[1]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("largest", [0.4, 0.4, 0.2, 1.0, 0.5, 0.5]),
        ("gate", [0.7, 0.2, 0.1, 1.0, 0.25, 0.75]),  # with p = σ(0) = 0.5
        (
            "softmax",
            [
                math.exp(5) / (math.exp(5) + 3),
                2 / (math.exp(5) + 3),
                1 / (math.exp(5) + 3),
                1.0,
                1 / (1 + math.exp(5)),
                1 / (1 + math.exp(-5)),
            ],
        ),
    ],
)
def test_weights_by_hand(own, expected):
    weight = make_mixer(own=own, gate=0.0).weigh(LOGIT, EDGES, OWN, 3)
    assert weight.tolist() == pytest.approx(expected)
    assert float(weight[3]) == 1.0  # who hears nobody keeps everything, exactly


def test_at_first_the_gate_is_almost_shut():
    """σ(-4) = 0.018."""
    p = 1 / (1 + math.exp(4))
    assert make_mixer().weigh(LOGIT, EDGES, OWN, 3)[:3].tolist() == pytest.approx(
        [0.4 * (1 - p) + p, 0.4 * (1 - p), 0.2 * (1 - p)]
    )
    p = 1 / (1 + math.exp(3))
    assert float(make_mixer(gate=-3.0).weigh(LOGIT, EDGES, OWN, 3)[1]) == pytest.approx(0.4 * (1 - p))


def test_every_group_has_a_gate_of_its_own():
    """Without a gate nothing goes to own models."""
    gates = both_of(make_mixer(), make_mixer(gate=-2.0), [0, 1])
    assert gates.shares().tolist() == pytest.approx([1 / (1 + math.exp(4)), 1 / (1 + math.exp(2))])
    assert [float(gates.of(node).gate) for node in (0, 1)] == [-4.0, -2.0]
    assert make_mixer(gate=2.0).for_groups(torch.tensor([0, 1])).gate.tolist() == [2.0, 2.0]
    for own in ("largest", "softmax"):
        bare = make_mixer(own=own)
        assert bare.gate is None
        assert bare.shares().tolist() == [0.0]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("largest", [0.5, 0.0, 0.5, 1.0, 0.0, 1.0]),
        ("gate", [0.75, 0.0, 0.25, 1.0, 0.0, 1.0]),
        ("softmax", [1 / (1 + math.exp(-5)), 0.0, 1 / (1 + math.exp(5)), 1.0, 0.0, 1.0]),
    ],
)
def test_edges_that_are_not_in_use_weigh_nothing(own, expected):
    """Node 1, the best neighbor of node 0, is at rest."""
    in_use = OWN | (EDGES[0] != 1)
    weight = make_mixer(own=own, gate=0.0).weigh(LOGIT, EDGES, OWN, 3, in_use)
    assert weight.tolist() == pytest.approx(expected)
    assert weight[[1, 4]].tolist() == [0.0, 0.0]
    assert weight[[3, 5]].tolist() == [1.0, 1.0]  # node 2 hears nobody now


@pytest.mark.parametrize("own", ["gate", "largest", "softmax"])
@pytest.mark.parametrize("score", ["cosine", "scaled", "product"])
@pytest.mark.parametrize("normalize", [False, True])
def test_rows_are_those_of_plain_loops_and_sum_to_one(score, normalize, own):
    mixer = make_mixer(0.05, 4.0, score=score, normalize=normalize, own=own)
    change = normal(3, SPEC.num_parameters)
    weight = weights_of(mixer, change).view(3, 3)
    torch.testing.assert_close(weight, plain_attention.weights(mixer, change, SPEC))
    assert weight.sum(1).tolist() == pytest.approx([1.0] * 3)
    if own != "softmax":
        assert (weight.diagonal() >= weight.max(1).values - 1e-12).all()
    heard = [[1], [], [0, 1]]
    sparse = torch.tensor([[0, 1, 1, 0, 1, 2], [0, 0, 1, 2, 2, 2]])
    expected = plain_attention.weights(mixer, change, SPEC, heard)
    torch.testing.assert_close(weights_of(mixer, change, sparse), expected[sparse[1], sparse[0]])


def test_every_group_has_its_own_gate_and_temperature():
    """Nodes 0 and 1 have p = 1/2, nodes 2 and 3 have p = σ(1) and e² times the cosines; 4 is alone."""
    edges = torch.tensor([[0, 1, 0, 1, 2, 3, 2, 3, 4], [0, 0, 1, 1, 2, 2, 3, 3, 4]])
    both = both_of(make_mixer(0.0, 0.0), make_mixer(0.2, 1.0), [0, 0, 1, 1, -1])
    weight = weights_of(both, normal(5, SPEC.num_parameters), edges)
    p = 1 / (1 + math.exp(-1))
    assert weight.tolist() == pytest.approx(
        [0.75, 0.25, 0.25, 0.75, (1 + p) / 2, (1 - p) / 2, (1 - p) / 2, (1 + p) / 2, 1]
    )
    codes = both.encode(normal(5, SPEC.num_parameters), SPEC)
    assert codes.square().sum(1).tolist() == pytest.approx([1, 1, math.exp(2), math.exp(2), 0])


def test_newcomers_use_the_gate_of_those_they_hear():
    known = both_of(make_mixer(0.0, 0.0), make_mixer(0.2, 1.0), [1, 0, 0, -1])
    # newcomers 4, 5 and 6: one hears node 1, one node 0, one nobody
    edges = torch.tensor([[1, 4, 0, 5, 6], [0, 0, 1, 1, 2]])
    both = known.with_newcomers(edges, [f"node {k}" for k in range(7)])
    assert both.group.tolist() == [1, 0, 0, -1, 0, 1, -1]
    weight = both.weigh(numbers(0.3, 0.0, 0.7, 0.0, 0.0), edges, edges[0] >= 4, 3)
    p = 1 / (1 + math.exp(-1))
    assert weight.tolist() == pytest.approx([0.25, 0.75, (1 - p) / 2, (1 + p) / 2, 1.0])


@pytest.mark.parametrize("bias", [False, True])
def test_neither_a_large_change_nor_a_large_layer_counts_more(bias):
    change = normal(3, SPEC.num_parameters)
    layer = slice(0, 16)  # the first layer's weight and bias
    mixer, paper = make_mixer(bias=bias), make_mixer(bias=bias, score="product", normalize=False, own="softmax")
    weight = weights_of(mixer, change)
    for factor in (1e-6, 1000.0):
        node, both, one = (change.clone() for _ in range(3))
        node[1] *= factor
        both[:, layer] *= factor
        one[2, layer] *= factor
        for scaled in (node, both, one):
            torch.testing.assert_close(weights_of(mixer, scaled), weight)
            assert float((weights_of(paper, scaled) - weights_of(paper, change)).abs().max()) > 1e-3


def test_all_filters_of_a_layer_are_divided_by_the_same():
    """A filter that changed ten times as much as the others of its layer is encoded as such."""
    change = normal(3, SPEC.num_parameters)
    one = change.clone()
    one[1, :3] *= 10
    assert float((weights_of(make_mixer(), one) - weights_of(make_mixer(), change)).abs().max()) > 1e-3


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("who", [[0, 1, 2], [1]])
def test_a_layer_that_has_not_changed_tells_nothing_apart(bias, who):
    """Without biases its cosine is 0; with them all who have not changed it are encoded alike."""
    change = normal(3, SPEC.num_parameters)
    change[who, 16:] = 0
    mixer = make_mixer(own="softmax", bias=bias)
    params = {name: tensor.requires_grad_() for name, tensor in mixer.clone().tensors.items()}
    weight = weights_of(mixer.with_tensors(params), change)
    weight.square().sum().backward()
    assert all(bool(tensor.grad.isfinite().all()) for tensor in params.values())
    weight = weight.detach().view(3, 3)
    [first, *_] = mixer.widths
    only = ParamSpec.from_module(nn.Sequential(nn.Linear(3, 4)))
    alone = MixingEncoder({first: mixer.widths[first]}, mixer.tensors, None, "cosine", True, "softmax")
    cosine = alone.encode(change[:, :16], only)
    cosine = cosine @ cosine.T  # of the first layer
    if len(who) == 3:  # half the mean, whatever the second layer says to all
        torch.testing.assert_close(weight, (cosine / 2).softmax(1))
    if not bias:
        code = mixer.encode(change, SPEC)
        torch.testing.assert_close((code @ code.T)[1], cosine[1] / 2)


def test_nobody_has_changed():
    for bias in (False, True):
        for own in ("gate", "largest", "softmax"):
            weight = weights_of(
                make_mixer(own=own, bias=bias), torch.zeros(3, SPEC.num_parameters, dtype=torch.float64)
            )
            p = 1 / (1 + math.exp(4)) if own == "gate" else 0.0
            expected = torch.eye(3).double() * p + (1 - p) / 3
            torch.testing.assert_close(weight.view(3, 3), expected)


@pytest.mark.parametrize("temperature", [-0.1, 0.0, 0.3])
def test_logits_are_at_most_the_temperature(temperature):
    """However large the encoders are; the temperature is e to ten times its parameter."""
    change = normal(6, SPEC.num_parameters, seed=2)
    for factor in (1.0, 1e3):
        mixer = make_mixer(temperature)
        mixer = mixer.with_tensors({n: t if n == "temperature" else factor * t for n, t in mixer.tensors.items()})
        code = mixer.encode(change, SPEC)
        logit = code @ code.T
        assert float(logit.abs().max()) <= math.exp(10 * temperature) * (1 + 1e-12)
        assert logit.diagonal().tolist() == pytest.approx([math.exp(10 * temperature)] * 6)


def test_weights_do_not_depend_on_the_length_of_codes():
    """Of a layer that is there twice, under two names, cosines are what they were; inner products double."""
    change = normal(3, 16)
    once = ParamSpec.from_module(nn.Sequential(nn.Linear(3, 4)))
    twice = ParamSpec.from_module(nn.Sequential(nn.Linear(3, 4), nn.Linear(3, 4)))
    mixer = MixingEncoder.create(once, seed=1).to(torch.float64)
    tensors = {**mixer.tensors, **{n.replace("0/", "1/"): t for n, t in mixer.tensors.items()}}
    both = MixingEncoder({"0": 4, "1": 4}, tensors)
    one, two = mixer.encode(change, once), both.encode(change.repeat(1, 2), twice)
    torch.testing.assert_close(two @ two.T, one @ one.T)


@pytest.mark.parametrize(
    ("own", "gate", "expected"),
    [
        ("largest", 0.0, [1 / 2, 1 / 3, 1 / 6]),  # of 0.4, 0.4 and 0.2
        ("gate", 0.0, [0.7, 0.2, 0.1]),  # p = 0.5 is enough
        ("softmax", 0.0, numbers(5.0, LN2, 0.0).softmax(0).tolist()),
    ],
)
def test_own_models_get_half_at_least_in_sparse_graphs(own, gate, expected):
    mixer = make_mixer(own=own, gate=gate) if own == "gate" else make_mixer(own=own)
    sparse = torch.tensor([True, True, False])
    weight = mixer.weigh(LOGIT, EDGES, OWN, 3, sparse=sparse)
    assert weight[:3].tolist() == pytest.approx(expected)
    assert float(weight[3]) == 1.0  # who hears nobody
    torch.testing.assert_close(weight[4:], mixer.weigh(LOGIT, EDGES, OWN, 3)[4:])


def test_a_form_that_does_not_exist_is_refused():
    with raises("format", "form", "'cosine'", "'scaled'", "'product'", "'cosin'"):
        MixingEncoder.create(SPEC, score="cosin")
