"""Weights by similarity (FedSim): hand cases of eq. 2.12 and 2.13, and what the text leaves open."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, strategies as st
from torch_geometric.data import Data

from graphcollab.components import SimilarityWeights
from tests.raising import raises

LOOPED = [[0, 1, 2], [0, 0, 0]]


def similarity_weights(values, edge_index, num_nodes):
    data = Data(num_nodes=num_nodes, edge_index=edge_index, edge_prior=values)
    return SimilarityWeights(by="prior").weights(data, None)


def test_the_hand_case(make_graph, make_env):
    # p = (.6, .2): N = .6 + .8 = 1.4; the own model gets .6 / 1.4
    prior = torch.tensor([math.nan, 0.6, 0.2])  # what stands at a self-loop is ignored
    data = SimilarityWeights(by="prior")(make_graph([[0.0]] * 3, edges=LOOPED, edge_prior=prior), make_env())
    assert data.edge_weight.tolist() == pytest.approx([0.428571, 0.428571, 0.142857], abs=1e-6)


def test_equal_priors_are_the_plain_mean():
    assert similarity_weights(torch.full((3,), 0.01), torch.tensor(LOOPED), 3).tolist() == pytest.approx([1 / 3] * 3)


def test_receivers_do_not_influence_each_other():
    edges = torch.tensor([[0, 1, 2, 1, 2], [0, 0, 0, 1, 1]])
    weight = similarity_weights(torch.tensor([0.0, 0.6, 0.2, 0.0, 7.0]), edges, 4)
    assert weight.tolist() == pytest.approx([3 / 7, 3 / 7, 1 / 7, 0.5, 0.5])


def test_without_a_self_loop_neighbors_share_everything():
    edges = torch.tensor([[1, 2], [0, 0]])
    assert similarity_weights(torch.tensor([0.6, 0.2]), edges, 3).tolist() == pytest.approx([0.75, 0.25])
    assert similarity_weights(torch.zeros(2), edges, 3).tolist() == [0.5, 0.5]


def test_similar_to_nobody():
    assert similarity_weights(torch.zeros(3), torch.tensor(LOOPED), 3).tolist() == [1.0, 0.0, 0.0]
    assert similarity_weights(torch.zeros(1), torch.tensor([[0], [0]]), 1).tolist() == [1.0]
    assert similarity_weights(torch.zeros(0), torch.zeros(2, 0, dtype=torch.int64), 2).tolist() == []


def test_great_values_do_not_overflow():
    values = torch.tensor([0.0, 1e308, 1e308], dtype=torch.float64)
    assert similarity_weights(values, torch.tensor(LOOPED), 3).tolist() == pytest.approx([1 / 3] * 3)


pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), unique=True, max_size=20)


@given(pairs, st.data())
def test_against_the_equations(pairs, draw):
    values = draw.draw(st.lists(st.floats(0, 10), min_size=len(pairs), max_size=len(pairs)))
    edges = torch.tensor(pairs, dtype=torch.int64).view(-1, 2).T
    found = similarity_weights(torch.tensor(values, dtype=torch.float64), edges, 6).tolist()
    for i in range(6):
        mine = [(j, p, w) for (j, k), p, w in zip(pairs, values, found, strict=True) if k == i]
        prior = [p for j, p, _ in mine if j != i]
        own = max(prior, default=0.0) if any(j == i for j, _, _ in mine) else 0.0
        total = own + sum(prior)
        if mine:
            assert sum(w for _, _, w in mine) == pytest.approx(1)
        if total > 0:
            assert [w for _, _, w in mine] == pytest.approx([(own if j == i else p) / total for j, p, _ in mine])


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf])
def test_values_that_are_no_similarities(bad):
    with raises("range", "edge 1"):
        similarity_weights(torch.tensor([0.0, bad, 0.2]), torch.tensor(LOOPED), 3)


def test_without_priors(make_graph, make_env):
    with raises("missing", "by"):
        SimilarityWeights(by="prior")(make_graph([[0.0]] * 3, edges=LOOPED), make_env())


# softmax of measured cosines, with the own model at 1 or a constant weight


def graph(scores):
    many = len(scores)
    data = Data(num_nodes=many, edge_index=torch.stack([torch.arange(many), torch.zeros(many, dtype=torch.int64)]))
    data.edge_score = torch.tensor(scores, dtype=torch.float64)
    return data


def test_by_hand():
    weights = SimilarityWeights("alike", 2.0).weights(graph([math.nan, 0.5, -1.0]), None)
    parts = [math.exp(2), math.exp(1), math.exp(-2)]
    assert weights.tolist() == pytest.approx([part / sum(parts) for part in parts])


def test_a_node_that_met_only_unlike_peers_keeps_its_own_model():
    weights = SimilarityWeights("alike", 30.0).weights(graph([math.nan, 0.3, 0.2, -0.9]), None)
    assert float(weights[0]) > 1 - 1e-8


def test_large_tau_does_not_overflow():
    assert SimilarityWeights("alike", 1e300).weights(graph([math.nan, 1.0, 0.9]), None).tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("tau", [0, -1.0, math.inf, math.nan])
def test_tau_must_be_a_positive_number(tau):
    with raises("value", "tau"):
        SimilarityWeights("alike", tau)


def test_only_cosines_are_weighed():
    with raises("range", "edge 1", "3", "cosines"):
        SimilarityWeights("alike", 30.0).weights(graph([math.nan, 3.0]), None)
    for wrong in (math.nan, math.inf, -math.inf):
        with raises("range", "edge 2", f"{wrong:g}", "(2 -> 0)"):
            SimilarityWeights("alike", 30.0).weights(graph([math.nan, 0.5, wrong]), None)
    with raises("range", "edge 2"):
        SimilarityWeights("alike").weights(graph([math.nan, 0.5, math.nan]), None)
    with raises("missing", "by"):
        SimilarityWeights("alike", 30.0).weights(Data(num_nodes=1, edge_index=torch.tensor([[0], [0]])), None)


def test_a_constant_own_weight():
    """θ = (1, 0), (1, 1), (0, 1), (-1, 0): cosines √½, 0 and -1 with the first; twice with other numbers."""
    scores = [math.nan, math.sqrt(0.5), 0.0, -1.0]
    edges = torch.tensor([[0, 1, 2, 3, 1, 2, 3], [0, 0, 0, 0, 1, 2, 3]])
    data = Data(num_nodes=4, edge_index=edges, edge_score=torch.tensor([*scores, *[math.nan] * 3]).double())
    found = SimilarityWeights(0.4, 1.0).weights(data, None).tolist()
    assert found == pytest.approx([0.4, 0.358325, 0.176679, 0.064996, 1, 1, 1], abs=1e-6)
    found = SimilarityWeights(0.3, 10.0).weights(data, None).tolist()
    assert found == pytest.approx([0.3, 0.699406, 0.000594, 0, 1, 1, 1], abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_constant_own_weight_is_as_exact_as_the_scores(dtype):
    data = graph([math.nan, 0.5, -1.0])
    data.edge_score = data.edge_score.to(dtype)
    weights = SimilarityWeights(0.3, 2.0).weights(data, None)
    assert weights.dtype == dtype
    assert torch.equal(weights[0], torch.tensor(0.3, dtype=dtype))
