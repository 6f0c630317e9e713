"""Which edges may exist, and who is connected by them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data

from graphcollab.comm import Plane
from graphcollab.components.allowed import (
    allow,
    components,
    forbidden_edges,
    parts_apart,
    require_both_ways,
    server_groups,
    without_the_alone,
)
from tests.raising import raises

NAMES = ("ann", "bob", "cai", "dan", "eve")
ENV = SimpleNamespace(engine=SimpleNamespace(tasks=SimpleNamespace(names=NAMES)), plane=Plane(5))


def graph(edges, count=5, **fields):
    data = Data(num_nodes=count, node_id=torch.arange(count), **fields)
    data.allowed = allow(torch.tensor(edges), count)
    return data


def both(*pairs):
    return [list(ends) for ends in zip(*pairs, *((b, a) for a, b in pairs), strict=True)]


def nodes_by_group(group):
    """Which nodes have the same number."""
    return [[k for k in range(len(group)) if group[k] == g] for g in group.unique().tolist()]


def test_the_edges_given_are_shared_and_self_loops_left_out():
    edges = torch.tensor([[0, 1], [1, 2]])
    assert allow(edges, 3).edge_index is edges
    assert allow(torch.tensor([[0, 1], [1, 1]]), 3).edge_index.tolist() == [[0], [1]]
    assert allow(edges, 3).values.stride() == (0,)


def test_forbidden_edges():
    data = graph([[0, 1], [1, 2]], edge_index=torch.tensor([[1, 0, 2, 2], [0, 1, 2, 1]]))
    assert forbidden_edges(data).tolist() == [True, False, False, True]
    data.edge_index = torch.tensor([[0, 3], [1, 3]])
    assert forbidden_edges(data) is None
    nobody = Data(num_nodes=2, edge_index=torch.tensor([[0, 1], [1, 0]]))
    assert forbidden_edges(nobody) is None
    nobody.allowed = allow(torch.empty(2, 0, dtype=torch.int64), 2)
    assert forbidden_edges(nobody).tolist() == [True, True]


def test_components_are_reached_both_ways():
    """ann and bob hear each other, cai hears bob, dan, eve and cai go round."""
    data = graph([[0, 1, 1, 2, 3, 4], [1, 0, 2, 3, 4, 2]])
    assert nodes_by_group(components(data)) in ([[0, 1], [2, 3, 4]], [[2, 3, 4], [0, 1]])
    assert components(data, mutual=False).unique().numel() == 1
    everybody = Data(num_nodes=3, node_id=torch.arange(3))
    assert components(everybody).tolist() == [0, 0, 0]
    assert parts_apart(everybody) is None


def test_groups_of_servers():
    complete = graph(both((0, 1), (0, 2), (1, 2), (3, 4)))
    assert server_groups(complete, ENV).tolist() in ([0, 0, 0, 1, 1], [1, 1, 1, 0, 0])
    clusters = torch.tensor([0, 0, 1, 1, 1])
    assert server_groups(complete, ENV, clusters).tolist() == [0, 0, -1, 1, 1]
    everybody = Data(num_nodes=5, node_id=torch.arange(5))
    assert server_groups(everybody, ENV).tolist() == [0] * 5
    assert server_groups(everybody, ENV, clusters).tolist() == [0, 0, 1, 1, 1]
    assert without_the_alone(torch.tensor([2, 2, 7])).tolist() == [0, 0, -1]


@pytest.mark.parametrize(
    ("edges", "deaf", "unheard"),
    [(both((0, 1), (1, 2)), "ann", "cai"), ([[0, 1, 1], [1, 0, 2]], "ann", "cai"), ([[0], [1]], "ann", "bob")],
    ids=["path", "one way out", "one way"],
)
def test_connected_nodes_that_do_not_all_hear_each_other(edges, deaf, unheard):
    with raises("disconnected", "node 'ann'", f"{deaf} and {unheard}", f"{unheard} → {deaf}"):
        server_groups(graph(edges), ENV)
    assert server_groups(graph(both((0, 1), (1, 2))), ENV, incomplete="average").tolist() == [0, 0, 0, -1, -1]
    assert server_groups(graph([[0], [1]]), ENV, incomplete="average").tolist() == [-1] * 5


def test_a_cluster_may_be_complete_in_a_component_that_is_not():
    """ann and bob are one cluster, cai, whom only bob hears, another."""
    path = graph(both((0, 1), (1, 2)))
    assert server_groups(path, ENV, torch.tensor([0, 0, 1, 2, 2])).tolist() == [0, 0, -1, -1, -1]
    with raises("disconnected", "node 'ann'"):
        server_groups(path, ENV, torch.tensor([0, 1, 0, 2, 2]))


def test_edges_without_a_way_back():
    around = graph([[0, 1, 2], [1, 2, 0]])
    require_both_ways(around, ENV, "models travel", by_path=True)
    with raises("disconnected", "node 'bob'"):
        require_both_ways(around, ENV, "models travel")
    with raises("disconnected", "node 'bob'"):
        require_both_ways(graph([[0], [1]]), ENV, "models travel", by_path=True)
    require_both_ways(graph(both((0, 1))), ENV, "models travel")
    require_both_ways(Data(num_nodes=2, node_id=torch.arange(2)), ENV, "models travel")
