from __future__ import annotations

import pytest
from torch_geometric.data import Data

from graphcollab.transforms import GroupRing


@pytest.mark.parametrize("count", [2, 5, 8, 11])
@pytest.mark.parametrize("degree", [2, 3, 4, 10, 30])
def test_the_papers_inequality(count: int, degree: int) -> None:
    edges = {tuple(pair) for pair in GroupRing(degree)(Data(num_nodes=count)).edge_index.t().tolist()}
    assert edges == {
        (j, i)
        for i in range(count)
        for j in range(count)
        if i != j and (abs(i - j) <= degree / 2 or count - abs(i - j) <= degree / 2)
    }


def test_the_papers_setting_gives_ten_neighbours() -> None:
    assert GroupRing(degree=10)(Data(num_nodes=100)).edge_index[1].bincount().unique().tolist() == [10]


def test_too_small_a_degree() -> None:
    with pytest.raises(ValueError, match="degree must be a whole number of at least 2, got 1"):
        GroupRing(1)
