from __future__ import annotations

import math

import pytest
import torch

from examples.benchmark._figures import weight_by_overlap
from graphcollab.analysis.metrics import in_cluster_share, recovery_auc
from tests.raising import raises


def complete(count: int, loops: bool = True) -> torch.Tensor:
    pairs = [(j, i) for i in range(count) for j in range(count) if loops or i != j]
    return torch.tensor(pairs).t()


CLUSTER = torch.tensor([0, 0, 1, 1, 1])


def test_perfect_inverted_and_uniform_weights() -> None:
    edge_index = complete(5)
    same = (CLUSTER[edge_index[0]] == CLUSTER[edge_index[1]]).float()
    assert recovery_auc(edge_index, same, CLUSTER) == 1.0
    assert recovery_auc(edge_index, -same, CLUSTER) == 0.0
    assert recovery_auc(edge_index, torch.ones(25), CLUSTER) == 0.5
    assert in_cluster_share(edge_index, same, CLUSTER) == 1.0
    assert in_cluster_share(edge_index, torch.ones(25), CLUSTER) == pytest.approx((2 * 0.4 + 3 * 0.6) / 5)


def test_self_loops_do_not_help_the_area() -> None:
    edge_index = complete(5)
    loops = (edge_index[0] == edge_index[1]).float()
    assert recovery_auc(edge_index, loops, CLUSTER) == 0.5


def test_missing_edges_score_zero() -> None:
    edge_index, edge_weight = torch.tensor([[1, 2, 3], [0, 0, 2]]), torch.tensor([0.5, 0.6, 0.7])
    # 8 ordered pairs are of the same cluster: .5, .7 and six without edges; 12 are not: .6 and eleven without.
    wins = 11 + 12 + 6 * 11 / 2
    assert recovery_auc(edge_index, edge_weight, CLUSTER) == pytest.approx(wins / (8 * 12))


def test_direction_matters() -> None:
    # 0 listens to 1 (same cluster) and 2 (another); the weight of a receiver counts, not that of a sender.
    edge_index = torch.tensor([[1, 2], [0, 0]])
    cluster = torch.tensor([0, 0, 1])
    assert in_cluster_share(edge_index, torch.tensor([0.9, 0.1]), cluster) == pytest.approx(0.9)
    assert in_cluster_share(edge_index.flip(0), torch.tensor([0.9, 0.1]), cluster) == 0.5


def test_undefined_values_are_nan() -> None:
    edge_index = complete(3)
    assert math.isnan(recovery_auc(edge_index, torch.ones(9), torch.zeros(3)))
    assert math.isnan(recovery_auc(edge_index, torch.ones(9), torch.arange(3)))
    assert math.isnan(recovery_auc(edge_index[:, :0], torch.ones(0), torch.zeros(3)))
    assert math.isnan(in_cluster_share(edge_index, torch.zeros(9), torch.zeros(3)))


def test_weights_grouped_by_shared_classes() -> None:
    classes = torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]]).bool()
    edge_index = torch.tensor([[0, 1, 2, 0, 3, 2], [0, 0, 0, 1, 2, 1]])
    edge_weight = torch.tensor([9.0, 0.6, 0.4, 0.2, 0.3, 0.8])
    overlap, mean, std, pairs = weight_by_overlap(edge_index, edge_weight, classes)
    assert overlap.tolist() == [0, 1, 2]
    assert pairs.tolist() == [6, 4, 2]
    # overlap 1: 2->0 .4, 2->1 .8, 0->2 and 1->2 absent; overlap 2: 1->0 .6, 0->1 .2; overlap 0: 3->2 .3, five absent
    assert mean.tolist() == pytest.approx([0.05, 0.3, 0.4])
    assert std.tolist() == pytest.approx([math.sqrt(0.015 - 0.0025), math.sqrt(0.2 - 0.09), 0.2])


def test_weights_that_need_a_gradient() -> None:
    weight = torch.ones(9, requires_grad=True)
    cluster = torch.tensor([0, 0, 1])
    assert recovery_auc(complete(3), weight, cluster) == 0.5
    assert in_cluster_share(complete(3), weight, cluster) == pytest.approx(5 / 9)
    assert not weight_by_overlap(complete(3), weight, torch.eye(3).bool())[1].requires_grad


def test_bad_inputs() -> None:
    edge_index, weight, cluster = torch.tensor([[1, 2], [0, 0]]), torch.ones(2), torch.tensor([0, 0, 1])
    with raises("shape", "edge_weight"):
        recovery_auc(edge_index, torch.ones(3), cluster)
    with raises("range", "edge_index"):
        in_cluster_share(edge_index, weight, cluster[:2])
    with raises("duplicate", "edge_index"):
        recovery_auc(torch.tensor([[1, 1], [0, 0]]), weight, cluster)
    with raises("range", "edge_weight"):
        in_cluster_share(edge_index, torch.tensor([1.0, -1.0]), cluster)
    with raises("not-finite", "edge_weight"):
        recovery_auc(edge_index, torch.tensor([1.0, float("nan")]), cluster)
    with raises("shape", "classes"):
        weight_by_overlap(edge_index, weight, cluster)
