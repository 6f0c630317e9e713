"""The kernel of distances, and what a node keeps for itself."""

from __future__ import annotations

import math

import pytest
import torch

from graphcollab.components import DistanceKernel, PeerWeights, SimilarityWeights
from tests.raising import raises

ALL = torch.cartesian_prod(torch.arange(4), torch.arange(4)).flip(1).T


def matrix(data):
    return torch.zeros(4, 4, dtype=torch.float64).index_put((ALL[1], ALL[0]), data.edge_weight.double()).tolist()


def test_scores_by_hand(make_graph, make_env):
    data = make_graph([[0.0], [1.0], [3.0], [1.0]])
    edges = torch.tensor([[1, 2, 3, 0], [0, 0, 1, 2]])
    found = DistanceKernel(sigma=2.0).scores(data, make_env(), edges)
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx([math.exp(-0.5), math.exp(-4.5), 1.0, math.exp(-4.5)])


def test_the_median_is_every_receivers_own(make_graph, make_env):
    data = make_graph([[0.0], [1.0], [3.0], [2.0]])
    edges = torch.tensor([[1, 2, 3, 0, 1], [0, 0, 0, 1, 2]])  # 0 hears 1, 9 and 4 away; 1 and 2 hear one node each
    found = DistanceKernel().scores(data, make_env(), edges).tolist()
    assert found == pytest.approx([math.exp(-1 / 4), math.exp(-9 / 4), math.exp(-1), math.exp(-1), math.exp(-1)])


def test_equal_models_and_such_that_are_not_finite(make_graph, make_env):
    data = make_graph([[1.0], [1.0], [math.nan], [1.0]])
    edges = torch.tensor([[1, 2, 3], [0, 0, 0]])
    for sigma in ("median", 1.0):
        assert DistanceKernel(sigma).scores(data, make_env(), edges).tolist() == [1.0, 0.0, 1.0]
    assert DistanceKernel().scores(data, make_env(), edges[:, :0]).tolist() == []


def test_weights_are_symmetric_and_what_is_left_is_the_own_models(make_graph, make_env):
    data = make_graph([[0.0], [1.0], [3.0], [1.0]], edges=ALL)
    weights = matrix(PeerWeights(DistanceKernel(2.0, scale=0.25), merge=SimilarityWeights("rest"))(data, make_env()))
    near, far, next_ = (0.25 * math.exp(-x / 2) for x in (1, 9, 4))
    assert weights == [
        pytest.approx(row)
        for row in (
            [1 - 2 * near - far, near, far, near],
            [near, 1 - near - next_ - 0.25, next_, 0.25],
            [far, next_, 1 - far - 2 * next_, next_],
            [near, 0.25, next_, 1 - near - next_ - 0.25],
        )
    ]


def test_the_own_weight_is_never_negative(make_graph, make_env):
    data = make_graph([[0.0]] * 4, edges=ALL)
    weights = matrix(PeerWeights(DistanceKernel(1.0, scale=2.0), merge=SimilarityWeights("rest"))(data, make_env()))
    assert weights[0] == pytest.approx([0.0, 1 / 3, 1 / 3, 1 / 3])


def test_a_node_needs_a_self_loop(make_graph, make_env):
    data = make_graph([[0.0]] * 2, edges=[[0, 1], [0, 0]], edge_score=torch.ones(2))
    env = make_env()
    env = env._replace(engine=type("Engine", (), {"tasks": type("Tasks", (), {"names": ("a", "b")})}))
    with raises("disconnected", "graph"):
        SimilarityWeights("rest").init(data, env)
