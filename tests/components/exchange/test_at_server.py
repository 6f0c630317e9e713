from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab.components import AlongEdges, AtServer, Exchange
from graphcollab.engine import Stacks
from graphcollab.engine.stack import ParamSpec

EDGES = [[0, 1, 1, 2, 2], [0, 0, 1, 1, 2]]
WEIGHT = torch.tensor([0.25, 0.75, 1.0, 0.0, 1.0])


@pytest.fixture
def graph(make_graph):
    """Node 0 hears itself and 1; 1 gives 2 nothing; 2 hears itself."""
    return make_graph([[0.0]] * 3, [[4.0], [8.0], [16.0]], EDGES, edge_weight=WEIGHT)


def mixed(data, env, exchange=Exchange(route=AtServer())):  # noqa: B008
    return exchange(exchange.init(data, env), env)


def test_mixes_like_an_exchange_and_charges_nodes_not_edges(graph, make_env):
    env = make_env([1, 1, 1])
    after = mixed(graph, env)
    assert after.x.part("all").flatten().tolist() == [7.0, 8.0, 16.0]
    assert after.x.tensors[0].tolist() == Exchange()(graph, env).x.tensors[0].tolist()
    assert after.bytes_sent.tolist() == [8.0, 8.0, 8.0]  # one float up, one down
    assert Exchange()(graph, env).bytes_sent.tolist() == [0.0, 4.0, 0.0]
    assert after.x_local.tensors[0].tolist() == graph.x.tensors[0].tolist()


def test_nodes_at_rest_send_and_get_nothing(graph, make_env):
    graph.trains, graph.serves = torch.tensor([True, True, False]), torch.tensor([True, False, False])
    after = mixed(graph, make_env([1, 1, 1]))  # 1 is late: 0 keeps its own model
    assert after.x.part("all").flatten().tolist() == [4.0, 8.0, 16.0]
    assert after.bytes_sent.tolist() == [8.0, 0.0, 0.0]


def test_buffers_that_are_mixed_are_counted(graph, make_env):
    class WithBuffer(nn.Module):
        def __init__(self):
            super().__init__()
            self.theta = nn.Parameter(torch.zeros(1))
            self.register_buffer("running", torch.zeros(2))

    rows = torch.tensor([[4.0, 0.0, 4.0], [8.0, 4.0, 8.0], [16.0, 0.0, 0.0]])
    graph.x = Stacks.single(ParamSpec.from_module(WithBuffer()), rows)
    after = mixed(graph, make_env([1, 1, 1]), Exchange(buffers="average", route=AtServer()))
    assert after.x.tensors[0].tolist() == [[7.0, 3.0, 7.0], [8.0, 4.0, 8.0], [16.0, 0.0, 0.0]]
    assert after.bytes_sent.tolist() == [24.0] * 3
    kept = mixed(graph, make_env([1, 1, 1]))
    assert kept.x.tensors[0][:, 1:].tolist() == rows[:, 1:].tolist()
    assert kept.bytes_sent.tolist() == [8.0] * 3


def test_any_formula_can_be_computed_at_a_server(graph, make_env):
    """Only the account changes."""
    env = make_env([1, 1, 1])
    for settings in ({"base": "x_start", "message": "update"}, {"base": "x", "against": "x", "scale": 0.5}):
        served, edges = (Exchange(**settings, route=route) for route in (AtServer(), AlongEdges()))
        assert mixed(graph, env, served).x.tensors[0].tolist() == edges(graph, env).x.tensors[0].tolist()
        assert mixed(graph, env, served).bytes_sent.tolist() == [8.0, 8.0, 8.0]
