from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected

from graphcollab.transforms import RandomRegular
from tests.raising import raises


@pytest.mark.parametrize(
    ("count", "degree"), [(10, 3), (7, 4), (4, 3), (6, 5), (50, 48), (100, 10), (101, 50), (20_000, 10)]
)
def test_regular_and_undirected(count: int, degree: int) -> None:
    edge_index = RandomRegular(degree, seed=4)(Data(num_nodes=count)).edge_index
    assert edge_index[1].bincount(minlength=count).tolist() == [degree] * count
    assert is_undirected(edge_index)


def test_another_seed_gives_another_graph() -> None:
    one, other = (RandomRegular(3, seed=seed)(Data(num_nodes=20)).edge_index for seed in (0, 1))
    assert not torch.equal(one, other)


def test_all_rings_are_equally_likely() -> None:
    """Five nodes with two neighbors each are one of twelve rings."""
    drawn = (RandomRegular(2, seed=seed)(Data(num_nodes=5)).edge_index for seed in range(360))
    seen = Counter(str(edge_index.tolist()) for edge_index in drawn)
    assert len(seen) == 12
    assert sum((many - 30) ** 2 / 30 for many in seen.values()) < 31.3  # χ² of 11 degrees of freedom, p = 0.001


def test_odd_product() -> None:
    with raises("conflict", "degree"):
        RandomRegular(3)(Data(num_nodes=5))


def test_degree_not_below_the_number_of_nodes() -> None:
    with raises("range", "degree"):
        RandomRegular(4)(Data(num_nodes=4))


def test_bad_degree() -> None:
    with raises("value", "degree"):
        RandomRegular(0)
