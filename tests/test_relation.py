from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from graphcollab.relation import Relation


def test_relation_moves():
    up = Relation(torch.tensor([[0, 1, 2], [0, 0, 1]]), torch.tensor([1.0, 2.0, 3.0]), (3, 2))
    double = up.to(torch.float64)
    assert double.values.dtype == torch.float64
    assert double.edge_index.dtype == torch.int64


@pytest.mark.parametrize(
    ("edge_index", "values", "message"),
    [
        (torch.zeros(3, 2, dtype=torch.int64), torch.zeros(2), r"shape \[2, E\], got \(3, 2\)"),
        (torch.zeros(2, dtype=torch.int64), torch.zeros(2), r"shape \[2, E\], got \(2,\)"),
        (torch.zeros(2, 2, dtype=torch.int64), torch.zeros(3), r"2 edges have \(3,\) values"),
    ],
)
def test_relation_refuses_other_shapes(edge_index, values, message):
    with pytest.raises(ValueError, match=message):
        Relation(edge_index, values, (2, 2))


def test_relation_is_opaque_to_data():
    # as many relation edges as nodes and as many nodes as edges: PyG would take either for a node or edge field
    relation = Relation(torch.tensor([[0, 1], [1, 0]]), torch.ones(2), (2, 2))
    data = Data(num_nodes=2, edge_index=torch.tensor([[0, 1], [1, 0]]), memory=relation)
    assert "memory" not in data.node_attrs() + data.edge_attrs()
