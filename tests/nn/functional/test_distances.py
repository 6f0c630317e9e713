"""Distances and cosines per edge against scipy in double precision, above all for models that are nearly equal."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.spatial.distance import cdist, cosine
from torch.utils._python_dispatch import TorchDispatchMode

from graphcollab.nn.functional import distances
from graphcollab.nn.functional.distances import edge_cosines, edge_distances
from graphcollab.nn.functional.structure import Structure
from tests.raising import raises

COMPLETE, SPARSE = "complete", "sparse"
BOTH = pytest.mark.parametrize("kind", [COMPLETE, SPARSE])


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def edges_of(kind, senders, receivers):
    """All pairs, or so few that inner products are sampled; in an order that is no kernel's."""
    every = torch.cartesian_prod(torch.arange(senders), torch.arange(receivers)).T
    if kind == SPARSE:
        every = every[:, ((every[0] * 7 + every[1] * 3) % 61 == 0)]
    return every[:, torch.randperm(every.shape[1], generator=torch.Generator().manual_seed(9))]


def exact_distances(a, b, edges):
    return torch.from_numpy(cdist(a.double().numpy(), b.double().numpy()))[edges[1], edges[0]]


def exact_one_minus_cosine(a, b, edges):
    """1 − cos in extended precision, by |u − v|² / 2, for digits that 1 − <u, v> does not have."""
    u, v = (rows.numpy().astype(np.longdouble) for rows in (a, b))
    u, v = (rows / np.sqrt((rows**2).sum(1, keepdims=True)) for rows in (u, v))
    return torch.from_numpy((((u[edges[1]] - v[edges[0]]) ** 2).sum(1) / 2).astype(np.float64))


@BOTH
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-9)])
@pytest.mark.parametrize("spread", [10.0, 1.0, 1e-3, 1e-6])
def test_models_around_a_common_one(kind, dtype, tolerance, spread):
    # with a spread of 1e-6 and single precision, d² is 1e-12 |a|²: uncentered products have lost it all
    base = normal(1, 500, seed=5, dtype=torch.float64)
    rows = (base + spread * normal(90, 500, dtype=torch.float64)).to(dtype)
    edges = edges_of(kind, 90, 90)
    edges = edges[:, edges[0] != edges[1]]
    found = edge_distances(rows, rows, edges)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, exact_distances(rows, rows, edges), rtol=tolerance, atol=0)
    expected = exact_one_minus_cosine(rows, rows, edges)
    torch.testing.assert_close(1 - edge_cosines(rows, rows, edges), expected, rtol=tolerance, atol=1e-15)


@BOTH
@pytest.mark.parametrize("within", [1.0, 1e-2, 1e-4, 1e-6])
def test_models_in_clusters(kind, within):
    # within a cluster, models are close to each other and far from the mean: the product alone does not do
    rows = (normal(3, 200, seed=1)[torch.arange(90) % 3] + within * normal(90, 200)).float()
    edges = edges_of(kind, 90, 90)
    edges = edges[:, edges[0] != edges[1]]
    torch.testing.assert_close(edge_distances(rows, rows, edges), exact_distances(rows, rows, edges), rtol=2e-5, atol=0)
    expected = exact_one_minus_cosine(rows, rows, edges)
    torch.testing.assert_close(1 - edge_cosines(rows, rows, edges), expected, rtol=2e-5, atol=1e-15)


@BOTH
def test_receivers_and_senders_may_be_different(kind):
    a, b = normal(70, 30, seed=1), normal(80, 30, seed=2) + 1
    edges = edges_of(kind, 80, 70)
    torch.testing.assert_close(edge_distances(a, b, edges), exact_distances(a, b, edges), rtol=2e-5, atol=0)
    expected = torch.tensor([1 - cosine(a[i].double(), b[j].double()) for j, i in edges.T.tolist()])
    torch.testing.assert_close(edge_cosines(a, b, edges), expected.double(), rtol=0, atol=1e-6)
    structure = Structure.from_edges(edges, (80, 70))
    assert torch.equal(edge_distances(a, b, structure), edge_distances(a, b, edges))
    assert torch.equal(edge_cosines(a, b, structure), edge_cosines(a, b, edges))


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_model_and_itself_or_its_copy(kind, dtype):
    rows = normal(90, 50, dtype=dtype) + 100
    edges = edges_of(kind, 90, 90)
    edges = torch.cat([edges, torch.arange(90).expand(2, -1)], 1)
    loops = edges[0] == edges[1]
    for other in (rows, rows.clone()):
        assert edge_distances(rows, other, edges)[loops].tolist() == [0.0] * int(loops.sum())
        assert edge_cosines(rows, other, edges)[loops].tolist() == [1.0] * int(loops.sum())


def test_hand_cases():
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.0], [-6.0, -8.0], [4.0, -3.0]])
    edges = torch.tensor([[0, 1, 2, 3, 1], [0, 0, 0, 0, 1]])
    assert edge_distances(rows, rows, edges).tolist() == pytest.approx([0, 5, 15, 50**0.5, 0], rel=1e-6)
    # a vector of zeros has the cosine 0, also with itself
    assert edge_cosines(rows, rows, edges).tolist() == pytest.approx([1, 0, -1, 0, 0], abs=1e-6)


@pytest.mark.parametrize("scale", [1e-25, 1e-15, 1e12, 1e25])
def test_products_that_overflow_or_underflow(scale):
    rows = torch.tensor([[3.0, 4.0], [3.0, 4.0], [4.0, -3.0]]) * scale
    edges = torch.tensor([[0, 1, 2], [0, 0, 0]])
    found = edge_distances(rows, rows, edges) / scale
    assert found.tolist() == pytest.approx([0, 0, 50**0.5], rel=1e-6, abs=1e-12)
    assert edge_cosines(rows, rows, edges).tolist() == pytest.approx([1, 1, 0], abs=1e-6)


def test_a_vector_that_is_not_finite_spoils_only_its_own_edges():
    rows = normal(6, 4)
    rows[2, 1], rows[4, 0] = float("nan"), float("inf")
    edges = edges_of(COMPLETE, 6, 6)
    bad = torch.isin(edges, torch.tensor([2, 4])).any(0)
    for of_edges in (edge_distances, edge_cosines):
        found = of_edges(rows, rows, edges)
        assert torch.equal(~found.isfinite(), bad)
    fine = edges[:, ~bad]
    expected = exact_distances(rows.nan_to_num(0, 0), rows.nan_to_num(0, 0), fine)
    torch.testing.assert_close(edge_distances(rows, rows, edges)[~bad], expected, rtol=2e-5, atol=1e-12)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_no_edges_and_no_columns(shape):
    rows = torch.zeros(shape)
    edges = torch.zeros(2, shape[0], dtype=torch.int64)
    for of_edges in (edge_distances, edge_cosines):
        assert of_edges(rows, rows, edges).tolist() == [0.0] * shape[0]


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 5), st.data())
@settings(max_examples=50)
def test_relabeled_nodes_have_the_same_distances(senders, receivers, width, draw):
    pair = st.tuples(st.integers(0, senders - 1), st.integers(0, receivers - 1))
    pairs = draw.draw(st.lists(pair, max_size=20))
    edges = torch.tensor(pairs, dtype=torch.int64).view(-1, 2).T
    number = st.floats(-3, 3, width=32)
    a, b = (
        torch.tensor(draw.draw(st.lists(st.lists(number, min_size=width, max_size=width), min_size=n, max_size=n)))
        for n in (receivers, senders)
    )
    to_sender, to_receiver = (torch.tensor(draw.draw(st.permutations(range(n)))) for n in (senders, receivers))
    moved = torch.stack([to_sender[edges[0]], to_receiver[edges[1]]])
    a_moved, b_moved = torch.empty_like(a), torch.empty_like(b)
    a_moved[to_receiver], b_moved[to_sender] = a, b
    for of_edges in (edge_distances, edge_cosines):
        found = of_edges(a, b, edges)
        assert found.shape == (len(pairs),)
        torch.testing.assert_close(of_edges(a_moved, b_moved, moved), found, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(edge_distances(a, b, edges), exact_distances(a, b, edges), rtol=1e-4, atol=1e-18)


class Largest(TorchDispatchMode):
    """Records the largest tensor that any operator makes."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for made in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(made, torch.Tensor):
                own = made.values() if made.layout == torch.sparse_csr else made
                self.numbers = max(self.numbers, own.numel())
        return out


@BOTH
@pytest.mark.parametrize("spread", [1.0, 1e-6])
def test_no_tensor_of_all_edges_and_columns(kind, spread, monkeypatch):
    monkeypatch.setattr(distances, "BLOCK_NUMBERS", (2**12, 2**12))
    monkeypatch.setattr(distances, "BLOCK_ROWS", 2**5)
    count, width = 130, 900
    rows = normal(2, width, seed=3)[torch.arange(count) % 2] + spread * normal(count, width)
    edges = edges_of(kind, count, count)
    budget = count * width
    assert edges.shape[1] > 2 * count
    for of_edges in (edge_distances, edge_cosines):
        with Largest() as largest:
            found = of_edges(rows, rows, edges)
        assert largest.numbers <= budget
        assert found.isfinite().all()
    torch.testing.assert_close(
        edge_distances(rows, rows, edges), exact_distances(rows, rows, edges), rtol=2e-5, atol=1e-18
    )


def test_no_gradient_flows():
    rows = normal(3, 4).requires_grad_()
    edges = edges_of(COMPLETE, 3, 3)
    assert not edge_distances(rows, rows, edges).requires_grad
    assert not edge_cosines(rows, rows, edges).requires_grad


@pytest.mark.parametrize("of_edges", [edge_distances, edge_cosines])
@pytest.mark.parametrize(
    ("a", "b", "edges", "wanted"),
    [
        (torch.zeros(2, 3), torch.zeros(2, 4), [[0], [1]], ("shape", "vectors")),
        (torch.zeros(2), torch.zeros(2), [[0], [1]], ("shape", "vectors")),
        (torch.zeros(2, 3), torch.zeros(2, 3), [[0], [2]], ("range", "edge_index")),
    ],
)
def test_refusals(of_edges, a, b, edges, wanted):
    with raises(*wanted):
        of_edges(a, b, torch.tensor(edges))


def test_a_structure_of_other_sizes_is_refused():
    structure = Structure.from_edges(torch.tensor([[0], [1]]), (2, 2))
    with raises("mismatch", "vectors"):
        edge_distances(torch.zeros(3, 1), torch.zeros(2, 1), structure)


def test_groups_do_not_change_each_others_last_digits():
    """Centered on all rows, vectors of others would show in the last digits; values stay what they are."""
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(6, 50, generator=draw, dtype=torch.float64)
    other = rows.clone()
    other[3:] = 1e3 * torch.randn(3, 50, generator=draw, dtype=torch.float64)
    group = torch.tensor([0, 0, 0, 1, 1, 1])
    edges = torch.tensor([[0, 1, 2, 3, 4, 2], [1, 2, 0, 4, 5, 3]])  # the last one is between groups
    for measure in (edge_distances, edge_cosines):
        one, two = measure(rows, rows, edges, group), measure(other, other, edges, group)
        assert torch.equal(one[:3], two[:3])
        torch.testing.assert_close(one, measure(rows, rows, edges), rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(two, measure(other, other, edges), rtol=1e-9, atol=1e-12)
