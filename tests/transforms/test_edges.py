from __future__ import annotations

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from graphcollab.transforms._edges import (
    check_edges,
    edge_fields,
    neighbor_rank,
    node_count,
    node_ids,
    select_edges,
    sort_edges,
)
from tests.raising import raises


def edges(*pairs: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(pairs, dtype=torch.int64).view(-1, 2).t()


@pytest.mark.parametrize(
    ("pairs", "wanted"),
    [
        ([(0, 1), (3, 1)], ("range", "edge_index")),
        ([(0, 1), (1, 2), (2, -1)], ("range", "edge_index")),
    ],
)
def test_an_edge_out_of_range_is_named(pairs: list[tuple[int, int]], wanted: tuple[str, ...]) -> None:
    with raises(*wanted):
        check_edges(Data(num_nodes=3, edge_index=edges(*pairs)))


@pytest.mark.parametrize(
    ("edge_index", "wanted"),
    [
        (torch.zeros(3, 2, dtype=torch.int64), ("shape", "edge_index")),
        (torch.zeros(2, 2), ("shape", "edge_index")),
    ],
)
def test_edge_index_of_wrong_shape_or_type(edge_index: torch.Tensor, wanted: tuple[str, ...]) -> None:
    with raises(*wanted):
        check_edges(Data(num_nodes=3, edge_index=edge_index))


def test_good_edges_pass() -> None:
    check_edges(Data(num_nodes=3, edge_index=edges((0, 2), (2, 2))))
    check_edges(Data(num_nodes=0, edge_index=edges()))
    check_edges(Data(num_nodes=3, edge_index=edges((0, 2), (2, 0))), distinct=True)


def test_missing_edge_index_and_missing_node_count() -> None:
    with raises("missing", "edge_index"):
        check_edges(Data(num_nodes=3))
    with raises("missing", "num_nodes"):
        check_edges(Data(edge_index=edges((0, 1))))


def test_duplicates_are_named() -> None:
    with raises("duplicate", "edge_index", "2 -> 1", "3 times"):
        check_edges(Data(num_nodes=3, edge_index=edges((2, 1), (0, 1), (2, 1), (2, 1))), distinct=True)


def test_number_of_nodes_comes_from_any_node_field() -> None:
    assert node_count(Data(num_nodes=4)) == 4
    assert node_count(Data(x=torch.zeros(5, 2))) == 5
    assert node_count(Data(node_id=torch.tensor([7, 3]))) == 2


@pytest.mark.parametrize(
    ("node_id", "wanted"),
    [
        (torch.tensor([4, 4, 1]), ("duplicate", "node_id")),
        (torch.tensor([4, 1]), ("shape", "node_id")),
        (torch.tensor([1.0, 2.0, 3.0]), ("shape", "node_id")),
    ],
)
def test_node_id_must_be_distinct_integers(node_id: torch.Tensor, wanted: tuple[str, ...]) -> None:
    with raises(*wanted):
        node_ids(Data(num_nodes=3, node_id=node_id))


def test_select_keeps_all_edge_fields_aligned_and_the_input_untouched() -> None:
    data = Data(
        num_nodes=3,
        x=torch.arange(3.0),
        edge_index=edges((0, 1), (1, 2), (2, 0)),
        edge_weight=torch.tensor([0.1, 0.2, 0.3]),
        edge_state=torch.arange(6).view(3, 2),
        edge_label_index=torch.arange(6).view(2, 3),
    )
    out = select_edges(data, torch.tensor([True, False, True]))
    assert out.edge_index.tolist() == [[0, 2], [1, 0]]
    assert out.edge_weight.tolist() == pytest.approx([0.1, 0.3])
    assert out.edge_state.tolist() == [[0, 1], [4, 5]]
    assert out.edge_label_index.tolist() == [[0, 2], [3, 5]]
    assert out.x is data.x
    assert data.num_edges == 3
    assert data.edge_state.shape == (3, 2)


def test_edge_fields_of_another_length_are_an_error_also_when_k_equals_e() -> None:
    data = Data(num_nodes=3, edge_index=edges((0, 1), (1, 2)), edge_weight=torch.zeros(3))
    with raises("shape", "edge_weight"):
        edge_fields(data)
    same = Data(num_nodes=2, x=torch.zeros(2, 1), edge_index=edges((0, 1), (1, 0)), edge_weight=torch.zeros(2))
    assert set(edge_fields(same)) == {"edge_index", "edge_weight"}


def test_sorted_by_receiver_then_sender() -> None:
    data = sort_edges(
        Data(num_nodes=3, edge_index=edges((2, 1), (0, 2), (0, 1), (1, 0)), edge_weight=torch.arange(4.0))
    )
    assert data.edge_index.tolist() == [[1, 0, 2, 0], [0, 1, 1, 2]]
    assert data.edge_weight.tolist() == [3, 2, 0, 1]


def test_an_edge_index_object_loses_the_metadata_of_its_old_order() -> None:
    data = Data(num_nodes=3, edge_index=EdgeIndex([[0, 1], [1, 0]], sort_order="row"))
    assert type(sort_edges(data).edge_index) is torch.Tensor


def test_rank_breaks_ties_by_node_id_and_skips_self_loops() -> None:
    data = Data(
        num_nodes=4,
        node_id=torch.tensor([0, 30, 20, 10]),
        edge_index=edges((1, 0), (0, 0), (2, 0), (3, 0), (0, 2)),
        edge_weight=torch.tensor([0.5, 9.0, 0.5, 0.5, 0.1]),
    )
    rank, degree = neighbor_rank(data)
    assert rank.tolist() == [2, -1, 1, 0, 0]
    assert degree.tolist() == [3, 3, 3, 3, 1]
