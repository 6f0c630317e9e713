"""Projections of data shares and similarities: rows that were worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data

from graphcollab.components import SimplexWeights

EDGES = torch.tensor([[0, 1, 2, 1, 2], [0, 0, 0, 1, 2]])


def row(weigher, scores, counts):
    data = Data(num_nodes=3, edge_index=EDGES)
    data.edge_score = torch.tensor([torch.nan, *scores, torch.nan, torch.nan], dtype=torch.float64)
    tasks = SimpleNamespace(sizes=lambda split: torch.tensor(counts))
    found = weigher.weights(data, SimpleNamespace(engine=SimpleNamespace(tasks=tasks)))
    assert found[3:].tolist() == [1.0, 1.0]  # who hears nobody keeps its own
    return found[:3].tolist()


@pytest.mark.parametrize(
    ("alpha", "expected"), [(0.1, [1, 0, 0]), (0.8, [0.6875, 0.3125, 0]), (8.0, [0.5375, 0.275, 0.1875])]
)
def test_the_own_share_grows_with_alpha(alpha, expected):
    assert row(SimplexWeights(alpha), [0.8, -0.6], [2, 1, 1]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("score", "snap", "expected"),
    [
        (0.89, 0.9, [0.534375, 0.465625, 0]),
        (0.91, 0.9, [0.5, 0.5, 0]),
        (0.9, 0.9, [0.53125, 0.46875, 0]),
        (0.91, None, [0.528125, 0.471875, 0]),
    ],
)
def test_rows_jump_where_a_similarity_is_snapped(score, snap, expected):
    assert row(SimplexWeights(0.8, snap), [score, 0.0], [7, 7, 7]) == pytest.approx(expected)


def test_limits():
    assert row(SimplexWeights(1e9), [0.8, -0.6], [2, 1, 1]) == pytest.approx([0.5, 0.25, 0.25])
    assert row(SimplexWeights(0.3), [1.0, 1.0], [2, 1, 1]) == pytest.approx([0.5, 0.25, 0.25])
