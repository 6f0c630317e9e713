from __future__ import annotations

import torch
from sklearn.metrics import adjusted_rand_score, roc_auc_score

from graphcollab.report import peer_table
from tests.raising import raises

PAIRS = torch.tensor([[1, 0, 3, 2], [0, 1, 2, 3]])  # everybody listens to the other of its cluster
CROSS = torch.tensor([[2, 3, 0, 1], [0, 1, 2, 3]])  # everybody listens to somebody of the other cluster
CLUSTER = torch.tensor([0, 0, 1, 1])
ONES = torch.ones(4)


def cells(text: str, row: int = 0) -> list[str]:
    return text.splitlines()[2 + row].split()


def test_numbers_by_hand():
    # 3 rounds count: 2 of them inside, 1 across. Counts: 2 for the four pairs inside, 1 for four of the eight across
    graphs = {t: (CROSS if t in (1, 2, 6) else PAIRS, ONES) for t in range(1, 7)}
    area = roc_auc_score([1] * 4 + [0] * 8, [2] * 4 + [1] * 4 + [0] * 4)
    assert cells(peer_table({"dac": [graphs]}, CLUSTER, last=3)) == ["dac", "66.7", f"{area:.3f}", "1.00", "0.0"]


def test_a_third_of_the_rounds_by_default():
    graphs = {t: (PAIRS if t >= 3 else CROSS, ONES) for t in range(1, 5)}  # 2 of 4
    assert cells(peer_table({"dac": [graphs]}, CLUSTER))[1] == "100.0"


def test_mean_and_spread_over_runs():
    # 100 and 0 % have a mean of 50 and a standard deviation of 100 / sqrt(2); areas are 1 and, with 8 pairs across of
    # which 4 are ranked above all others, 4 of 8 beaten or tied: (0 + 4 / 2) / 8
    rand = adjusted_rand_score([0, 0, 1, 1], [0, 1, 0, 1])
    found = cells(peer_table({"dac": [{1: (PAIRS, ONES)}, {1: (CROSS, ONES)}]}, CLUSTER))
    assert found[1:7] == ["50.0", "±", "70.7", "0.625", "±", "0.530"]
    assert found[7] == f"{(1 + rand) / 2:.2f}"


def test_weight_zero_is_not_listening_and_whole_run_counts_for_never_heard():
    weight = torch.tensor([0.0, 1.0, 1.0, 1.0])  # nobody listens to node 1 in the second round
    assert cells(peer_table({"dac": [{1: (PAIRS, ONES), 2: (PAIRS, weight)}]}, CLUSTER, last=1))[-1] == "0.0"
    assert cells(peer_table({"dac": [{1: (PAIRS, weight), 2: (PAIRS, weight)}]}, CLUSTER, last=1))[-1] == "1.0"


def test_nodes_alone_have_no_values():
    nothing = torch.empty(2, 0, dtype=torch.int64), torch.empty(0)
    text = peer_table({"none": [{1: nothing}], "oracle": [{1: (PAIRS, ONES)}]}, CLUSTER)
    assert text.splitlines()[2].split() == ["none", "–", "–", "–", "–"]


def test_bad_input():
    for runs in ({}, {"dac": []}):
        with raises("too-few", "graphs"):
            peer_table(runs, CLUSTER)
    with raises("value", "last"):
        peer_table({"dac": [{1: (PAIRS, ONES)}]}, CLUSTER, 0)
