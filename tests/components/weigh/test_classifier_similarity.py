"""MAPL's graph learning: gradients and steps by hand and against independent code, and what the simplex promises."""

from __future__ import annotations

import copy
import functools
import math
from collections import OrderedDict

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from graphcollab import Tasks
from graphcollab.comm import Plane
from graphcollab.components import ClassifierSimilarity, Env
from graphcollab.engine import Engine
from graphcollab.engine.stack import ParamSpec
from graphcollab.train.start import build_graph
from graphcollab.transforms import Complete, WithSelfLoops
from tests.raising import raises

EDGES = torch.tensor([[0, 1, 2], [0, 0, 0]])
THIRDS = torch.full((3,), 1 / 3, dtype=torch.float64)
CODE = {"lr": 0.1, "rule": "sign", "similarity": "per_class", "normalize": True, "log_degree": False}


@functools.cache
def graph_of_classifiers(shape, sizes=None, edges=None, bias=False):
    """Return graph and environment of nodes with classifiers of a shape, which are to be replaced."""
    count, classes, width = shape
    samples = [(torch.ones(n, width), torch.arange(n) % classes) for n in sizes or [4] * count]
    tasks = Tasks.from_samples(samples)
    module = nn.Sequential(OrderedDict(head=nn.Linear(width, classes, bias=bias)))
    spec = ParamSpec.from_module(module)
    env = Env(Engine(tasks, [module], [spec]), Plane(), 0)
    data = WithSelfLoops()(build_graph(tasks, [module], Complete() if edges is None else edges))
    data.phase_start = 0
    return data, env


def scene(heads, sizes=None, edges=None, bias=False):
    """Return graph and environment of nodes with given classifiers [K, C, d], and all pairs as edges."""
    heads = torch.as_tensor(heads, dtype=torch.float32)
    data, env = graph_of_classifiers(heads.shape, sizes and tuple(sizes), edges, bias)
    data = copy.copy(data)
    flat = heads.flatten(1)
    if bias:
        flat = torch.cat([flat, torch.zeros(*heads.shape[:2])], 1)
    data.x = data.x.with_part("head", flat)
    return data, env


def weights(data, env, weigh, rounds=1):
    """Return the matrix of weights, receivers in rows, after some rounds of learning."""
    data = weigh.init(data, env)
    for _ in range(rounds):
        data = weigh(data, env)
    matrix = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.float64)
    matrix[data.edge_index[1], data.edge_index[0]] = data.edge_weight.double()
    return matrix, data


@pytest.mark.parametrize(
    ("cosines", "log_degree", "expected"),
    [
        # mu1 gamma = 1/6; mu2 beta w / |w| = 0.05 / sqrt 3 = 0.028868; mu2 / deg = 0.1 / (2/3) = 0.15
        ((1.0, 0.8, 0.1), True, (-0.137799, -0.254466, -0.137799)),
        ((1.0, 0.8, 0.1), False, (-0.137799, -0.104466, 0.012201)),
        ((1.0, 1.0, 0.125), True, (-0.137799, -0.287799, -0.141966)),  # the same cosines divided by the largest
        ((1.0, 1.0, 0.125), False, (-0.137799, -0.137799, 0.008034)),
    ],
)
def test_gradients_by_hand(cosines, log_degree, expected):
    weigh = ClassifierSimilarity(log_degree=log_degree)
    cost = 0.5 / 3 * -torch.tensor(cosines, dtype=torch.float64)
    gradient = weigh.gradient(THIRDS, cost, EDGES, 3)
    torch.testing.assert_close(gradient, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=2e-6)


def test_the_published_code_by_hand():
    # cosines 0.8 and 0.1 of node 0 with the others; the gradient's signs are (-, -, +), so a step of 0.1 leads to
    # (13, 13, 7) / 30, whose sum is 33 / 30: the projection takes 1 / 30 off each
    heads = [[[1.0, 0.0, 0.0]], [[0.8, 0.6, 0.0]], [[0.1, 0.0, math.sqrt(0.99)]]]
    matrix, _ = weights(*scene(heads), ClassifierSimilarity(**CODE))
    torch.testing.assert_close(matrix[0], torch.tensor([0.4, 0.4, 0.2], dtype=torch.float64), rtol=0, atol=1e-6)


def test_a_step_by_hand():
    # raw cosines 0.8 and 0.1: w - 0.1 g = 1/3 + (0.0137799, 0.0254466, 0.0137799), less the mean of the steps
    heads = [[[1.0, 0.0, 0.0]], [[0.8, 0.6, 0.0]], [[0.1, 0.0, math.sqrt(0.99)]]]
    matrix, _ = weights(*scene(heads), ClassifierSimilarity(lr=0.1))
    expected = 1 / 3 + torch.tensor([-0.0038889, 0.0077778, -0.0038889], dtype=torch.float64)
    torch.testing.assert_close(matrix[0], expected, rtol=0, atol=1e-6)


def loss(w, cosines, gamma, settings, own):
    """The loss of one node, written anew from the paper."""
    similar = sum(g * x * -c for g, x, c in zip(gamma, w, cosines, strict=True))
    length = math.sqrt(sum(x * x for x in w))
    degree = sum(x for n, x in enumerate(w) if n != own)
    return settings["mu1"] * similar + settings["mu2"] * (
        settings["beta"] * length - math.log(degree + settings["eps"])
    )


@given(
    st.lists(st.floats(0.05, 1.0), min_size=4, max_size=4),
    st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4),
    st.floats(0.0, 2.0),
    st.floats(0.0, 2.0),
    st.floats(0.0, 2.0),
)
def test_the_gradient_is_that_of_the_loss(w, cosines, mu1, mu2, beta):
    settings = {"mu1": mu1, "mu2": mu2, "beta": beta, "eps": 1e-6}
    gamma = [0.1, 0.2, 0.3, 0.4]
    edges = torch.tensor([[0, 1, 2, 3], [2, 2, 2, 2]])
    cost = -mu1 * torch.tensor(gamma, dtype=torch.float64) * torch.tensor(cosines, dtype=torch.float64)
    gradient = ClassifierSimilarity(**settings).gradient(torch.tensor(w, dtype=torch.float64), cost, edges, 4)
    for n in range(4):
        up, down = list(w), list(w)
        up[n], down[n] = w[n] + 1e-6, w[n] - 1e-6
        slope = (loss(up, cosines, gamma, settings, 2) - loss(down, cosines, gamma, settings, 2)) / 2e-6
        assert abs(slope - float(gradient[n])) <= 1e-5 * max(1, abs(slope))


def test_a_node_listens_more_to_one_with_the_same_classifier():
    heads = [[[1.0, 0.0]], [[1.0, 0.0]], [[0.0, 1.0]]]
    matrix, _ = weights(*scene(heads), ClassifierSimilarity(lr=0.01), rounds=3)
    assert matrix[0, 1] > matrix[0, 2] > 0  # the logarithm keeps the other one alive
    assert matrix[1, 0] > matrix[1, 2] > 0


def test_unlike_nodes_vanish_in_time():
    heads = [[[1.0, 0.0]], [[1.0, 0.1]], [[-1.0, 0.0]], [[-1.0, 0.1]]]
    matrix, _ = weights(*scene(heads), ClassifierSimilarity(), rounds=20)
    assert matrix[0, 2:].max() == matrix[2, :2].max() == 0
    assert min(matrix[0, 1], matrix[2, 3]) > 0.3


def test_confidence_is_the_share_of_the_samples():
    heads = torch.randn(3, 2, 4, dtype=torch.float64)
    data = ClassifierSimilarity().init(*scene(heads, sizes=[2, 6, 12]))  # of which 1, 1 and 2 are held out
    assert data.edge_confidence[data.edge_index[1] == 0].tolist() == [1 / 16, 5 / 16, 10 / 16]
    data = ClassifierSimilarity(confidence=False).init(*scene(heads, sizes=[2, 6, 12]))
    assert data.edge_confidence.unique().tolist() == [1 / 3]


def test_more_steps_are_as_many_rounds_with_the_same_classifiers():
    heads = torch.randn(5, 3, 4, dtype=torch.float64)
    one, _ = weights(*scene(heads), ClassifierSimilarity(lr=0.3), rounds=3)
    three, _ = weights(*scene(heads), ClassifierSimilarity(lr=0.3, steps=3))
    torch.testing.assert_close(one, three)


def test_neighbors_send_their_classifiers():
    heads = torch.randn(3, 2, 4, dtype=torch.float64)
    _, data = weights(*scene(heads, bias=True), ClassifierSimilarity())
    assert data.bytes_sent.tolist() == [2 * 4 * (2 * 4 + 2)] * 3


def test_weights_of_those_who_are_away_stay_bit_for_bit():
    heads = torch.randn(4, 2, 3, dtype=torch.float64)
    data, env = scene(heads)
    weigh = ClassifierSimilarity()
    before = weigh(weigh.init(data, env), env)
    data = before.clone()
    data.trains = data.serves = torch.tensor([True, True, True, False])
    after = weigh(data, env)
    sender, receiver = data.edge_index
    fixed = (receiver == 3) | (sender == 3)
    assert torch.equal(after.edge_weight[fixed], before.edge_weight[fixed])
    assert not torch.equal(after.edge_weight, before.edge_weight)
    total = torch.zeros(4).index_add(0, receiver, after.edge_weight)
    torch.testing.assert_close(total, torch.ones(4))
    assert after.bytes_sent[3] == before.bytes_sent[3]


@given(
    st.integers(2, 6), st.integers(0, 10**6), st.sampled_from([0.01, 1.0, 100.0]), st.sampled_from(["gradient", "sign"])
)
def test_weights_stay_on_the_simplex(count, seed, lr, rule):
    heads = torch.randn(count, 3, 4, generator=torch.Generator().manual_seed(seed))
    matrix, _ = weights(*scene(heads), ClassifierSimilarity(lr=lr, rule=rule), rounds=3)
    assert matrix.min() >= 0
    torch.testing.assert_close(matrix.sum(1), torch.ones(count, dtype=torch.float64), rtol=0, atol=1e-6)


def test_norms_similarities_and_negative_cosines():
    heads = [[[1.0, 0.0]], [[-1.0, 0.1]], [[-1.0, -0.2]]]
    # dividing by a largest cosine that is negative would turn all signs around
    given_, _ = weights(*scene(heads), ClassifierSimilarity(lr=0.1, normalize=True))
    plain, _ = weights(*scene(heads), ClassifierSimilarity(lr=0.1))
    torch.testing.assert_close(given_[0], plain[0])
    alike, _ = weights(*scene(heads), ClassifierSimilarity(similarity="none", lr=0.1))
    assert float(alike[0, 1]) == pytest.approx(float(alike[0, 2]))
    # |w|_1 is the same all over the simplex
    flat = torch.full((3,), 1 / 3, dtype=torch.float64)
    cost = torch.zeros(3, dtype=torch.float64)
    step = ClassifierSimilarity(norm="l1", log_degree=False).gradient(flat, cost, EDGES, 3)
    torch.testing.assert_close(step, torch.full((3,), 0.05, dtype=torch.float64))


@pytest.mark.parametrize(
    "wrong",
    [
        {"lr": 0.0},
        {"lr": math.nan},
        {"mu1": -1.0},
        {"eps": 0.0},
        {"beta": math.inf},
        {"rule": "adam"},
        {"similarity": "euclid"},
        {"norm": "l3"},
        {"steps": 0},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with raises("value", next(iter(wrong))):
        ClassifierSimilarity(**wrong)


def test_a_classifier_that_is_no_linear_layer_is_refused():
    tasks = Tasks.from_samples([(torch.ones(4, 3), torch.arange(4) % 2)] * 2)
    module = nn.Sequential(OrderedDict(head=nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))))
    env = Env(Engine(tasks, [module], [ParamSpec.from_module(module)]), Plane(), 0)
    with raises("contract", "part 'head'"):
        ClassifierSimilarity().init(build_graph(tasks, [module]), env)


def test_a_node_keeps_what_it_is_to_keep():
    heads = [[[1.0, 0.0, 0.0]]] + [[[0.0, 1.0, 0.1 * n]] for n in range(1, 10)]  # node 0 is like nobody else
    plain, _ = weights(*scene(heads), ClassifierSimilarity(), rounds=30)
    assert plain.diagonal().tolist() == [0.0] * 10  # as the paper's formula has it
    kept, _ = weights(*scene(heads), ClassifierSimilarity(own=0.5), rounds=30)
    torch.testing.assert_close(kept.diagonal(), torch.full((10,), 0.5, dtype=torch.float64))
    torch.testing.assert_close(kept.sum(1), torch.ones(10, dtype=torch.float64))
    alone, _ = weights(*scene(heads), ClassifierSimilarity(own=1.0))
    torch.testing.assert_close(alone, torch.eye(10, dtype=torch.float64))
    with raises("value", "own"):
        ClassifierSimilarity(own=1.5)


@pytest.mark.parametrize(("count", "others", "apart"), [(10, 4, 0.5), (20, 9, 2 / 3)])
def test_how_far_apart_cosines_must_be_for_weight_to_vanish(count, others, apart):
    for margin, vanishes in ((0.02, True), (-0.02, False)):
        cosine = 1 - apart - margin  # of two clusters of equal heads
        side = math.sqrt(1 - cosine**2)
        heads = [[[1.0, 0.0]]] * (others + 1) + [[[cosine, side]]] * (count - others - 1)
        matrix, _ = weights(*scene(heads), ClassifierSimilarity(lr=8.0), rounds=100)
        assert (float(matrix[0, others + 1 :].max()) == 0) == vanishes
