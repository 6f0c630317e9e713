from __future__ import annotations

import pytest
import torch

from graphcollab.components import ApplyTransform, Rewiring, SampleNodes, sample_nodes
from graphcollab.transforms import Isolated
from tests.raising import raises


def test_the_base_changes_nothing(make_graph, make_env):
    data = make_graph([[0.0]])
    assert Rewiring().init(data, make_env()) is Rewiring()(data, make_env()) is data


def test_at_round_acts_once(make_graph, make_env):
    data, stage = make_graph([[0.0]] * 2, edges=[[0], [1]]), ApplyTransform(Isolated(), 3)
    for round_ in range(6):
        data.round = round_
        assert stage(data, make_env()).num_edges == (0 if round_ == 3 else 1)
    assert data.num_edges == 1


def test_at_round_counts_from_the_start_of_the_method(make_graph, make_env):
    data = make_graph([[0.0]] * 2, edges=[[0], [1]], phase_start=5)
    for round_ in range(5, 10):
        data.round = round_
        assert ApplyTransform(Isolated(), 2)(data, make_env()).num_edges == (0 if round_ == 7 else 1)


def test_sampling_draws_the_share_anew_every_round(make_graph, make_env):
    data, stage, seen = make_graph([[0.0]] * 10), SampleNodes(0.25), set()
    data = stage.init(data, make_env())
    for round_ in range(30):
        data.round = round_
        data = stage(data, make_env())
        assert int(data.trains.sum()) == 3  # 2.5, rounded up
        assert torch.equal(data.trains, data.serves)
        seen.add(tuple(data.trains.nonzero().flatten().tolist()))
    assert len(seen) > 20
    assert {node for nodes in seen for node in nodes} == set(range(10))


def test_sampling_follows_identity_not_position(make_graph, make_env):
    one, two = make_graph([[0.0]] * 6), make_graph([[0.0]] * 6)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    two.node_id = one.node_id[order]
    stage = SampleNodes(0.5)
    assert torch.equal(stage(one, make_env()).trains[order], stage(two, make_env()).trains)


def test_sampling_leaves_isolated_nodes_at_rest(make_graph, make_env):
    data = make_graph([[0.0]] * 4, isolated=torch.tensor([True, False, False, False]))
    assert SampleNodes(1.0)(data, make_env()).trains.tolist() == [False, True, True, True]


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1])
def test_sampling_refuses(fraction):
    with raises("value", "fraction"):
        SampleNodes(fraction)


def test_a_draw_is_for_the_next_round(make_graph, make_env):
    data, stage = make_graph([[0.0]] * 10), SampleNodes(0.5)
    first, second = stage.init(data, make_env()), stage(data, make_env())
    data.round = 1
    assert torch.equal(second.trains, stage.init(data, make_env()).trains)
    assert not torch.equal(first.trains, second.trains)


def test_nothing_is_drawn_where_all_nodes_work():
    assert sample_nodes(1.0) == sample_nodes(1) == Rewiring()
    assert sample_nodes(0.3) == SampleNodes(0.3)


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.5, float("nan"), float("inf")])
def test_a_share_is_a_share(fraction):
    with raises("value", "fraction"):
        sample_nodes(fraction)
