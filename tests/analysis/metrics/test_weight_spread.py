from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from graphcollab.analysis.metrics.weight_spread import weight_agreement, weight_spread
from tests.raising import raises

NAN = math.nan


def test_own_weight_entropy_evenness_and_largest_by_hand() -> None:
    # node 0: 1/2 itself, 1/4 each other; node 1: equal thirds; node 2: all itself; node 3 is alone
    edges = torch.tensor([[0, 1, 2, 1, 0, 2, 2, 0, 1, 3], [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]])
    weight = torch.tensor([0.5, 0.25, 0.25, 1 / 3, 1 / 3, 1 / 3, 1.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    found = weight_spread(edges, weight, 4)
    assert found.neighbors.tolist() == [2, 2, 2, 0]
    assert found.own.tolist() == pytest.approx([0.5, 1 / 3, 1, NAN], nan_ok=True)
    # (1/2 log 2 + 2 · 1/4 log 4) / log 3 = 1.5 log 2 / log 3
    assert found.entropy.tolist() == pytest.approx([0.9463946303571861, 1, 0, NAN], nan_ok=True)
    assert found.evenness.tolist() == pytest.approx([1, 1, NAN, NAN], nan_ok=True)
    assert found.largest.tolist() == pytest.approx([0.25, 1 / 3, 0, NAN], nan_ok=True)


def test_evenness_is_of_the_others_alone() -> None:
    edges = torch.tensor([[0, 1, 2], [0, 0, 0]])
    found = weight_spread(edges, torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64), 3)
    # 3/4 and 1/4: (3/4 log 4/3 + 1/4 log 4) / log 2
    assert found.evenness[0].item() == pytest.approx(0.8112781244591328)
    assert found.own[0].item() == pytest.approx(0.6)


def test_without_self_loops_the_own_model_has_what_is_left() -> None:
    edges = torch.tensor([[1, 2, 0, 2, 0, 1, 0], [0, 0, 1, 1, 2, 2, 3]])
    # 0.2 + 0.2 leave 0.6; a pull by weights 1 and 1 leaves nothing; an average leaves nothing; nobody weighs anything
    weight = torch.tensor([0.2, 0.2, 1.0, 1.0, 0.5, 0.5, 0.0], dtype=torch.float64)
    found = weight_spread(edges, weight, 4)
    assert found.own.tolist() == pytest.approx([0.6, 0, 0, 1])
    # (0.6 log 1/0.6 + 2 · 0.2 log 5) / log 3, then two equal weights of two senders, then all on the own model
    assert found.entropy.tolist() == pytest.approx([0.8649735207179271, 1, 1, 0])


def test_one_sender_alone_has_no_spread() -> None:
    found = weight_spread(torch.tensor([[1], [0]]), torch.tensor([1.0]), 2)
    assert found.own.tolist()[0] == 0
    assert bool(found.entropy.isnan().all())


def test_what_is_not_a_graph_is_refused() -> None:
    with raises("not-finite", "edge_weight"):
        weight_spread(torch.tensor([[1], [0]]), torch.tensor([NAN]), 2)
    with raises("range", "edge_index"):
        weight_spread(torch.tensor([[1], [0]]), torch.tensor([1.0]), 1)


def test_agreement_is_the_mean_correlation_of_what_different_nodes_give_each_other() -> None:
    draw = np.random.default_rng(0)
    weights = draw.random((3, 4, 4))
    rows = [one[~np.eye(4, dtype=bool)] for one in weights]
    expected = np.mean([np.corrcoef(rows[a], rows[b])[0, 1] for a, b in ((0, 1), (0, 2), (1, 2))])
    assert weight_agreement(torch.from_numpy(weights)) == pytest.approx(expected)
    weights[:, range(4), range(4)] = np.nan
    assert weight_agreement(torch.from_numpy(weights)) == pytest.approx(expected)
    assert math.isnan(weight_agreement(torch.full((3, 4, 4), 0.25)))
    assert math.isnan(weight_agreement(torch.rand(3, 2, 2)))
