from __future__ import annotations

import pytest
import torch

from graphcollab.components import NoExchange, Receive

EDGES = ((0, 1, 2, 2), (0, 0, 0, 1))  # 0 hears itself, 1 and 2; 1 hears 2
X = [[1.0, 0.0], [10.0, 2.0], [100.0, 4.0]]


@pytest.fixture
def graph(make_graph, make_env):
    return make_graph(X, edges=EDGES, edge_weight=torch.tensor([0.5, 0.3, 0.2, 0.0])), make_env()


def test_weighted_sum_of_the_others_and_what_is_left(graph):
    data, env = graph
    data = Receive().init(data, env)
    torch.testing.assert_close(data.received, torch.tensor([[23.0, 1.4], [0.0, 0.0], [0.0, 0.0]]))
    assert data.own_share.tolist() == pytest.approx([0.5, 1.0, 1.0])
    assert data.bytes_sent.tolist() == [0.0, 0.0, 0.0], "the models at the start have come already"
    after = Receive()(data, env)
    assert after.bytes_sent.tolist() == [0.0, 8.0, 8.0], "an edge that weighs nothing carries nothing"
    assert after.x is data.x
    assert Receive().weight_gradient(after, env, after.received).tolist() == [0.0] * 4


def test_senders_that_do_not_serve_leave_their_share_to_the_node(graph):
    data, env = graph
    data = Receive().init(data, env)
    data.serves = data.trains = torch.tensor([True, True, False])
    after = Receive()(data, env)
    torch.testing.assert_close(after.received[0], torch.tensor([3.0, 0.6]))
    assert after.own_share.tolist() == pytest.approx([0.7, 1.0, 1.0])


def test_nodes_at_rest_keep_what_they_received_last(graph):
    data, env = graph
    data = Receive().init(data, env)
    before = data.received
    data.x = data.x.map(lambda rows: rows + 1)
    data.serves = data.trains = torch.tensor([False, True, True])
    after = Receive()(data, env)
    assert torch.equal(after.received[0], before[0])
    assert after.own_share[0] == 0.5
    assert after.bytes_sent.tolist() == [0.0, 0.0, 0.0]


def test_keep_own_changes_nothing(graph):
    data, env = graph
    part = NoExchange(shown="all")
    assert part(part.init(data, env), env) is data
    assert part.weight_gradient(data, env, None).tolist() == [0.0] * 4
    assert part.along_edges
