from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from graphcollab.transforms import Complete, DropWeakest, WithSelfLoops
from tests.raising import raises


def test_four_nodes() -> None:
    data = Data(
        num_nodes=4,
        edge_index=torch.tensor([[0, 1, 2, 3, 0, 1, 3], [0, 0, 0, 0, 1, 2, 2]]),
        edge_weight=torch.tensor([0.0, 0.5, 0.2, 0.3, 0.1, 0.4, 0.6]),
    )
    out = DropWeakest(count=1)(data)
    assert out.edge_index.tolist() == [[0, 1, 3, 3], [0, 0, 0, 2]]
    assert out.edge_weight.tolist() == pytest.approx([0.0, 0.5, 0.3, 0.6])


def test_the_papers_setting_leaves_ten_neighbors_and_self() -> None:
    data = WithSelfLoops()(Complete()(Data(num_nodes=100)))
    data.edge_weight = torch.rand(data.num_edges, generator=torch.Generator().manual_seed(0))
    assert DropWeakest(fraction=0.9)(data).edge_index[1].bincount().unique().tolist() == [11]
    assert DropWeakest(count=90)(data).edge_index[1].bincount().unique().tolist() == [10]


def test_a_fraction_is_rounded_down_without_rounding_errors() -> None:
    data = Data(num_nodes=101, edge_index=torch.stack([torch.arange(1, 101), torch.zeros(100, dtype=torch.int64)]))
    data.edge_weight = torch.arange(100.0)
    assert 0.29 * 100 < 29
    assert DropWeakest(fraction=0.29)(data).num_edges == 71
    assert DropWeakest(fraction=0.299)(data).num_edges == 71
    assert DropWeakest(fraction=1.0)(data).num_edges == 0
    assert DropWeakest(fraction=0)(data).num_edges == 100


def test_ties_drop_the_larger_node_id() -> None:
    data = Data(
        num_nodes=3,
        node_id=torch.tensor([0, 9, 4]),
        edge_index=torch.tensor([[1, 2], [0, 0]]),
        edge_weight=torch.tensor([0.5, 0.5]),
    )
    assert DropWeakest(count=1)(data).edge_index.tolist() == [[2], [0]]


@pytest.mark.parametrize(
    ("settings", "error", "wanted"),
    [
        ({}, ValueError, ("conflict", "count")),
        ({"count": 1, "fraction": 0.5}, ValueError, ("conflict", "count", "0.5")),
        ({"count": -1}, ValueError, ("value", "count")),
        ({"count": 1.0}, ValueError, ("value", "count", "1.0")),
        ({"fraction": 1.5}, ValueError, ("value", "fraction")),
        ({"fraction": float("nan")}, ValueError, ("value", "fraction")),
    ],
)
def test_bad_settings(settings: dict[str, float], error: type[Exception], wanted: tuple[str, ...]) -> None:
    with raises(*wanted, kind=error):
        DropWeakest(**settings)  # type: ignore[arg-type]


def test_repr() -> None:
    assert repr(DropWeakest(count=3)) == "DropWeakest(count=3)"
