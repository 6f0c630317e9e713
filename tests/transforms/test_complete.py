from __future__ import annotations

import pytest
from torch_geometric.data import Data

from graphcollab.transforms import Complete, Isolated


@pytest.mark.parametrize("count", [1, 2, 7])
def test_all_ordered_pairs(count: int) -> None:
    edges = Complete()(Data(num_nodes=count)).edge_index.t().tolist()
    assert edges == [[j, i] for i in range(count) for j in range(count) if i != j]


def test_isolated_undoes_it() -> None:
    assert Isolated()(Complete()(Data(num_nodes=5))).edge_index.shape == (2, 0)
