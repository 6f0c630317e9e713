from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from graphcollab.transforms import Complete, Isolated, WithSelfLoops
from tests.raising import raises


def test_missing_loops_are_added_and_existing_ones_kept() -> None:
    data = Data(
        num_nodes=3,
        edge_index=torch.tensor([[2, 1, 0], [0, 1, 1]]),
        edge_weight=torch.tensor([0.2, 0.9, 0.4]),
        edge_hits=torch.tensor([[1, 2], [3, 4], [5, 6]]),
        edge_seen=torch.tensor([True, True, True]),
    )
    out = WithSelfLoops()(data)
    assert out.edge_index.tolist() == [[0, 2, 0, 1, 2], [0, 0, 1, 1, 2]]
    assert out.edge_weight.tolist() == pytest.approx([0.0, 0.2, 0.4, 0.9, 0.0])
    assert out.edge_hits.tolist() == [[0, 0], [1, 2], [5, 6], [3, 4], [0, 0]]
    assert out.edge_seen.tolist() == [False, True, True, True, False]
    assert data.num_edges == 3
    assert data.edge_weight.shape == (3,)


def test_weights_are_not_invented() -> None:
    assert WithSelfLoops()(Data(num_nodes=1, edge_index=torch.empty(2, 0, dtype=torch.int64))).num_edges == 1
    plain = WithSelfLoops()(Isolated()(Data(num_nodes=2)))
    assert plain.edge_index.tolist() == [[0, 1], [0, 1]]
    assert "edge_weight" not in plain
    plain.edge_weight = torch.ones(2)
    weighted = WithSelfLoops()(
        Data(num_nodes=2, edge_index=torch.tensor([[0], [0]]), edge_weight=torch.tensor([2.0], dtype=torch.float64))
    )
    assert weighted.edge_weight.tolist() == [2.0, 0.0]
    assert weighted.edge_weight.dtype == torch.float64


def test_twice_is_once() -> None:
    once = WithSelfLoops()(Complete()(Data(num_nodes=4)))
    assert torch.equal(WithSelfLoops()(once).edge_index, once.edge_index)
    assert once.num_edges == 16


def test_the_gradient_of_learned_weights_passes() -> None:
    weight = torch.tensor([0.3, 0.6], requires_grad=True)
    data = Data(num_nodes=2, edge_index=torch.tensor([[1, 0], [0, 1]]), edge_weight=weight)
    (WithSelfLoops()(data).edge_weight * torch.tensor([7.0, 1.0, 2.0, 7.0])).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [1.0, 2.0]


def test_repr_and_errors() -> None:
    assert repr(WithSelfLoops()) == "WithSelfLoops()"
    with raises("range", "edge_index"):
        WithSelfLoops()(Data(num_nodes=2, edge_index=torch.tensor([[2], [0]])))
    with raises("shape", "edge_weight"):
        WithSelfLoops()(Data(num_nodes=2, edge_index=torch.tensor([[1], [0]]), edge_weight=torch.ones(2)))
