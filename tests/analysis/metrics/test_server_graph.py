from __future__ import annotations

import torch

from graphcollab import Phases
from graphcollab.analysis.metrics.recovery import adjusted_rand_index
from graphcollab.analysis.metrics.traffic import server_graph
from graphcollab.components import Participation
from graphcollab.methods import cobo, fedavg, local
from graphcollab.report import weight_heatmaps
from graphcollab.testing import Scene
from tests.raising import raises


def test_blocks_of_true_clusters():
    scene = Scene.small()
    data, _ = scene.begin(fedavg(within="cluster"))
    edge_index, weight = server_graph(data)
    matrix = torch.zeros(6, 6, dtype=torch.float64).index_put((edge_index[1], edge_index[0]), weight)
    block = torch.ones(3, 3, dtype=torch.float64) - torch.eye(3, dtype=torch.float64)
    assert torch.equal(matrix, torch.block_diag(block, block))
    assert adjusted_rand_index(edge_index, weight, scene.tasks.cluster) == 1.0
    assert len(weight_heatmaps({1: (edge_index, weight)}, 6).axes) == 2


def test_isolated_nodes_share_nothing():
    data, _ = Scene.small().begin(fedavg())
    data.isolated = torch.tensor([False, True, True, True, True, False])
    assert server_graph(data)[0].tolist() == [[5, 0], [0, 5]]


def test_nodes_that_have_not_joined_share_nothing():
    scene = Scene.small().replace(participation=Participation(joins={0: 2}, leaves={1: 1}))
    data, env = scene.begin(fedavg())
    seen = []
    for _ in range(3):
        seen.append(sorted(set(server_graph(data)[0].flatten().tolist())))
        data = fedavg().play(data, env)
    assert seen == [[1, 2, 3, 4, 5], [2, 3, 4, 5], [0, 2, 3, 4, 5]]


def test_servers_end_with_their_phase():
    method = Phases(fedavg(), 1, Phases(cobo(), 2, fedavg(within="cluster")))
    data, env = Scene.small().play(method, 1)
    assert len(server_graph(data)[1]) == 30
    data = method.play(data, env)
    with raises("empty", "servers"):
        server_graph(data)
    assert len(server_graph(method.play(data, env))[1]) == 12


def test_methods_without_servers():
    with raises("empty", "servers"):
        server_graph(Scene.small().begin(local())[0])
