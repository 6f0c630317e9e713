from __future__ import annotations

import math

import pytest
import torch

from graphcollab.nn.functional.laplacian import laplacian_bound, laplacian_radius


def pairs(count, weight=1.0):
    node = torch.arange(count)
    edges = torch.cartesian_prod(node, node).T
    edges = edges[:, edges[0] != edges[1]]
    return edges, torch.full((edges.shape[1],), weight)


def ring(count):
    node = torch.arange(count)
    forth = torch.stack([node, (node + 1) % count])
    return torch.cat([forth, forth.flip(0)], 1)


@pytest.mark.parametrize("count", [2, 5, 500])
def test_all_pairs(count):
    edges, weight = pairs(count, 0.5)
    assert laplacian_radius(edges, weight, count) == pytest.approx(count / 2, rel=1e-6)
    assert laplacian_bound(edges, weight, count) == pytest.approx(count - 1)


@pytest.mark.parametrize("count", [8, 600])  # an even ring's largest eigenvalue is 4
def test_ring(count):
    edges = ring(count)
    assert laplacian_radius(edges, torch.ones(edges.shape[1]), count) == pytest.approx(4, rel=1e-4)


def test_self_loops_and_missing_nodes_play_no_part():
    edges = torch.tensor([[0, 1, 0], [1, 0, 0]])
    assert laplacian_radius(edges, torch.tensor([1.0, 1.0, 7.0]), 4) == pytest.approx(2)
    assert laplacian_radius(torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0), 3) == 0
    assert laplacian_bound(torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0), 3) == 0


def test_one_way_edges():
    # diag(1, 0) - [[0, 1], [0, 0]] is upper triangular: its eigenvalues are 1 and 0
    assert laplacian_radius(torch.tensor([[1], [0]]), torch.ones(1), 2) == pytest.approx(1)


def test_the_bound_holds():
    draw = torch.Generator().manual_seed(0)
    edges, _ = pairs(9)
    for _ in range(20):
        weight = torch.rand(edges.shape[1], generator=draw)
        matrix = torch.zeros(9, 9).index_put((edges[1], edges[0]), weight)
        symmetric = ((matrix + matrix.T) / 2)[edges[1], edges[0]]
        for w in (weight, symmetric):
            assert laplacian_radius(edges, w, 9) <= laplacian_bound(edges, w, 9) + 1e-5


@pytest.mark.parametrize("count", [3, 450])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_weights_that_are_not_finite_have_none(count, bad):
    edges = ring(count)
    for one in (0, edges.shape[1] - 1):
        weight = torch.ones(edges.shape[1]).index_fill(0, torch.tensor([one]), bad)
        assert math.isnan(laplacian_radius(edges, weight, count))
    loops = torch.cat([edges, torch.zeros(2, 1, dtype=torch.int64)], 1)  # these play no part
    weight = torch.cat([torch.ones(edges.shape[1]), torch.tensor([bad])])
    assert math.isfinite(laplacian_radius(loops, weight, count))


def test_where_the_search_does_not_converge_it_is_the_bound():
    node = torch.arange(450)  # a directed ring's eigenvalues lie close together on a circle
    edges = torch.stack([node, (node + 1) % 450])
    found = laplacian_radius(edges, torch.ones(450), 450)
    assert found == pytest.approx(2, abs=0.01)
