from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from examples.benchmark._figures import similarity_by_cluster
from tests.raising import raises

# receiver 0 of cluster 0 has measured 1 and 2 (inside), 3 (outside) and itself; 3 of cluster 1 has measured 0
EDGES = torch.tensor([[1, 2, 3, 0, 0], [0, 0, 0, 0, 3]])
CLUSTER = torch.tensor([0, 0, 0, 1])


def test_by_hand() -> None:
    inside, between = similarity_by_cluster(
        {5: (EDGES, torch.tensor([0.5, 1.0, -0.25, 9.0, 0.125]))}, CLUSTER, (0.0, 0.5)
    )
    assert [band[0, 0].item() for band in inside] == [0.75, 0.5, 0.75]
    assert [band[0, 0].item() for band in between] == [-0.25] * 3
    assert inside[0][0, 1].isnan()
    assert between[0][0, 1] == 0.125


def test_quantiles_are_numpys() -> None:
    values = np.random.default_rng(0).normal(size=37)
    edges = torch.stack([torch.arange(1, 38), torch.zeros(37).long()])
    inside, _ = similarity_by_cluster({1: (edges, torch.from_numpy(values))}, torch.zeros(38))
    expected = [values.mean(), np.quantile(values, 0.1), np.quantile(values, 0.9)]
    assert [band.item() for band in inside] == pytest.approx(expected)


def test_all_receivers_together() -> None:
    inside, between = similarity_by_cluster(
        {1: (EDGES, torch.tensor([0.5, 1.0, 0.25, 9.0, 0.75]))}, CLUSTER, pooled=True
    )
    assert inside[0].tolist() == [[0.75]]
    assert between[0].tolist() == [[0.5]]


def test_what_is_not_finite_is_left_out_and_rounds_are_sorted() -> None:
    bad = torch.tensor([math.inf, 1.0, math.nan, 9.0, 0.125])
    inside, between = similarity_by_cluster({5: (EDGES, bad), 2: (EDGES, bad / 2)}, CLUSTER)
    assert inside[0][:, 0].tolist() == [0.5, 1.0]
    assert between[0][:, 0].isnan().all()


def test_nothing_measured() -> None:
    assert similarity_by_cluster({}, CLUSTER)[0].shape == (3, 0, 2)


def test_bad_inputs() -> None:
    with raises("range", "quantiles", "0.9"):
        similarity_by_cluster({}, CLUSTER, (0.9, 0.1))
    with raises("range", "edge_index"):
        similarity_by_cluster({2: (EDGES, torch.ones(5))}, CLUSTER[:3])
