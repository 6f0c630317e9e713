"""The tables of reproductions that examples print beside those of the package."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from sklearn.metrics import adjusted_rand_score, roc_auc_score

from examples.benchmark._tables import budget_table, peer_table, time_to_table, weight_table
from graphcollab.analysis import Comparison
from graphcollab.analysis.trial import Trial

PAIRS = torch.combinations(torch.arange(4)).T
EDGES = torch.cat([PAIRS, PAIRS.flip(0)], 1)  # all ordered pairs of four nodes
CLUSTER = torch.tensor([0, 0, 1, 1])
INSIDE = CLUSTER[EDGES[0]] == CLUSTER[EDGES[1]]
OWN = torch.tensor([[1, 0, 3, 2], [0, 1, 2, 3]])  # everybody listens to the other of its cluster
CROSS = torch.tensor([[2, 3, 0, 1], [0, 1, 2, 3]])  # everybody listens to somebody of the other cluster
ONES = torch.ones(4)


def words(table: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in table.splitlines()[2:]}


def cells(table: str) -> list[str]:
    return table.splitlines()[2].split()


def spent(method: str, seed: int, values: list[float], messages: tuple[float, ...], **kept: Any) -> Trial:
    """Return a trial of four nodes: all pairs send 12 messages a round."""
    kept = {"per_node": (0.0,) * 4, "sent": tuple(1000.0 * m / 4 for m in messages), **kept}
    return Trial(method, seed, {}, 0.0, {"mean": values[-1]}, ([1, 2, 3], values), messages=messages, **kept)


@pytest.fixture
def costs() -> Comparison:
    chosen = {
        "local": [spent("local", s, [0.25, 0.5, 0.5 + s / 8], (0.0, 0.0, 0.0)) for s in (0, 1)],
        "dpsgd": [spent("dpsgd", s, [0.25, 0.5, 0.75], (12.0, 24.0, 36.0)) for s in (0, 1)],
        "mapl": [spent("mapl", s, [0.25, 0.5 + s / 4, 0.875], (12.0, 16.0 + 2 * s, 20.0 + 4 * s)) for s in (0, 1)],
    }
    return Comparison([], chosen, True)


def test_costs_by_hand(costs: Comparison) -> None:
    table = budget_table(costs, 18)
    names = ["mean test accuracy (%)", "messages", "of all pairs (%)", "sent", "within 18 messages (%)", "in round"]
    header = table.splitlines()[0]
    assert [header.index(name) for name in names] == sorted(header.index(name) for name in names)
    found = words(table)
    # of (50, 62.5) the standard deviation is 12.5 / sqrt 2
    assert found["local"] == ["56.25", "±", "8.84", "0", "0.0", "0", "B", "56.25", "±", "8.84", "3"]
    assert found["dpsgd"] == ["75.00", "±", "0.00", "36", "100.0", "36.0", "kB", "25.00", "±", "0.00", "1"]
    # (20 + 24) / 2 of 36 messages; within 18 both seeds are in round 2: (50, 75), deviation 25 / sqrt 2
    assert found["mapl"] == ["87.50", "±", "0.00", "22", "61.1", "22.0", "kB", "62.50", "±", "17.68", "2"]


def test_seeds_may_spend_it_at_different_rounds(costs: Comparison) -> None:
    """16 messages in round 2 are within 17, 18 are not: (50, 25) in rounds 2 and 1."""
    assert words(budget_table(costs, 17))["mapl"][-4:] == ["37.50", "±", "17.68", "1.5"]


def test_spent_before_the_first_evaluation(costs: Comparison) -> None:
    found = words(budget_table(costs, 11))
    assert found["dpsgd"][-2:] == found["mapl"][-2:] == ["–", "–"]
    assert found["local"][-1] == "3"


def test_without_a_budget(costs: Comparison) -> None:
    header = budget_table(costs).splitlines()[0]
    assert header.endswith("of all pairs (%)     sent")


def test_the_numbers_of_the_paper() -> None:
    """20 nodes, 400 rounds: 20 · 19 · 400 = 152,000 messages, of which MAPL needs 34 % less."""
    nodes, rounds = (0.0,) * 20, list(range(1, 401))
    shares = [r / 1000 for r in rounds]
    every = tuple(380.0 * r for r in rounds)
    fewer = tuple(101_000.0 * r / 400 for r in rounds)
    chosen = {
        name: [Trial(name, 0, {}, 0.0, {"mean": 0.5}, (rounds, shares), nodes, sent=sent, messages=sent)]
        for name, sent in (("all", every), ("mapl", fewer))
    }
    found = words(budget_table(Comparison([], chosen, True), 65_000))
    assert found["all"] == ["50.00", "152,000", "100.0", "3.0", "MB", "17.10", "171"]  # 171 · 380 = 64,980
    assert found["mapl"] == ["50.00", "101,000", "66.4", "2.0", "MB", "25.70", "257"]  # 257 · 252.5 = 64,892.5


def test_errors_are_not_in_percent(costs: Comparison) -> None:
    errors = replace(costs, metric="mse", higher_is_better=False)
    table = budget_table(errors, 18)
    assert table.split()[:5] == ["method", "mean", "test", "mse", "messages"]
    assert words(table)["dpsgd"][0] == "0.7500"


def timed(method: str, seed: int, values: list[float], pace: float = 1.0, **kept: tuple[float, ...]) -> Trial:
    seconds = tuple(pace * t for t in (1.0, 2.0, 3.0))
    kept = {"seconds": seconds, "sent": (1000.0, 2000.0, 3000.0), **kept}
    return Trial(method, seed, {}, 0.0, {}, ([100, 200, 300], values), **kept)


@pytest.fixture
def paces() -> Comparison:
    chosen = {
        "local": [timed("local", 0, [0.1, 0.2, 0.3]), timed("local", 1, [0.1, 0.2, 0.4])],
        "ditto": [timed("ditto", 0, [0.1, 0.5, 0.7]), timed("ditto", 1, [0.1, 0.5, 0.5])],
        "cobo": [timed("cobo", 0, [0.6, 0.5, 0.9], 3.0), timed("cobo", 1, [0.1, 0.75, 0.5])],
    }
    return Comparison([], chosen, True)


def test_means_over_the_seeds_that_reached_it(paces: Comparison) -> None:
    header, _, local, ditto, cobo = time_to_table(paces, 0.6).splitlines()
    assert header.startswith("mean test accuracy 60 %  ")
    assert local.split() == ["local", "not", "reached", "–", "–", "0", "of", "2"]
    assert ditto.split() == ["ditto", "300", "3.0", "3.0", "kB", "1", "of", "2"]
    # rounds 100 and 200, seconds 3 and 2, bytes 1000 and 2000; that cobo fell back does not count
    assert cobo.split() == ["cobo", "150", "2.5", "1.5", "kB", "2", "of", "2"]


def test_errors_are_reached_from_above(paces: Comparison) -> None:
    errors = replace(paces, metric="mse", higher_is_better=False)
    header, _, local, _, cobo = time_to_table(errors, 0.25).splitlines()
    assert header.startswith("mean test mse 0.25 ")
    assert local.split()[1:3] == ["100", "1.0"]
    assert cobo.split()[1:] == ["100", "1.0", "1.0", "kB", "1", "of", "2"]


def test_weights_by_hand():
    weight = torch.where(INSIDE, 0.8, 0.1)
    assert words(weight_table({"cobo": [(EDGES, weight)]}, CLUSTER))["cobo"] == [
        "0.800", "0.100", "1.000", "1.00", "1", "of", "1",
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


def test_pairs_without_an_edge_weigh_nothing():
    edges = EDGES[:, INSIDE]
    assert cells(weight_table({"fc": [(edges, torch.full((4,), 0.6))]}, CLUSTER))[1:3] == ["0.600", "0.000"]


def test_peers_by_hand():
    # 3 rounds count: 2 of them inside, 1 across. Counts: 2 for the four pairs inside, 1 for four of the eight across
    graphs = {t: (CROSS if t in (1, 2, 6) else OWN, ONES) for t in range(1, 7)}
    area = roc_auc_score([1] * 4 + [0] * 8, [2] * 4 + [1] * 4 + [0] * 4)
    assert cells(peer_table({"dac": [graphs]}, CLUSTER, last=3)) == ["dac", "66.7", f"{area:.3f}", "1.00", "0.0"]


def test_a_third_of_the_rounds_by_default():
    graphs = {t: (OWN if t >= 3 else CROSS, ONES) for t in range(1, 5)}  # 2 of 4
    assert cells(peer_table({"dac": [graphs]}, CLUSTER))[1] == "100.0"


def test_mean_and_spread_over_runs():
    # 100 and 0 % have a mean of 50 and a standard deviation of 100 / sqrt(2); areas are 1 and, with 8 pairs across of
    # which 4 are ranked above all others, 4 of 8 beaten or tied: (0 + 4 / 2) / 8
    rand = adjusted_rand_score([0, 0, 1, 1], [0, 1, 0, 1])
    found = cells(peer_table({"dac": [{1: (OWN, ONES)}, {1: (CROSS, ONES)}]}, CLUSTER))
    assert found[1:7] == ["50.0", "±", "70.7", "0.625", "±", "0.530"]
    assert found[7] == f"{(1 + rand) / 2:.2f}"


def test_weight_zero_is_not_listening_and_whole_run_counts_for_never_heard():
    weight = torch.tensor([0.0, 1.0, 1.0, 1.0])  # nobody listens to node 1 in the second round
    assert cells(peer_table({"dac": [{1: (OWN, ONES), 2: (OWN, weight)}]}, CLUSTER, last=1))[-1] == "0.0"
    assert cells(peer_table({"dac": [{1: (OWN, weight), 2: (OWN, weight)}]}, CLUSTER, last=1))[-1] == "1.0"


def test_nodes_alone_have_no_values():
    nothing = torch.empty(2, 0, dtype=torch.int64), torch.empty(0)
    text = peer_table({"none": [{1: nothing}], "oracle": [{1: (OWN, ONES)}]}, CLUSTER)
    assert text.splitlines()[2].split() == ["none", "–", "–", "–", "–"]


def test_methods_that_failed() -> None:
    failed = Trial("cobo", 0, {}, float("nan"), {"mean": float("nan")}, failure="lost")
    found = Comparison([], {"cobo": [failed, failed]}, True)
    assert cells(time_to_table(found, 0.5)) == ["cobo", "failed", "–", "–", "0", "of", "2"]
    assert cells(budget_table(found, 3)) == ["cobo", "failed", *"–––––"]
