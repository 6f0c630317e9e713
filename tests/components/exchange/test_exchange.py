from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab.comm import Relation
from graphcollab.components import AlongEdges, Exchange, NoExchange, ThroughServer
from graphcollab.engine import Stacks
from graphcollab.engine.stack import ParamSpec
from tests.raising import raises

# L2C's hand case: node 0 hears itself and nodes 1 and 2; Δ = ((1,0), (0,1), (-1,0)), weights (1/4, 1/2, 1/4).
START = [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
LOCAL = [[-1.0, 0.0], [0.0, -1.0], [1.0, 0.0]]
EDGES = [[0, 1, 2], [0, 0, 0]]
WEIGHT = torch.tensor([0.25, 0.5, 0.25])

SERVED = Exchange(route=ThroughServer())


@pytest.fixture
def hand_case(make_graph):
    return make_graph(START, LOCAL, EDGES, edge_weight=WEIGHT)


@pytest.mark.parametrize(
    ("exchange", "expected"),
    [
        (Exchange("x", "update", route=AlongEdges(neighbors_only=True)), [-0.75, -0.5]),  # first line of eq. 2
        (Exchange("x_start", "update"), [0.0, -0.5]),  # second line
        (Exchange("x_start", "update", route=AlongEdges(neighbors_only=True)), [0.25, -0.5]),  # line 16 of algorithm 1
    ],
)
def test_three_forms_of_equation_2(hand_case, make_env, exchange, expected):
    assert exchange(hand_case, make_env()).x.part("all")[0].tolist() == expected


def test_gradient_with_respect_to_weights_is_closed_form_autograd_and_finite_difference(hand_case, make_env):
    exchange, env = Exchange("x_start", "update"), make_env()
    after = exchange(hand_case, env)
    target = torch.tensor([0.0, -2.0])

    def loss(weight):
        data = exchange(hand_case.clone().update({"edge_weight": weight}), env)
        return 0.5 * (data.x.part("all")[0] - target).square().sum()

    gradient = torch.zeros(3, 2)
    gradient[0] = after.x.part("all")[0] - target
    assert gradient[0].tolist() == [0.0, 1.5]
    closed = exchange.weight_gradient(after, env, gradient)
    assert closed.tolist() == [0.0, -1.5, 0.0]
    weight = WEIGHT.clone().requires_grad_()
    (auto,) = torch.autograd.grad(loss(weight), weight)
    torch.testing.assert_close(closed, auto)
    step = 1e-3
    finite = [(loss(WEIGHT + step * e) - loss(WEIGHT - step * e)) / (2 * step) for e in torch.eye(3)]
    torch.testing.assert_close(closed, torch.stack(finite), rtol=1e-3, atol=1e-3)


def test_self_loops_that_are_left_out_have_no_gradient(hand_case, make_env):
    exchange, env = Exchange("x_start", "update", route=AlongEdges(neighbors_only=True)), make_env()
    gradient = exchange.weight_gradient(exchange(hand_case, env), env, torch.ones(3, 2))
    assert gradient.tolist() == [0.0, -1.0, 1.0]


def test_dpsgd_form(make_graph, make_env):
    data = make_graph([[0.0], [2.0]], [[-0.1], [2.0]], [[0, 1, 0, 1], [0, 0, 1, 1]], edge_weight=torch.full((4,), 0.5))
    assert Exchange("update", "x_start")(data, make_env()).x.part("all").flatten().tolist() == pytest.approx([0.9, 1.0])


def test_input_is_left_alone_and_models_before_are_kept(hand_case, make_env):
    after = Exchange("zero", "x")(hand_case, make_env())
    assert hand_case.x.part("all").tolist() == LOCAL
    assert after.x_local.part("all").tolist() == LOCAL
    assert after.x.part("all").tolist() == [[0.0, -0.5], [0.0, 0.0], [0.0, 0.0]]


def test_bytes_are_charged_to_senders_along_edges_in_use(make_graph, make_env):
    data = make_graph([[1.0] * 5] * 3, None, [[0, 1, 2, 1], [0, 0, 0, 2]], edge_weight=torch.tensor([0.5, 0.5, 0, 1]))
    assert Exchange()(data, make_env()).bytes_sent.tolist() == [0.0, 40.0, 0.0]


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("base", "y", "'zero', 'x', 'x_start', 'update'"),
        ("message", "zero", "'x', 'x_start', 'update'"),
        ("buffers", "both", "'keep', 'average'"),
    ],
)
def test_exchange_refuses(name, value, allowed):
    with raises("value", name, value, allowed):
        Exchange(**{name: value})


PAIRS = [[0, 1, 2, 0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1, 2, 2, 2]]


@pytest.mark.parametrize(
    ("loops", "expected"),
    [
        (True, [0.25 * 4 + 0.75 * 1, 0.5 * 1 + 0.5 * 4, 9.0]),  # 2's weight goes to the node itself
        (False, [0.5 * 4, 0.75 * 1, 9.0]),  # 2's weight goes to the other sender
    ],
)
def test_nodes_at_rest_neither_send_nor_listen(make_graph, make_env, loops, expected):
    edges, weight = torch.tensor(PAIRS), torch.tensor([0.5, 0.25, 0.25, 0.5, 0.25, 0.25, 0.2, 0.3, 0.5])
    wanted = (edges[0] != edges[1]) | loops
    data = make_graph([[1.0], [4.0], [9.0]], None, edges[:, wanted], edge_weight=weight[wanted])
    data.trains = data.serves = torch.tensor([True, True, False])
    after = Exchange()(data, make_env())
    assert after.x.part("all").flatten().tolist() == pytest.approx(expected)
    assert after.bytes_sent.tolist() == [4.0, 4.0, 0.0]


def test_a_node_that_trains_but_does_not_serve_listens(make_graph, make_env):
    data = make_graph([[1.0], [3.0]], None, [[0, 1, 0, 1], [0, 0, 1, 1]], edge_weight=torch.full((4,), 0.5))
    data.serves = torch.tensor([True, False])
    after = Exchange()(data, make_env())
    assert after.x.part("all").flatten().tolist() == [1.0, 2.0]
    assert after.bytes_sent.tolist() == [4.0, 0.0]


def test_a_node_whose_senders_all_rest_keeps_its_model(make_graph, make_env):
    data = make_graph([[1.0], [3.0]], None, [[1], [0]], edge_weight=torch.ones(1))
    data.trains = data.serves = torch.tensor([True, False])
    assert Exchange()(data, make_env()).x.part("all").flatten().tolist() == [1.0, 3.0]


@pytest.mark.parametrize("neighbors_only", [False, True])
@pytest.mark.parametrize("loops", [False, True])
def test_gradient_with_nodes_at_rest(make_graph, make_env, loops, neighbors_only):
    draw = torch.Generator().manual_seed(0)
    edges, env = torch.cartesian_prod(torch.arange(5), torch.arange(5)).T, make_env()
    edges = edges[:, (edges[0] != edges[1]) | loops]
    start, now, target = (torch.randn(5, 2, generator=draw, dtype=torch.float64) for _ in range(3))
    weight = torch.rand(edges.shape[1], generator=draw, dtype=torch.float64)
    data = make_graph(start, now, edges, edge_weight=weight)
    data.trains = torch.tensor([True, True, False, True, False])
    data.serves = torch.tensor([True, False, False, True, False])
    exchange = Exchange("x_start", "update", route=AlongEdges(neighbors_only))

    def loss(weight):
        moved = data.clone().update({"edge_weight": weight})
        return 0.5 * (exchange(moved, env).x.part("all") - target).square().sum()

    free = weight.clone().requires_grad_()
    (auto,) = torch.autograd.grad(loss(free), free)
    after = exchange(data, env)
    closed = exchange.weight_gradient(after, env, after.x.part("all") - target)
    torch.testing.assert_close(closed, auto)
    assert float(closed.abs().max()) > 0.01


def test_no_exchange(hand_case, make_env):
    exchange, env = NoExchange(), make_env()
    assert exchange.init(hand_case, env) is exchange(hand_case, env) is hand_case
    assert exchange.weight_gradient(hand_case, env, torch.ones(3, 2)).tolist() == [0.0, 0.0, 0.0]


def test_server_average_is_the_mean_by_sample_counts(make_graph, make_env):
    env = make_env([1, 3])
    data = SERVED.init(make_graph([[0.0, 1.0], [4.0, 5.0]]), env)
    after = SERVED(data, env)
    assert after.x.part("all").tolist() == [[3.0, 4.0], [3.0, 4.0]]
    assert after.bytes_sent.tolist() == [16.0, 16.0]  # two floats up and two down
    assert data.x.part("all").tolist() == [[0.0, 1.0], [4.0, 5.0]]


@pytest.mark.parametrize("mask", ["trains", "serves"])
def test_server_hears_only_nodes_at_work_and_tells_all(make_graph, make_env, mask):
    env = make_env([1, 1, 2])
    data = SERVED.init(make_graph([[0.0], [3.0], [6.0]]), env)
    data[mask] = torch.tensor([False, True, True])
    after = SERVED(data, env)
    assert after.x.part("all").tolist() == [[5.0]] * 3
    assert after.bytes_sent.tolist() == [0.0, 8.0, 8.0]


def test_server_that_hears_nobody_changes_nothing(make_graph, make_env):
    env = make_env([1, 1])
    data = SERVED.init(make_graph([[0.0], [3.0]]), env)
    data.trains = torch.zeros(2, dtype=torch.bool)
    after = SERVED(data, env)
    assert after.x.part("all").tolist() == [[0.0], [3.0]]
    assert after.bytes_sent.tolist() == [0.0, 0.0]


def test_isolated_nodes_keep_their_model(make_graph, make_env):
    env = make_env([1, 1, 1])
    data = SERVED.init(make_graph([[0.0], [2.0], [9.0]]), env)
    data.isolated = torch.tensor([False, False, True])
    data.trains = data.serves = ~data.isolated
    assert SERVED(data, env).x.part("all").tolist() == [[1.0], [1.0], [9.0]]


def test_several_servers_average_their_own_nodes(make_graph, make_env):
    env = make_env([1, 1, 1])
    data = make_graph([[0.0], [2.0], [9.0]])
    data.server = Relation(torch.tensor([[0, 1, 2], [0, 0, 1]]), torch.ones(3), (3, 2))
    assert SERVED(data, env).x.part("all").tolist() == [[1.0], [1.0], [9.0]]


def test_server_average_refuses():
    with raises("value", "buffers"):
        Exchange(buffers="drop", route=ThroughServer())


@pytest.mark.parametrize("buffers", ["keep", "average"])
@pytest.mark.parametrize("route", [AlongEdges(), ThroughServer()])
def test_running_statistics_are_kept_or_averaged(make_graph, make_env, route, buffers):
    data, env = make_graph([[0.0]] * 2, edges=[[0, 1, 0, 1], [0, 0, 1, 1]]), make_env([1, 1])
    spec = ParamSpec.from_module(nn.BatchNorm1d(1))  # weight and bias, then mean, variance and count
    rows = torch.tensor([[0.0, 0.0, 2.0, 4.0, 6.0], [2.0, 4.0, 0.0, 0.0, 2.0]])
    data.x = data.x_start = data.x_init = Stacks.single(spec, rows)
    data.edge_weight = torch.full((4,), 0.5)
    stage = Exchange(buffers=buffers, route=route)
    after = stage(stage.init(data, env), env).x
    assert after.part("all").tolist() == [[1.0, 2.0]] * 2
    expected = [[1.0, 2.0, 4.0]] * 2 if buffers == "average" else rows[:, 2:].tolist()
    assert after.part("buffers").tolist() == expected


def test_the_pull_of_the_laplacian_by_hand(make_graph, make_env):
    # η = 0.1, ρ = 0.5, w = 1 at (0, 0) and (2, 0), targets (-1, 0) and (1, 0): the gradients are (1, 0), (1, 0).
    local = [[-0.1, 0.0], [1.9, 0.0]]
    data = make_graph([[0.0, 0.0], [2.0, 0.0]], local, [[1, 0], [0, 1]], edge_weight=torch.ones(2))
    pull = Exchange("x", "x_start", against="x_start", scale=0.05)
    after = pull(data, make_env())
    torch.testing.assert_close(after.x.part("all"), torch.tensor([[0.0, 0.0], [1.8, 0.0]]))
    assert after.bytes_sent.tolist() == [8.0, 8.0]
    data.serves = torch.tensor([False, True])  # node 0 is late: nobody is pulled towards it
    after = pull(data, make_env())
    torch.testing.assert_close(after.x.part("all"), torch.tensor([[0.0, 0.0], [1.9, 0.0]]))
    data.serves, data.trains = torch.ones(2, dtype=torch.bool), torch.tensor([False, True])
    torch.testing.assert_close(pull(data, make_env()).x.part("all"), torch.tensor([[-0.1, 0.0], [1.8, 0.0]]))


def test_weights_against_the_own_model_need_not_sum_to_one(make_graph, make_env):
    start, local = [[0.0], [0.0], [0.0]], [[1.0], [3.0], [5.0]]
    toward = Exchange("x_start", "x", against="x_start")
    data = make_graph(start, local, [[0, 1, 2], [0, 0, 0]], edge_weight=torch.tensor([0.5, 0.25, 0.25]))
    assert toward(data, make_env()).x.part("all").tolist() == [[2.5], [0.0], [0.0]]  # who hears nobody goes back
    data.edge_weight = torch.zeros(3)
    assert toward(data, make_env()).x.part("all").tolist() == [[0.0], [0.0], [0.0]]


@pytest.mark.parametrize("rests", [False, True])
def test_the_gradient_against_the_own_model_is_autograds(make_graph, make_env, rests):
    edges = [[1, 2, 0], [0, 0, 1]]
    data = make_graph([[1.0], [2.0], [4.0]], [[3.0], [5.0], [7.0]], edges, edge_weight=torch.tensor([0.2, 0.3, 0.4]))
    data.serves = torch.tensor([True, True, not rests])
    exchange, env = Exchange("x", "x_start", against="update", scale=2.0), make_env()
    cotangent = torch.tensor([[1.0], [-2.0], [3.0]])
    weight = data.edge_weight.clone().requires_grad_()
    mixed = exchange(data.clone().update({"edge_weight": weight}), env).x.part("all")
    (auto,) = torch.autograd.grad((mixed * cotangent).sum(), weight)
    torch.testing.assert_close(exchange.weight_gradient(exchange(data, env), env, cotangent), auto)


@pytest.mark.parametrize(("field", "value"), [("against", "zero"), ("scale", 0.0), ("scale", float("inf"))])
def test_the_second_form_refuses(field, value):
    with raises("value", field, value):
        Exchange(**{field: value})
