from __future__ import annotations

import pytest
import torch

from graphcollab.report import weight_table
from tests.raising import raises

PAIRS = torch.combinations(torch.arange(4)).T
EDGES = torch.cat([PAIRS, PAIRS.flip(0)], 1)  # all ordered pairs of four nodes
CLUSTER = torch.tensor([0, 0, 1, 1])
INSIDE = CLUSTER[EDGES[0]] == CLUSTER[EDGES[1]]


def cells(text: str, row: int = 0) -> list[str]:
    return text.splitlines()[2 + row].split()


def test_numbers_by_hand():
    weight = torch.where(INSIDE, 0.8, 0.1)
    assert cells(weight_table({"cobo": [(EDGES, weight)]}, CLUSTER)) == [
        "cobo", "0.800", "0.100", "1.000", "1.00", "1", "of", "1",
    ]  # fmt: skip


def exact(graphs, cluster=CLUSTER, **settings):
    return cells(
        weight_table({"fc": graphs}, torch.tensor(cluster) if isinstance(cluster, list) else cluster, **settings)
    )[-3:]


def test_spread_and_exactness_over_runs():
    good, weak = torch.where(INSIDE, 1.0, 0.0), torch.where(INSIDE, 0.4, 0.3)
    found = cells(weight_table({"cobo": [(EDGES, good), (EDGES, weak)]}, CLUSTER))
    assert found[1:4] == ["0.700", "±", "0.424"]
    assert found[-3:] == ["1", "of", "2"]  # .3 is more than half of .4
    assert exact([(EDGES, good), (EDGES, weak)], threshold=0.8) == ["2", "of", "2"]  # and less than .8 of it


def test_a_single_weight_between_clusters_spoils_it():
    weight = torch.where(INSIDE, 1.0, 0.0)
    weight[(~INSIDE).nonzero()[0]] = 0.5
    assert exact([(EDGES, weight)]) == ["1", "of", "1"]
    weight[(~INSIDE).nonzero()[0]] = 0.6
    assert exact([(EDGES, weight)]) == ["0", "of", "1"]


def test_weights_are_compared_with_the_receivers_largest():
    """A row of ten that sums to 1: 1/6 for each of six kin, and 1/6 or less for itself."""
    cluster = torch.tensor([0] * 7 + [1] * 3)
    edges = torch.cartesian_prod(torch.arange(10), torch.arange(10)).T
    same = cluster[edges[0]] == cluster[edges[1]]
    share = same / torch.bincount(cluster)[cluster[edges[1]]]
    assert float(share.max()) < 0.5
    assert exact([(edges, share)], cluster) == ["1", "of", "1"]
    # Receivers of one cluster may weigh all that they hear more than those of another: 0.05 and 0.7 are both exact.
    scale = torch.where(cluster[edges[1]] == 0, 0.35, 2.1)
    assert exact([(edges, share * scale)], cluster) == ["1", "of", "1"]
    # The own weight is not what kin are compared with.
    assert exact([(edges, torch.where(edges[0] == edges[1], 5.0, share))], cluster) == ["1", "of", "1"]


def test_kin_that_get_less_than_half_of_the_largest_are_missed():
    edges = torch.tensor([[1, 2, 3, 0, 2, 3, 0, 1, 3, 0, 1, 2], [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]])
    for least, found in ((0.4, "1"), (0.2, "0"), (0.0, "0")):
        weight = torch.tensor([0.5, least, 0.1] + [0.5, 0.5, 0.0] * 2 + [0.0, 0.0, 0.0])
        assert exact([(edges, weight)], [0, 0, 0, 1]) == [found, "of", "1"]


def test_who_listens_to_nobody_has_not_found_its_cluster():
    weight = torch.where(INSIDE & (EDGES[1] != 3), 1.0, 0.0)
    assert exact([(EDGES, weight)]) == ["0", "of", "1"]


def test_a_node_alone_in_its_cluster_is_compared_with_itself():
    """Node 2 is alone: without a self-loop it must give nobody anything, with one half of that at most."""
    edges = torch.tensor([[1, 0, 0, 1, 2], [0, 1, 2, 2, 2]])
    for given, own, found in ((0.0, 0.0, "1"), (0.1, 0.0, "0"), (0.3, 0.6, "1"), (0.4, 0.6, "0")):
        weight = torch.tensor([1.0, 1.0, given, 0.0, own])
        assert exact([(edges, weight)], [0, 0, 1]) == [found, "of", "1"]


@pytest.mark.parametrize("threshold", [-0.1, 1.0, float("nan")])
def test_the_threshold_is_a_share(threshold):
    with raises("value", "threshold", "0", "1"):
        weight_table({"cobo": [(EDGES, INSIDE.double())]}, CLUSTER, threshold=threshold)


def test_pairs_without_an_edge_weigh_nothing():
    edges = EDGES[:, INSIDE]
    assert cells(weight_table({"fc": [(edges, torch.full((4,), 0.6))]}, CLUSTER))[1:3] == ["0.600", "0.000"]


@pytest.mark.parametrize("runs", [{}, {"cobo": []}])
def test_it_needs_runs(runs):
    with raises("too-few", "graphs"):
        weight_table(runs, CLUSTER)
