from __future__ import annotations

import torch
from torch_geometric.data import Data

from graphcollab.transforms import Threshold
from tests.raising import raises


def test_weights_below_go_and_self_loops_stay() -> None:
    data = Data(
        num_nodes=3,
        edge_index=torch.tensor([[0, 1, 2, 0], [0, 0, 0, 1]]),
        edge_weight=torch.tensor([0.0, 0.5, 0.25, 0.1]),
    )
    assert Threshold(0.25)(data).edge_index.tolist() == [[0, 1, 2], [0, 0, 0]]
    assert Threshold(0.3)(data).edge_index.tolist() == [[0, 1], [0, 0]]


def test_nan() -> None:
    with raises("value", "minimum"):
        Threshold(float("nan"))
