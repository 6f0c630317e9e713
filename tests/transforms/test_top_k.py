from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from graphcollab.transforms import TopK
from tests.raising import raises


def test_the_largest_and_the_self_loop_stay() -> None:
    data = Data(
        num_nodes=4,
        edge_index=torch.tensor([[0, 1, 2, 3, 0], [0, 0, 0, 0, 1]]),
        edge_weight=torch.tensor([0.0, 0.2, 0.3, 0.5, 0.1]),
    )
    out = TopK(2)(data)
    assert out.edge_index.tolist() == [[0, 2, 3, 0], [0, 0, 0, 1]]
    assert out.edge_weight.tolist() == pytest.approx([0.0, 0.3, 0.5, 0.1])


def test_bad_k() -> None:
    with raises("value", "k"):
        TopK(-1)
