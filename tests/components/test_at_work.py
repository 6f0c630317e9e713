"""Messages of a round; which edges are in use is tested with the exchanges."""

from __future__ import annotations

import pytest
import torch

from graphcollab.comm import Plane, Relation
from graphcollab.components import Env, NoExchange, ThroughServer
from graphcollab.components.at_work import count_messages

ENV = Env(None, Plane(), 0)

EDGES = ((0, 1, 2, 2, 1, 0), (0, 0, 0, 1, 2, 2))  # 0 hears itself, 1 and 2; 1 hears 2; 2 hears 1 and 0


@pytest.fixture
def data(make_graph):
    sent = torch.tensor([10, 0, 0])
    return make_graph(
        [[0.0]] * 3, edges=EDGES, edge_weight=torch.tensor([0.5, 0.5, 0, -1, 1, 0.25]), messages_sent=sent
    )


def test_edges_between_different_nodes_whose_weight_is_not_zero(data):
    after = count_messages(data, ENV)
    assert after.messages_sent.tolist() == [11, 2, 1]  # 0 -> 2; 1 -> 0 and 1 -> 2; 2 -> 1, but not 2 -> 0
    assert data.messages_sent.tolist() == [10, 0, 0]
    assert count_messages(after, ENV).messages_sent.tolist() == [12, 4, 2]


@pytest.mark.parametrize(
    ("trains", "serves", "expected"),
    [
        ([True, True, False], [True, True, True], [10, 1, 1]),  # nobody sends to 2
        ([True, True, True], [True, False, True], [11, 0, 1]),  # 1 sends nothing
        ([False] * 3, [False] * 3, [10, 0, 0]),
    ],
)
def test_nodes_at_rest(data, trains, serves, expected):
    data.trains, data.serves = torch.tensor(trains), torch.tensor(serves)
    assert count_messages(data, ENV).messages_sent.tolist() == expected


def test_a_server_is_sent_one_and_sends_one(data):
    assert count_messages(data, ENV, NoExchange().at_server(data)).messages_sent.tolist() == [10, 0, 0]  # there is none
    data.server = Relation(torch.tensor([[0, 1, 2], [0, 0, 0]]), torch.ones(3), (3, 1))
    data.trains = torch.tensor([True, False, True])
    assert count_messages(data, ENV, ThroughServer().at_server(data)).messages_sent.tolist() == [12, 0, 2]
    data.server = Relation(torch.tensor([[0, 1], [0, 0]]), torch.ones(2), (3, 1))  # node 2 has none
    assert count_messages(data, ENV, ThroughServer().at_server(data)).messages_sent.tolist() == [12, 0, 0]
