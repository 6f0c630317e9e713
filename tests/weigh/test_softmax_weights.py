"""Softmax of measured cosines, with the own model at 1."""

from __future__ import annotations

import math

import pytest
import torch
from torch_geometric.data import Data

from graphcollab.weigh import SoftmaxWeights


def graph(scores):
    many = len(scores)
    data = Data(num_nodes=many, edge_index=torch.stack([torch.arange(many), torch.zeros(many, dtype=torch.int64)]))
    data.edge_score = torch.tensor(scores, dtype=torch.float64)
    return data


def test_by_hand():
    weights = SoftmaxWeights(2.0).weights(graph([math.nan, 0.5, -1.0]), None)
    parts = [math.exp(2), math.exp(1), math.exp(-2)]
    assert weights.tolist() == pytest.approx([part / sum(parts) for part in parts])


def test_a_node_that_met_only_unlike_peers_keeps_its_own_model():
    weights = SoftmaxWeights(30.0).weights(graph([math.nan, 0.3, 0.2, -0.9]), None)
    assert float(weights[0]) > 1 - 1e-8


def test_large_tau_does_not_overflow():
    assert SoftmaxWeights(1e300).weights(graph([math.nan, 1.0, 0.9]), None).tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("tau", [0, -1.0, math.inf, math.nan])
def test_tau_must_be_a_positive_number(tau):
    with pytest.raises(ValueError, match="tau must be a positive finite number"):
        SoftmaxWeights(tau)


def test_only_cosines_are_weighed():
    with pytest.raises(ValueError, match=r"cosines, which are at most 1, got a similarity of 3"):
        SoftmaxWeights().weights(graph([math.nan, 3.0]), None)
    with pytest.raises(ValueError, match="needs `edge_score`"):
        SoftmaxWeights().weights(Data(num_nodes=1, edge_index=torch.tensor([[0], [0]])), None)


def test_a_constant_own_weight():
    """θ = (1, 0), (1, 1), (0, 1), (-1, 0): cosines √½, 0 and -1 with the first; twice with other numbers."""
    scores = [math.nan, math.sqrt(0.5), 0.0, -1.0]
    edges = torch.tensor([[0, 1, 2, 3, 1, 2, 3], [0, 0, 0, 0, 1, 2, 3]])
    data = Data(num_nodes=4, edge_index=edges, edge_score=torch.tensor([*scores, *[math.nan] * 3]).double())
    found = SoftmaxWeights(1.0, own=0.4).weights(data, None).tolist()
    assert found == pytest.approx([0.4, 0.358325, 0.176679, 0.064996, 1, 1, 1], abs=1e-6)
    found = SoftmaxWeights(10.0, own=0.3).weights(data, None).tolist()
    assert found == pytest.approx([0.3, 0.699406, 0.000594, 0, 1, 1, 1], abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_constant_own_weight_is_as_exact_as_the_scores(dtype):
    data = graph([math.nan, 0.5, -1.0])
    data.edge_score = data.edge_score.to(dtype)
    weights = SoftmaxWeights(2.0, own=0.3).weights(data, None)
    assert weights.dtype == dtype
    assert torch.equal(weights[0], torch.tensor(0.3, dtype=dtype))
