from __future__ import annotations

import copy

import pytest
import torch
from torch_geometric.data import Data

from graphcollab.comm import Plane
from graphcollab.components import Env, Exchange, NeighborhoodMeans
from graphcollab.engine import Stacks
from graphcollab.engine.stack import ParamSpec
from tests.raising import raises

ENV = Env(None, Plane(), 0)
MEANS = Exchange(route=NeighborhoodMeans())


def graph(rows, edges, weight=None):
    """Models that are rows of numbers, on a graph."""
    x = torch.tensor(rows, dtype=torch.float64)
    module = torch.nn.Linear(x.shape[1], 1, bias=False)
    many = len(x)
    edge_index = torch.tensor(edges)
    data = Data(num_nodes=many, edge_index=edge_index, node_id=torch.arange(many))
    data.x = Stacks.single(ParamSpec.from_module(module), x)
    data.edge_weight = torch.ones(edge_index.shape[1]).double() if weight is None else torch.tensor(weight).double()
    data.trains = data.serves = torch.ones(many, dtype=torch.bool)
    data.isolated = torch.zeros(many, dtype=torch.bool)
    data.bytes_sent = torch.zeros(many, dtype=torch.float64)
    return data


def everybody(nodes):
    """All pairs of some nodes, and self-loops."""
    return [(j, i) for i in nodes for j in nodes]


def blocks(*groups):
    return [list(ends) for ends in zip(*(pair for group in groups for pair in everybody(group)), strict=True)]


def flat(data):
    return data.x.tensors[0].flatten().tolist()


def play(data):
    return MEANS(data, ENV)


def test_everybody_averages_what_was_sent():
    """0, 6 and 12 give 6 everywhere. Replaced one by one they would give 6, (6 + 6 + 12) / 3 = 8, (6 + 8 + 12) / 3."""
    data = play(graph([[0.0], [6.0], [12.0]], blocks([0, 1, 2])))
    assert flat(data) == [6.0, 6.0, 6.0]
    assert flat(Data(x=data.x_local)) == [0.0, 6.0, 12.0]
    assert data.bytes_sent.tolist() == [8.0] * 3  # a float up and one down, whatever the number of neighbors


@pytest.mark.parametrize("sizes", [(2, 3), (7, 1, 9), (33, 30)])
def test_models_of_a_block_are_equal_bit_for_bit(sizes):
    draw = torch.Generator().manual_seed(0)
    groups = torch.randperm(sum(sizes), generator=draw).split(list(sizes))
    rows = torch.randn(sum(sizes), 301, generator=draw, dtype=torch.float64)
    count = torch.randint(1, 99, (sum(sizes),), generator=draw)
    edges = blocks(*(group.tolist() for group in groups))
    data = play(graph(rows.tolist(), edges, count[edges[0]].tolist()))
    new = data.x.tensors[0]
    for group in groups:
        assert torch.equal(new[group], new[group[:1]].expand(len(group), -1))
        torch.testing.assert_close(new[group[0]], (count[group, None] * rows[group]).sum(0) / count[group].sum())


def test_neighborhoods_may_overlap():
    """A path 0 - 1 - 2 with self-loops, weights 1, 3, 2 of the senders: (0 + 3·4) / 4, (0 + 12 + 2·9) / 6, 30 / 5."""
    edges = [[0, 1, 0, 1, 2, 1, 2], [0, 0, 1, 1, 1, 2, 2]]
    data = play(graph([[0.0], [4.0], [9.0]], edges, [1, 3, 1, 3, 2, 3, 2]))
    assert flat(data) == [3.0, 5.0, 6.0]


def test_same_neighbors_with_other_weights_are_told_apart():
    data = play(graph([[0.0], [8.0]], [[0, 1, 0, 1], [0, 0, 1, 1]], [1, 3, 3, 1]))
    assert flat(data) == [6.0, 2.0]


def test_nodes_at_rest_are_left_out_and_hold_the_average():
    """Node 1 rests: 0 and 12 give 6, which it holds too. Nodes 3 and 4 both rest and keep theirs."""
    data = graph([[0.0], [6.0], [12.0], [7.0], [9.0]], blocks([0, 1, 2], [3, 4]))
    data.trains = data.serves = torch.tensor([True, False, True, False, False])
    data = play(data)
    assert flat(data) == [6.0, 6.0, 6.0, 7.0, 9.0]
    assert data.bytes_sent.tolist() == [8.0, 0.0, 8.0, 0.0, 0.0]


def test_late_nodes_are_not_heard():
    data = graph([[0.0], [6.0], [12.0]], blocks([0, 1, 2]))
    data.serves = torch.tensor([True, True, False])
    data = play(data)
    assert flat(data) == [3.0, 3.0, 3.0]
    assert data.bytes_sent.tolist() == [8.0, 8.0, 0.0]


def test_isolated_nodes_keep_their_models():
    data = graph([[0.0], [6.0], [12.0]], blocks([0, 1], [2]))
    data.isolated = torch.tensor([False, False, True])
    data.trains = data.serves = ~data.isolated
    assert flat(play(data)) == [3.0, 3.0, 12.0]


def test_nothing_is_changed_in_place():
    data = graph([[0.0], [6.0]], blocks([0, 1]))
    before = copy.deepcopy(data)
    play(data)
    assert torch.equal(data.x.tensors[0], before.x.tensors[0])
    assert torch.equal(data.bytes_sent, before.bytes_sent)


@pytest.mark.parametrize("resting", [[], [1], [0, 2]])
def test_weight_gradient(resting):
    """Against autograd through the mean, with half the squared length of every node's model as its loss."""
    edges = [[0, 1, 0, 1, 2, 1, 2], [0, 0, 1, 1, 1, 2, 2]]
    data = graph([[0.0, 1.0], [4.0, -2.0], [9.0, 5.0]], edges, [1, 3, 1, 3, 2, 3, 2])
    data.trains = data.serves = torch.tensor([k not in resting for k in range(3)])
    exchange = MEANS
    after = exchange(data, ENV)
    rows = data.x.tensors[0]
    weight = data.edge_weight.clone().requires_grad_()
    matrix = torch.zeros(3, 3).double().index_put((data.edge_index[1], data.edge_index[0]), weight)
    matrix = matrix * data.serves
    mean = (matrix @ rows) / matrix.sum(1, keepdim=True)
    torch.testing.assert_close(mean, after.x.tensors[0])
    (expected,) = torch.autograd.grad(mean.square().sum() / 2, weight)
    torch.testing.assert_close(exchange.weight_gradient(after, ENV, after.x.tensors[0]), expected)


def test_weight_gradient_of_those_that_hear_nobody_is_zero():
    data = graph([[0.0], [6.0]], blocks([0], [1]))
    data.trains = data.serves = torch.tensor([True, False])
    after = play(data)
    assert MEANS.weight_gradient(after, ENV, after.x.tensors[0]).tolist() == [0.0, 0.0]


def test_refusals():
    with raises("value", "buffers", "'keep'", "'average'", "'drop'"):
        Exchange(buffers="drop", route=NeighborhoodMeans())
