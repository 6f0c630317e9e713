from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn
from torch_geometric.data import Data

from graphcollab.comm import Plane
from graphcollab.components import Env, HeadAffinity
from graphcollab.engine import Stacks
from graphcollab.engine.stack import ParamSpec
from graphcollab.transforms import WithSelfLoops
from tests.raising import raises

# Two classes of two latents. Cosines of node 0's classes with node 1's: 1 and 0; with node 2's: -1 and -1; of 1 with 2:
# -1 and 0. The biases say the contrary, and play no part.
HEADS = [[[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [3.0, 0.0]], [[-1.0, 0.0], [0.0, -1.0]]]
BIASES = [[1.0, 1.0], [-9.0, -9.0], [9.0, 9.0]]


def graph_of_heads(heads, biases=None, edges=None, **masks):
    """Nodes whose model is a backbone 1 -> 2 and a head; all pairs and self-loops, unless edges are given."""
    spec = ParamSpec.from_module(nn.ModuleDict({"backbone": nn.Linear(1, 2), "head": nn.Linear(2, 2)}))
    count = len(heads)
    biases = [[0.0, 0.0]] * count if biases is None else biases
    pieces = [torch.zeros(count, 4), torch.tensor(heads, dtype=torch.float64).flatten(1), torch.tensor(biases)]
    rows = torch.cat(pieces, 1)
    every = torch.cartesian_prod(torch.arange(count), torch.arange(count)).T.flip(0)
    edge_index = every if edges is None else torch.tensor(edges)
    data = Data(num_nodes=count, edge_index=edge_index, node_id=torch.arange(count), edge_weight=torch.zeros(0))
    data.x = Stacks.single(spec, rows)
    on = torch.ones(count, dtype=torch.bool)
    data.trains, data.serves, data.isolated = on, on, ~on
    data.bytes_sent = torch.zeros(count, dtype=torch.float64)
    for name, value in masks.items():
        data[name] = torch.tensor(value)
    tasks = SimpleNamespace(names=[f"node {k}" for k in range(count)])
    return data, Env(SimpleNamespace(tasks=tasks), Plane(), 0)


def matrix(data, weight):
    return weight.new_zeros(data.num_nodes, data.num_nodes).index_put((data.edge_index[1], data.edge_index[0]), weight)


def test_three_classifiers_by_hand():
    """-log(1 - s) of 0.9999, 0.5 and 0 is 9.2103, 0.6931 and 0."""
    data, env = graph_of_heads(HEADS, BIASES)
    weigher = HeadAffinity()
    after = weigher(weigher.init(data, env), env)
    own, other = 9.2103 / 9.9035, 0.6931 / 9.9035
    expected = [[own, other, 0.0], [other, own, 0.0], [0.0, 0.0, 1.0]]
    np.testing.assert_allclose(matrix(data, after.edge_weight), expected, atol=1e-5)
    assert after.bytes_sent.tolist() == [4.0 * 6] * 3  # every classifier goes up once


def test_a_classifier_that_is_mixed_is_not_charged_twice():
    for part in ("head", "all", "backbone+head"):
        data, env = graph_of_heads(HEADS)
        assert HeadAffinity(part)(data, env).bytes_sent.tolist() == [0.0] * 3


def test_equal_classifiers_weigh_the_same_and_nothing_is_infinite():
    data, env = graph_of_heads([HEADS[0], HEADS[0], HEADS[0], HEADS[2]])
    weight = matrix(data, HeadAffinity().weights(data, env))
    third = [1 / 3, 1 / 3, 1 / 3, 0.0]
    np.testing.assert_allclose(weight, [third, third, third, [0.0, 0.0, 0.0, 1.0]], atol=1e-12)


@pytest.mark.parametrize("bad", [0.0, math.nan, math.inf])
def test_a_classifier_that_says_nothing_stays_alone(bad):
    data, env = graph_of_heads([HEADS[0], [[bad, bad], [bad, bad]], HEADS[0]])
    weight = matrix(data, HeadAffinity().weights(data, env))
    np.testing.assert_allclose(weight, [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]], atol=1e-12)


def test_nodes_at_rest_weigh_nothing_and_the_others_sum_to_one():
    heads = [HEADS[0], HEADS[0], HEADS[1]]
    data, env = graph_of_heads(heads, trains=[True, True, True], serves=[True, False, True])
    after = HeadAffinity()(data, env)
    weight = matrix(data, after.edge_weight)
    np.testing.assert_allclose(weight[0], [0.9300, 0.0, 0.0700], atol=5e-5)
    np.testing.assert_allclose(weight[1, 1] / weight[1, 0], 1.0)  # it is late, and hears itself and the others
    assert after.bytes_sent.tolist() == [24.0, 0.0, 24.0]
    data, env = graph_of_heads(heads, trains=[True, False, True], serves=[True, False, True])
    np.testing.assert_allclose(matrix(data, HeadAffinity().weights(data, env))[1], [0.0, 1.0, 0.0])


def test_edges_that_are_given():
    data, env = graph_of_heads([HEADS[0]] * 3, edges=[[0, 1, 1, 2], [0, 0, 1, 2]])
    weight = matrix(data, HeadAffinity().weights(data, env))
    np.testing.assert_allclose(weight, [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


@given(st.integers(1, 5), st.integers(0, 2**31), st.floats(0.5, 0.99999))
def test_weights_are_shares_of_minus_the_logarithm(count, seed, cap):
    """Against a double loop in numpy; rows sum to one, and the own model weighs most."""
    heads = np.random.default_rng(seed).normal(size=(count, 2, 2)).round(1)
    data, env = graph_of_heads(heads.tolist())
    weight = matrix(data, HeadAffinity(cap=cap).weights(data, env)).numpy()
    expected = np.zeros((count, count))
    for i in range(count):
        for j in range(count):
            lengths = [np.linalg.norm(heads[i, c]) * np.linalg.norm(heads[j, c]) for c in range(2)]
            cosines = [heads[i, c] @ heads[j, c] / lengths[c] if lengths[c] else 0.0 for c in range(2)]
            alike = cap if i == j else min(max(sum(cosines) / 2, 0.0), cap)
            expected[i, j] = -math.log(1 - alike)
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(weight, expected, atol=1e-9)
    assert (weight.max(1) <= weight.diagonal() + 1e-12).all()


@pytest.mark.parametrize("cap", [0.0, 1.0, -0.5, math.nan])
def test_bad_caps(cap):
    with raises("value", "cap"):
        HeadAffinity(cap=cap)


def test_what_it_cannot_do_is_said_at_the_start():
    data, env = graph_of_heads(HEADS, edges=[[0, 1, 1], [0, 0, 1]])
    with raises("disconnected", "graph"):
        HeadAffinity().init(data, env)
    data.edge_weight = torch.zeros(3)
    assert HeadAffinity().init(WithSelfLoops()(data), env) is not None
    data.x = Stacks.single(ParamSpec.from_module(nn.ModuleDict({"head": nn.Conv2d(1, 1, 2)})), torch.zeros(3, 5))
    with raises("contract", "part 'head'"):
        HeadAffinity().init(data, env)
