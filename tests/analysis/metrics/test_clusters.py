from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import adjusted_rand_score

from graphcollab.analysis.metrics.recovery import adjusted_rand_index, recovered_clusters
from tests.raising import raises

TWO_TRIANGLES = torch.tensor([[1, 2, 0, 4, 5, 3, 0], [0, 1, 2, 3, 4, 5, 3]])  # two directed rings and one edge between


def planted(sizes: list[int], prefer: float, rounds: int = 50, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """How often nodes listened to each other that draw three peers a round, their own cluster's with preference."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.zeros((len(cluster), len(cluster)))
    for i in range(len(cluster)):
        chance = np.where(cluster == cluster[i], prefer, 1.0)
        chance[i] = 0
        for _ in range(rounds):
            counts[i, rng.choice(len(cluster), 3, replace=False, p=chance / chance.sum())] += 1
    receiver, sender = counts.nonzero()
    edge_index = torch.from_numpy(np.stack([sender, receiver]))
    return edge_index, torch.from_numpy(counts[receiver, sender]), torch.from_numpy(cluster)


@pytest.mark.parametrize("number", [None, 2])
def test_two_triangles(number: int | None) -> None:
    found = recovered_clusters(TWO_TRIANGLES, torch.ones(7), 6, number)
    assert found.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.dtype == torch.int64


def test_the_index_is_that_of_the_pair_counts() -> None:
    # found {012} {345} against {01} {2345}: 4 pairs together in both, 6 and 7 in one; expected 6 * 7 / 15
    cluster = torch.tensor([0, 0, 1, 1, 1, 1])
    expected = (4 - 2.8) / ((6 + 7) / 2 - 2.8)
    assert adjusted_rand_index(TWO_TRIANGLES, torch.ones(7), cluster) == pytest.approx(expected)
    assert adjusted_rand_index(TWO_TRIANGLES, torch.ones(7), torch.tensor([5, 5, 5, 2, 2, 2])) == 1.0


def test_weights_count_in_both_directions_and_self_loops_do_not() -> None:
    # 1 and 2 both listen to 0 and are not listened to; 0 -> 1 has the larger weight, though 2 gives more to itself
    edge_index = torch.tensor([[0, 0, 2, 3, 1], [1, 2, 2, 2, 3]])
    weight = torch.tensor([1.0, 0.1, 9.0, 1.0, 0.1])
    assert recovered_clusters(edge_index, weight, 4, 2).tolist() == [0, 0, 1, 1]
    assert recovered_clusters(edge_index, weight, 4).tolist() == [0, 0, 1, 1]


def test_edges_that_occur_twice_are_summed() -> None:
    once = recovered_clusters(TWO_TRIANGLES, torch.ones(7), 6)
    twice = recovered_clusters(torch.cat([TWO_TRIANGLES, TWO_TRIANGLES], 1), torch.full((14,), 0.5), 6)
    assert torch.equal(once, twice)


@pytest.mark.parametrize("sizes", [[20, 20, 20], [70, 20, 5, 5], [20] * 5])
@pytest.mark.parametrize("known", [False, True])
def test_clusters_are_found_in_counts_of_noisy_samples(sizes: list[int], known: bool) -> None:
    edge_index, counts, cluster = planted(sizes, prefer=20.0)
    assert adjusted_rand_index(edge_index, counts, cluster, num_clusters=len(sizes) if known else None) == 1.0


@pytest.mark.parametrize("known", [False, True])
def test_random_peers_show_no_clusters(known: bool) -> None:
    edge_index, counts, cluster = planted([20, 20, 20], prefer=1.0)
    assert abs(adjusted_rand_index(edge_index, counts, cluster, num_clusters=3 if known else None)) < 0.1


@pytest.mark.parametrize("number", [None, 2])
def test_clear_clusters_need_no_identities(number: int | None) -> None:
    place = torch.tensor([4, 0, 5, 2, 1, 3])
    found = recovered_clusters(place[TWO_TRIANGLES], torch.ones(7), 6, number)
    assert found.tolist() == [0, 1, 1, 1, 0, 0]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(2, 5), min_size=2, max_size=4))
def test_complete_groups_without_edges_between_are_the_components(sizes: list[int]) -> None:
    cluster = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    adjacency = (cluster[:, None] == cluster).double()
    edge_index = adjacency.nonzero().t()
    truth = connected_components(adjacency.numpy())[1]
    for number in (None, len(sizes)):
        found = recovered_clusters(edge_index, torch.ones(edge_index.shape[1]), len(cluster), number)
        assert adjusted_rand_score(truth, found.numpy()) == 1.0


def test_nodes_without_edges() -> None:
    alone = torch.empty(2, 0).long()
    assert recovered_clusters(alone, torch.empty(0), 3).tolist() == [0, 1, 2]
    assert adjusted_rand_index(alone, torch.empty(0), torch.tensor([0, 0, 1])) == 0.0
    assert recovered_clusters(TWO_TRIANGLES, torch.ones(7), 7).tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert recovered_clusters(TWO_TRIANGLES, torch.ones(7), 7, 2).shape == (7,)
    assert recovered_clusters(alone, torch.empty(0), 3, 2).shape == (3,)
    assert recovered_clusters(TWO_TRIANGLES, torch.zeros(7), 6).tolist() == [0, 1, 2, 3, 4, 5]


def test_as_many_clusters_as_asked_for_at_the_ends() -> None:
    assert recovered_clusters(TWO_TRIANGLES, torch.ones(7), 6, 1).tolist() == [0] * 6
    assert recovered_clusters(TWO_TRIANGLES, torch.ones(7), 6, 6).tolist() == [0, 1, 2, 3, 4, 5]


def test_weights_that_need_a_gradient() -> None:
    assert adjusted_rand_index(TWO_TRIANGLES, torch.ones(7, requires_grad=True), torch.arange(6) // 3) == 1.0


def test_bad_inputs() -> None:
    weight = torch.ones(7)
    with raises("range", "edge_weight"):
        recovered_clusters(TWO_TRIANGLES, -weight, 6)
    with raises("range", "num_clusters"):
        recovered_clusters(TWO_TRIANGLES, weight, 6, 7)
    with raises("range", "edge_index"):
        recovered_clusters(TWO_TRIANGLES, weight, 4)
    with raises("shape", "edge_weight"):
        adjusted_rand_index(TWO_TRIANGLES, weight[:6], torch.zeros(6))
    with raises("type", "num_cluster", kind=TypeError):
        adjusted_rand_index(TWO_TRIANGLES, weight, torch.zeros(6), num_cluster=2)
