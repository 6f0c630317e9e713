from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from graphcollab.comm import Comm, Relation


def test_relation_flips_and_moves():
    up = Relation(torch.tensor([[0, 1, 2], [0, 0, 1]]), torch.tensor([1.0, 2.0, 3.0]), (3, 2))
    down = up.flip()
    assert down.edge_index.tolist() == [[0, 0, 1], [0, 1, 2]]
    assert down.size == (2, 3)
    assert torch.equal(down.values, up.values)
    assert down.flip().size == up.size
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


def test_verbs_are_the_identity_in_one_process():
    comm, rows = Comm(), torch.arange(6.0).view(3, 2)
    assert comm.halo(rows, torch.tensor([[0], [1]])) is rows
    assert comm.reduce(rows) is rows
    assert torch.equal(comm.at_owner(rows, lambda r: r.sum(1)), torch.tensor([1.0, 5.0, 9.0]))


def test_count_charges_senders_four_bytes_a_float():
    data = Data(num_nodes=3, bytes_sent=torch.tensor([0.0, 8.0, 0.0], dtype=torch.float64))
    after = Comm().count(data, torch.tensor([1, 1, 2]), 10)
    assert after.bytes_sent.tolist() == [0.0, 88.0, 40.0]
    assert data.bytes_sent.tolist() == [0.0, 8.0, 0.0]
    assert Comm().count(data, torch.tensor([], dtype=torch.int64), 10).bytes_sent.tolist() == [0.0, 8.0, 0.0]
