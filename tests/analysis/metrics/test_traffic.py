from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given, settings, strategies as st

from graphcollab.analysis.metrics.traffic import cluster_traffic, contact_counts, never_sampled
from tests.raising import raises

# 0 hears 1, 2 and itself; 2 hears 0 and only scores 3 in round 1; in round 4 node 0 hears 1 again, and 1 hears 0.
GRAPHS = {
    4: (torch.tensor([[1, 0], [0, 1]]), torch.tensor([0.5, 1.0])),
    1: (torch.tensor([[0, 1, 2, 0, 3], [0, 0, 0, 2, 2]]), torch.tensor([0.2, 0.4, 0.4, 1.0, 0.0])),
}
CLUSTER = torch.tensor([5, 5, 7, 7])


def test_counts_of_two_rounds() -> None:
    edge_index, counts = contact_counts(GRAPHS, 4)
    assert edge_index.tolist() == [[1, 2, 0, 0], [0, 0, 1, 2]]
    assert counts.tolist() == [2, 1, 1, 1]


def test_nodes_nobody_listened_to() -> None:
    assert never_sampled(GRAPHS, 4).tolist() == [3]
    assert never_sampled({4: GRAPHS[4]}, 4).tolist() == [2, 3]
    loop = torch.tensor([[0, 1], [0, 1]])
    assert never_sampled({1: (loop, torch.ones(2))}, 2).tolist() == [0, 1]  # hearing oneself is no help to others


def test_shares_by_hand() -> None:
    share, mean = cluster_traffic(GRAPHS, CLUSTER)
    # round 1: node 0 hears one of two from inside, 2 none of one; round 4: both of cluster 5 hear inside only
    assert share[0].tolist() == [0.5, 0.0]
    assert share[1, 0] == 1.0
    assert math.isnan(share[1, 1])
    assert mean.tolist() == [0.25, 1.0]


def test_weights_do_not_count() -> None:
    edge_index = torch.tensor([[1, 2], [0, 0]])
    _, mean = cluster_traffic({1: (edge_index, torch.tensor([0.999, 0.001]))}, torch.tensor([0, 0, 1]))
    assert mean.tolist() == [0.5]


def test_nothing_at_all() -> None:
    nothing = {1: (torch.empty(2, 0).long(), torch.empty(0))}
    assert contact_counts(nothing, 3)[0].shape == (2, 0)
    assert never_sampled({}, 2).tolist() == [0, 1]
    assert cluster_traffic(nothing, CLUSTER)[1].isnan().all()
    assert cluster_traffic({}, CLUSTER)[0].shape == (0, 2)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 8), st.integers(1, 4))
def test_counts_equal_sums_of_dense_matrices(seed: int, count: int, rounds: int) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.random((rounds, count, count)) * (rng.random((rounds, count, count)) < 0.5)
    graphs = {}
    for t, matrix in enumerate(dense):
        receiver, sender = matrix.nonzero()
        graphs[t] = (torch.from_numpy(np.stack([sender, receiver])), torch.from_numpy(matrix[receiver, sender]))
    expected = (dense > 0).sum(0)
    np.fill_diagonal(expected, 0)
    edge_index, counts = contact_counts(graphs, count)
    found = np.zeros((count, count), dtype=int)
    found[edge_index[1].numpy(), edge_index[0].numpy()] = counts.numpy()
    np.testing.assert_array_equal(found, expected)
    assert (counts > 0).all()
    assert never_sampled(graphs, count).tolist() == np.flatnonzero(expected.sum(0) == 0).tolist()


def test_ten_thousand_nodes_take_memory_for_edges_only() -> None:
    sender = torch.arange(10_000).roll(1)
    edge_index, counts = contact_counts(
        dict.fromkeys(range(3), (torch.stack([sender, sender.roll(1)]), sender + 1)), 10_000
    )
    assert edge_index.shape == (2, 10_000)
    assert counts.unique().tolist() == [3]


def test_bad_inputs() -> None:
    edge_index = torch.tensor([[1], [0]])
    with raises("range", "edge_index"):
        contact_counts({3: (edge_index, torch.ones(1))}, 1)
    with raises("shape", "edge_weight"):
        cluster_traffic({3: (edge_index, torch.ones(2))}, CLUSTER)
    with raises("not-finite", "edge_weight"):
        never_sampled({3: (edge_index, torch.tensor([math.nan]))}, 2)
