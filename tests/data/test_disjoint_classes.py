from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from graphcollab import load_dataset
from graphcollab.data.datasets import from_arrays
from graphcollab.data.datasets.labeled_arrays import join_datasets
from graphcollab.data.partition import disjoint_classes, label_shift
from tests.raising import raises


def index_of(tasks, node, splits=("train", "val")):
    return torch.cat([tasks.splits[s].of(node) for s in splits if s in tasks.splits])


def test_all_samples_of_a_cluster_are_dealt_to_its_nodes(numbered):
    data = numbered(20, 50)
    tasks = disjoint_classes(data, val=2)
    sizes = (6, 6, 7, 7, 8, 8, 9, 9, 10, 10)
    assert tasks.cluster.bincount().tolist() == list(sizes)
    assert tasks.num_nodes == 80
    groups = []
    for c, many in enumerate(sizes):
        own = (tasks.cluster == c).nonzero().flatten().tolist()
        index = torch.cat([index_of(tasks, k) for k in own])
        assert len(index) == len(index.unique()) == 100
        classes = set(data.train.targets[index].tolist())
        assert len(classes) == 2
        groups.append(classes)
        shares = [int(tasks.sizes("train")[k]) + 2 for k in own]
        assert shares == sorted([100 // many + (m < 100 % many) for m in range(many)], reverse=True)
        for k in own:
            assert set(data.test.targets[tasks.splits["test"].of(k)].tolist()) == classes
            assert tasks.sizes("test")[k] == 8
    assert set().union(*groups) == set(range(20))
    assert tasks.pools["train"].inputs is data.train.inputs


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 2), st.integers(0, 99))
def test_classes_and_samples_are_disjoint(nodes, val, seed):
    x, y = torch.zeros(108, 1), torch.arange(108) % 9
    data = from_arrays(x, y, x, y)
    tasks = disjoint_classes(data, nodes, val=val, seed=seed)
    each = 9 // len(nodes)
    assert tasks.classes.sum(1).le(each).all()
    index = torch.cat([index_of(tasks, k) for k in range(tasks.num_nodes)])
    assert len(index) == len(index.unique()) == 12 * each * len(nodes)
    owners = [{int(c) for c in tasks.cluster[tasks.classes[:, label]]} for label in range(tasks.classes.shape[1])]
    assert all(len(clusters) <= 1 for clusters in owners)


def test_it_is_a_label_shift_with_drawn_classes(numbered):
    data = numbered(9, 40, tests=6)
    tasks = disjoint_classes(data, (2, 3), train=10, val=3, test=5, seed=4)
    groups = [tasks.classes[tasks.cluster == c].any(0).nonzero().flatten().tolist() for c in range(2)]
    assert [len(group) for group in groups] == [4, 4]  # 9 // 2; one class is left out
    same = label_shift(data, groups, (2, 3), train=10, val=3, test=5, seed=4)
    for split in ("train", "val", "test"):
        assert torch.equal(tasks.splits[split].index, same.splits[split].index)


def test_determinism_and_random_classes(numbered):
    data = numbered(10, 12)
    one, two, *others = (disjoint_classes(data, (1, 1), val=1, seed=seed) for seed in (0, 0, 1, 2, 3))
    assert torch.equal(one.splits["train"].index, two.splits["train"].index)
    assert torch.equal(one.splits["val"].index, two.splits["val"].index)
    assert len({tuple(map(tuple, tasks.classes.tolist())) for tasks in (one, *others)}) > 2


def test_classes_that_do_not_occur_are_not_drawn(numbered):
    data = numbered(6, 10)
    kept = data.train.targets % 2 == 1
    odd = replace(data, train=data.train.take(kept.nonzero().flatten()))
    tasks = disjoint_classes(odd, (1, 1, 1), val=0)
    assert sorted(tasks.classes.int().argmax(1).tolist()) == [1, 3, 5]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda d: disjoint_classes(d),
            ("too-few", "classes", "10"),
        ),
        (
            lambda d: disjoint_classes(d, (2, 5)),
            ("too-few", "cluster 0 (classes 0)", "100", "202"),
        ),
        (
            lambda d: disjoint_classes(d, (1, 0), val=0),
            ("value", "nodes"),
        ),
        (lambda d: disjoint_classes(d, (), val=0), ("empty", "nodes")),
        (lambda d: disjoint_classes(d, (1, 1), train=13, val=0), ("too-few", "cluster 0 (classes 0)", "13")),
    ],
)
def test_refusals(numbered, make, message):
    with raises(*message):
        make(numbered(3, 12))


def test_two_datasets_of_ten_classes_make_ten_clusters(data_root):
    joined = join_datasets([load_dataset(name, data_root) for name in ("mnist", "fashion_mnist")])
    assert joined.num_classes == 20
    tasks = disjoint_classes(joined, val=100)
    assert tasks.num_nodes == 80
    assert tasks.classes.sum(1).tolist() == [2] * 80
    assert tasks.sizes("train").sum() + tasks.sizes("val").sum() == 120_000
    first, last = tasks.sizes("train")[0], tasks.sizes("train")[79]
    assert first > last  # the smaller cluster's nodes have more
