"""What every sparsification has in common, and DropWeakest, TopK and Threshold against plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Data

from graphcollab import transforms
from graphcollab.transforms import Complete, DropWeakest, Threshold, TopK, WithSelfLoops
from graphcollab.transforms._edges import select_edges
from graphcollab.transforms.sparsification import Sparsification
from tests.raising import raises

ALL = [
    DropWeakest(count=2),
    DropWeakest(fraction=0.5),
    TopK(2),
    Threshold(0.3),
]
every_sparsification = pytest.mark.parametrize("sparsify", ALL, ids=repr)


def weighted(count: int = 6, seed: int = 0, loops: bool = True) -> Data:
    data = Complete()(Data(num_nodes=count))
    data = WithSelfLoops()(data) if loops else data
    data.edge_weight = torch.rand(data.num_edges, generator=torch.Generator().manual_seed(seed))
    data.edge_state = torch.arange(data.num_edges)
    return data


def test_every_public_sparsification_is_tested() -> None:
    public = {
        value
        for value in (getattr(transforms, name) for name in transforms.__all__)
        if isinstance(value, type) and issubclass(value, Sparsification) and value is not Sparsification
    }
    assert {type(sparsify) for sparsify in ALL} == public


@every_sparsification
def test_fields_stay_aligned_loops_stay_and_the_input_stays(sparsify: Sparsification) -> None:
    data = weighted()
    before = {name: value.clone() for name, value in data if isinstance(value, torch.Tensor)}
    out = sparsify.forward(data)
    assert all(torch.equal(data[name], value) for name, value in before.items())
    assert out.num_edges < data.num_edges
    assert torch.equal(out.edge_index, data.edge_index[:, out.edge_state])
    assert torch.equal(out.edge_weight, data.edge_weight[out.edge_state])
    assert int((out.edge_index[0] == out.edge_index[1]).sum()) == 6


@every_sparsification
def test_the_order_of_edges_and_nodes_in_memory_does_not_matter(sparsify: Sparsification) -> None:
    data = weighted()
    data.edge_weight = (data.edge_weight * 4).round() / 4  # many ties
    data.node_id = torch.tensor([50, 10, 40, 20, 30, 0])
    place = torch.tensor([3, 0, 5, 1, 4, 2])
    shuffle = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(1))
    moved = Data(
        num_nodes=6,
        node_id=torch.empty(6, dtype=torch.int64).index_copy(0, place, data.node_id),
        edge_index=place[data.edge_index][:, shuffle],
        edge_weight=data.edge_weight[shuffle],
    )
    found = [
        {
            (j, i): w
            for (j, i), w in zip(out.node_id[out.edge_index].t().tolist(), out.edge_weight.tolist(), strict=True)
        }
        for out in (sparsify(data), sparsify(moved))
    ]
    assert found[0] == pytest.approx(found[1])


@every_sparsification
def test_edges_come_out_sorted(sparsify: Sparsification) -> None:
    data = weighted()
    backwards = torch.arange(data.num_edges - 1, -1, -1)
    out = sparsify(select_edges(data, backwards))
    assert torch.equal(out.edge_index, sparsify(data).edge_index)


@every_sparsification
def test_no_edges_are_fine(sparsify: Sparsification) -> None:
    data = Data(num_nodes=3, edge_index=torch.empty(2, 0, dtype=torch.int64), edge_weight=torch.empty(0))
    assert sparsify(data).num_edges == 0


@every_sparsification
def test_bad_graphs_are_clear_errors(sparsify: Sparsification) -> None:
    good = weighted()
    cases: list[tuple[Callable[[Data], object], tuple[str, ...]]] = [
        (lambda data: data.__delattr__("edge_weight"), ("missing", "edge_weight")),
        (lambda data: data.edge_weight.__setitem__(3, math.nan), ("not-finite", "edge_weight", "3 -> 0")),
        (lambda data: data.__setattr__("edge_weight", torch.ones(36, 1)), ("shape", "edge_weight", "36")),
        (lambda data: data.edge_index.__setitem__((0, 2), 9), ("range", "edge_index", "9 -> 0")),
        (lambda data: data.edge_index.__setitem__((0, 2), 1), ("duplicate", "edge_index", "1 -> 0")),
    ]
    for spoil, wanted in cases:
        data = good.clone()
        spoil(data)
        with raises(*wanted):
            sparsify(data)


def test_gradients_of_learned_weights_pass() -> None:
    data = weighted(3)
    data.edge_weight.requires_grad_()
    TopK(1)(data).edge_weight.square().sum().backward()
    assert data.edge_weight.grad is not None
    assert bool(data.edge_weight.grad.isfinite().all())


def by_hand(data: Data, how_many: Callable[[int], int]) -> set[tuple[int, int]]:
    """Return the edges that stay when each receiver keeps its ``how_many(degree)`` strongest neighbors."""
    node_id = data.node_id.tolist()
    weight = dict(zip(map(tuple, data.edge_index.t().tolist()), data.edge_weight.tolist(), strict=True))
    kept = {(j, i) for j, i in weight if i == j}
    for i in range(len(node_id)):
        senders = sorted((j for j, k in weight if k == i and j != i), key=lambda j: (-weight[j, i], node_id[j]))
        kept |= {(j, i) for j in senders[: how_many(len(senders))]}
    return kept


graphs = st.integers(1, 7).flatmap(
    lambda count: st.tuples(
        st.permutations(range(count)),
        st.dictionaries(
            st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)),
            st.sampled_from([-1.0, 0.0, 0.25, 0.5, 2.0]),
        ),
    )
)


@settings(max_examples=60, deadline=None)
@given(graphs, st.integers(0, 8), st.floats(0, 1))
def test_against_loops(graph: tuple[list[int], dict[tuple[int, int], float]], count: int, fraction: float) -> None:
    node_id, weights = graph
    data = Data(
        num_nodes=len(node_id),
        node_id=torch.tensor(node_id),
        edge_index=torch.tensor(list(weights), dtype=torch.int64).view(-1, 2).t(),
        edge_weight=torch.tensor(list(weights.values())),
    )
    expected = {
        TopK(count): by_hand(data, lambda degree: count),
        DropWeakest(count=count): by_hand(data, lambda degree: max(degree - count, 0)),
        DropWeakest(fraction=fraction): by_hand(data, lambda degree: degree - math.floor(fraction * degree + 1e-9)),
        Threshold(0.25): {(j, i) for (j, i), w in weights.items() if i == j or w >= 0.25},
    }
    for sparsify, kept in expected.items():
        assert {tuple(pair) for pair in sparsify(data).edge_index.t().tolist()} == kept, sparsify


class CountOperators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += 1
        return func(*args, **(kwargs or {}))


@every_sparsification
def test_half_a_million_edges_take_as_many_operators_as_twenty(sparsify: Sparsification) -> None:
    def operators(count: int) -> int:
        data = weighted(count)
        with CountOperators() as operators:
            sparsify(data)
        return operators.count

    assert operators(700) == operators(5)
