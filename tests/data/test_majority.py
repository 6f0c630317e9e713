from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

from graphcollab.data.partition import majority_tasks
from graphcollab.data.partition.class_counts import majority_counts
from tests.raising import raises


@pytest.mark.parametrize(
    ("size", "majority", "p", "expected"),
    [
        (1000, [0], 0.7, [700] + 3 * [34] + 6 * [33]),  # 300 / 9 = 33, and 3 over for the smallest labels
        (300, [0, 1, 2], 0.7, [70] * 3 + [13] * 6 + [12]),
        (1000, [8, 9], 0.6, [50] * 8 + [300] * 2),
        (1000, [1, 3, 5, 7, 9], 0.5, [100] * 10),
        (300, [0, 1, 2, 3, 4], 0.45, [27] * 5 + [33] * 5),
        (7, [9], 0.5, [1, 1, 1, 0, 0, 0, 0, 0, 0, 4]),
        (12, list(range(10)), 1, [2, 2] + [1] * 8),
    ],
)
def test_counts(size, majority, p, expected):
    assert majority_counts(size, majority, p) == expected


@given(st.integers(0, 500), st.sets(st.integers(0, 9), min_size=1, max_size=9), st.floats(0, 1))
def test_counts_add_up(size, majority, p):
    counts = majority_counts(size, sorted(majority), p)
    assert sum(counts) == size
    assert abs(sum(counts[c] for c in majority) - size * p) <= 0.5 + 1e-9
    for group in (majority, set(range(10)) - majority):
        assert max(counts[c] for c in group) - min(counts[c] for c in group) <= 1


def test_majority_tasks(numbered):
    data = numbered(10, 100, tests=40)
    majorities, sizes = [[0, 1], [5], [1, 0], [5]], [100, 50, 40, 10]
    tasks = majority_tasks(data, majorities, p=0.6, train=sizes, val=20, test=30)
    assert tasks.cluster.tolist() == [0, 1, 0, 1]
    assert tasks.names[3] == "cluster 1, node 3"
    for split, targets in (("train", data.train.targets), ("val", data.train.targets), ("test", data.test.targets)):
        for node, majority in enumerate(majorities):
            size = {"train": sizes[node], "val": 20, "test": 30}[split]
            index = tasks.splits[split].of(node)
            assert len(index.unique()) == size
            assert targets[index].bincount(minlength=10).tolist() == majority_counts(size, majority, 0.6)
    used = torch.cat([tasks.splits["train"].index, tasks.splits["val"].index])
    assert len(used.unique()) == len(used) == 200 + 80


def test_what_a_node_gets_does_not_depend_on_those_behind(numbered):
    data = numbered(10, 100, tests=20)
    few = majority_tasks(data, [[0], [1]], train=50, val=10, test=10)
    many = majority_tasks(data, [[0], [1], [0], [2]], train=50, val=10, test=10)
    for split in ("train", "val", "test"):
        for node in range(2):
            assert torch.equal(few.splits[split].of(node), many.splits[split].of(node))
    other = majority_tasks(data, [[0], [1]], train=50, val=10, test=10, seed=1)
    assert not torch.equal(few.splits["train"].index, other.splits["train"].index)


def test_setting_of_the_thesis(numbered):
    """Two majorities of two nodes each, 1000 training and 300 test samples, of Fashion-MNIST's 6000 per class."""
    data = numbered(10, 600, tests=100)
    groups = [[0, 1, 2, 3, 4]] * 2 + [[5, 6, 7, 8, 9]] * 2
    tasks = majority_tasks(data, groups, p=0.7, val=0)
    assert tasks.cluster.tolist() == [0, 0, 1, 1]
    assert "val" not in tasks.splits
    assert data.train.targets[tasks.splits["train"].of(0)].bincount().tolist() == [140] * 5 + [60] * 5
    assert data.test.targets[tasks.splits["test"].of(3)].bincount().tolist() == [18] * 5 + [42] * 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"train": 60}, ("too-few", "class 0", "50", "84")),
        ({"test": 20}, ("too-few", "class 0", "4", "14")),
        ({"majorities": [[0], [10]]}, ("range", "majority", "9", "10")),
        ({"majorities": [[0], []]}, ("range", "majority")),
        ({"majorities": [[0], [1, 1]]}, ("range", "majority")),
        ({"p": 1.2}, ("value", "p", "1.2")),
        ({"majorities": [list(range(10))]}, ("conflict", "p", "10", "0.7")),
        ({"train": [5]}, ("mismatch", "majority")),
        ({"majorities": []}, ("mismatch", "majority")),
        ({"train": [5, 0]}, ("value", "train")),
        ({"val": -1}, ("value", "val")),
    ],
)
def test_refusals(numbered, arguments, message):
    settings = {"majorities": [[0], [0]], "train": 10, "val": 0, "test": 4, **arguments}
    with raises(*message):
        majority_tasks(numbered(10, 50), **settings)
