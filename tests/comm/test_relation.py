from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from graphcollab.comm import Relation
from tests.raising import raises


def test_relation_moves():
    up = Relation(torch.tensor([[0, 1, 2], [0, 0, 1]]), torch.tensor([1.0, 2.0, 3.0]), (3, 2))
    double = up.to(torch.float64)
    assert double.values.dtype == torch.float64
    assert double.edge_index.dtype == torch.int64


@pytest.mark.parametrize(
    ("edge_index", "values", "error"),
    [
        (torch.zeros(3, 2, dtype=torch.int64), torch.zeros(2), ("shape", "edge_index", "2", "3")),
        (torch.zeros(2, dtype=torch.int64), torch.zeros(2), ("shape", "edge_index", "2")),
        (torch.zeros(2, 2, dtype=torch.int64), torch.zeros(3), ("shape", "values", "2", "3")),
    ],
)
def test_relation_refuses_other_shapes(edge_index, values, error):
    with raises(*error):
        Relation(edge_index, values, (2, 2))


def test_relation_is_opaque_to_data():
    # as many relation edges as nodes and as many nodes as edges: PyG would take either for a node or edge field
    relation = Relation(torch.tensor([[0, 1], [1, 0]]), torch.ones(2), (2, 2))
    data = Data(num_nodes=2, edge_index=torch.tensor([[0, 1], [1, 0]]), memory=relation)
    assert "memory" not in data.node_attrs() + data.edge_attrs()
