from __future__ import annotations

import torch
from torch_geometric.data import Data

from graphcollab.transforms import DropZero


def test_only_edges_that_weigh_nothing_go():
    edges = torch.tensor([[0, 1, 2, 0], [0, 0, 0, 1]])
    weight = torch.tensor([0.0, 0.0, 1e-30, -0.5])
    data = Data(num_nodes=3, edge_index=edges, edge_weight=weight, edge_trial=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    out = DropZero()(data)
    assert out.edge_index.tolist() == [[0, 2, 0], [0, 0, 1]], "the self-loop stays"
    assert out.edge_trial.tolist() == [1.0, 3.0, 4.0]
    assert data.num_edges == 4
