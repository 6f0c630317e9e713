from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from graphcollab.transforms import Ring
from tests.raising import raises


def test_five_nodes() -> None:
    assert Ring()(Data(num_nodes=5)).edge_index.tolist() == [
        [1, 4, 0, 2, 1, 3, 2, 4, 0, 3],
        [0, 0, 1, 1, 2, 2, 3, 3, 4, 4],
    ]


@pytest.mark.parametrize(("count", "neighbors", "degree"), [(2, 1, 1), (3, 1, 2), (4, 2, 3), (5, 2, 4), (4, 9, 3)])
def test_the_two_ways_round_meet(count: int, neighbors: int, degree: int) -> None:
    edge_index = Ring(neighbors)(Data(num_nodes=count)).edge_index
    assert edge_index[1].bincount().tolist() == [degree] * count


def test_places_follow_node_id() -> None:
    data = Ring()(Data(num_nodes=4, node_id=torch.tensor([10, 30, 20, 40])))
    # around the ring: 10, 20, 30, 40, which stand at 0, 2, 1, 3
    assert data.edge_index[0][data.edge_index[1] == 0].tolist() == [2, 3]
    assert data.edge_index[0][data.edge_index[1] == 1].tolist() == [2, 3]


@pytest.mark.parametrize("neighbors", [0, 1.5, True])
def test_bad_neighbors(neighbors: object) -> None:
    with raises("value", "neighbors", f"got {neighbors}"):
        Ring(neighbors)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [2, 5, 8, 11])
@pytest.mark.parametrize("degree", [2, 3, 4, 10, 30])
def test_half_a_degree_is_the_group_ring_of_the_paper(count: int, degree: int) -> None:
    edges = {tuple(pair) for pair in Ring(degree // 2)(Data(num_nodes=count)).edge_index.t().tolist()}
    assert edges == {
        (j, i)
        for i in range(count)
        for j in range(count)
        if i != j and (abs(i - j) <= degree / 2 or count - abs(i - j) <= degree / 2)
    }


def test_the_papers_setting_gives_ten_neighbors() -> None:
    assert Ring(5)(Data(num_nodes=100)).edge_index[1].bincount().unique().tolist() == [10]
