"""What every topology has in common."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor
from torch_geometric.data import Data

from graphcollab import transforms
from graphcollab.transforms import Complete, Isolated, RandomRegular, Ring
from graphcollab.transforms.topologies import Topology
from tests.raising import raises

TOPOLOGIES = [
    Complete(),
    Isolated(),
    Ring(),
    Ring(neighbors=3),
    Ring(neighbors=2),
    RandomRegular(degree=4, seed=5),
]
every_topology = pytest.mark.parametrize("topology", TOPOLOGIES, ids=repr)


def named_edges(data: Data) -> set[tuple[int, int]]:
    """Return the edges in terms of ``node_id``."""
    return {tuple(pair) for pair in data.node_id[data.edge_index].t().tolist()}


def test_every_public_topology_is_tested() -> None:
    public = {
        value
        for value in (getattr(transforms, name) for name in transforms.__all__)
        if isinstance(value, type) and issubclass(value, Topology) and value is not Topology
    }
    assert {type(topology) for topology in TOPOLOGIES} == public


@every_topology
@pytest.mark.parametrize("count", [8, 13])
def test_edges_are_sorted_distinct_and_without_self_loops(topology: Topology, count: int) -> None:
    sender, receiver = topology(Data(num_nodes=count)).edge_index
    assert bool((sender != receiver).all())
    assert bool(((receiver * count + sender).diff() > 0).all())
    assert sender.dtype == torch.int64


@every_topology
def test_relabeling_the_nodes_relabels_the_graph(topology: Topology) -> None:
    node_id = torch.tensor([3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26])
    shuffled = node_id[torch.randperm(12, generator=torch.Generator().manual_seed(0))]
    one, other = (topology(Data(num_nodes=12, node_id=ids)) for ids in (node_id, shuffled))
    assert named_edges(one) == named_edges(other)


@every_topology
def test_same_settings_give_the_same_graph_and_touch_no_global_generator(topology: Topology) -> None:
    before = torch.random.get_rng_state()
    one, other = (topology(Data(num_nodes=10)).edge_index for _ in range(2))
    assert torch.equal(one, other)
    assert torch.equal(before, torch.random.get_rng_state())


@every_topology
def test_the_input_stays_and_fields_of_old_edges_go(topology: Topology) -> None:
    data = Data(
        num_nodes=10, x=torch.zeros(10, 3), edge_index=torch.tensor([[0], [1]]), edge_weight=torch.ones(1), name="mine"
    )
    before = copy.copy(data)
    out = topology.forward(data)
    assert set(out.keys()) == {"num_nodes", "x", "edge_index", "name"}
    assert set(data.keys()) == set(before.keys())
    assert data.edge_index is before.edge_index
    assert out.x is data.x


@every_topology
def test_repr_shows_the_settings(topology: Topology) -> None:
    assert repr(topology).startswith(type(topology).__name__ + "(")


def test_repr_of_optional_settings() -> None:
    assert repr(RandomRegular(degree=4)) == "RandomRegular(degree=4, seed=0)"
    assert repr(Ring(2)) == "Ring(neighbors=2)"


def test_unknown_number_of_nodes() -> None:
    with raises("missing", "num_nodes"):
        Complete()(Data())


@pytest.mark.parametrize("topology", [Complete(), Isolated(), Ring(), Ring(neighbors=2)], ids=repr)
@pytest.mark.parametrize("count", [0, 1])
def test_no_or_one_node_has_no_edges(topology: Topology, count: int) -> None:
    assert topology(Data(num_nodes=count)).edge_index.shape == (2, 0)


class Given(Topology):
    """A user's own topology."""

    def __init__(self, edges: Tensor) -> None:
        super().__init__()
        self.edges = edges

    def connect(self, node_id: Tensor) -> Tensor:
        return self.edges


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30), st.permutations(range(6)))
def test_whatever_connect_returns_comes_out_clean(pairs: list[tuple[int, int]], node_id: list[int]) -> None:
    edges = torch.tensor(pairs, dtype=torch.int64).view(-1, 2).t()
    out = Given(edges)(Data(num_nodes=6, node_id=torch.tensor(node_id)))
    assert named_edges(out) == {(j, i) for j, i in pairs if i != j}
    assert out.num_edges == len(named_edges(out))
    assert out.edge_index.t().tolist() == sorted(out.edge_index.t().tolist(), key=lambda edge: (edge[1], edge[0]))
