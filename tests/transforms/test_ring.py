from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from graphcollab.transforms import Ring


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
    with pytest.raises(ValueError, match=f"neighbors must be a whole number of at least 1, got {neighbors}"):
        Ring(neighbors)  # type: ignore[arg-type]
