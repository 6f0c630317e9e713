from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

from graphcollab import load_dataset
from graphcollab.data.datasets import from_arrays
from graphcollab.data.partition import permuted_labels
from graphcollab.data.partition.shift import label_permutations
from tests.raising import raises


def numbers_of(tasks, split, node):
    own = tasks.splits[split]
    return tasks.pools[own.pool].inputs[own.of(node)].flatten().long()


def targets_of(tasks, split, node):
    own = tasks.splits[split]
    return tasks.pools[own.pool].targets[own.of(node)]


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 99))
def test_no_class_has_a_label_twice(classes, clusters, seed):
    clusters = min(classes, clusters)
    labels = label_permutations(classes, clusters, seed=seed)
    assert labels.shape == (clusters, classes)
    assert all(sorted(row) == list(range(classes)) for row in labels.tolist())
    assert all(len(set(column)) == clusters for column in labels.T.tolist())
    assert torch.equal(labels[:1], label_permutations(classes, 1, seed=seed))  # others behind it change nothing


def test_every_label_is_as_likely():
    drawn = torch.stack([label_permutations(4, 2, seed=seed) for seed in range(600)])
    for cluster in range(2):
        for c in range(4):
            # 150 of each expected, with a standard deviation of 10.6
            assert (drawn[:, cluster, c].bincount(minlength=4) - 150).abs().max() < 50


def test_by_hand(numbered):
    data = numbered(3, 4, tests=2)  # sample n is of class n mod 3
    tasks, labels = permuted_labels(data, (1, 3), val=1), label_permutations(3, 2)
    assert tasks.cluster.tolist() == [0, 1, 1, 1]
    assert tasks.names[3] == "cluster 1, node 3"
    assert tasks.sizes("train").tolist() == [11, 3, 3, 3]
    assert tasks.sizes("val").tolist() == [1, 1, 1, 1]
    for nodes in ((0,), (1, 2, 3)):
        assert sorted(torch.cat([numbers_of(tasks, s, k) for k in nodes for s in ("train", "val")]).tolist()) == list(
            range(12)
        )
    for node in range(4):
        for split in ("train", "val", "test"):
            assert targets_of(tasks, split, node).tolist() == [
                int(labels[min(node, 1), n % 3]) for n in numbers_of(tasks, split, node).tolist()
            ]
        assert numbers_of(tasks, "test", node).tolist() == [0, 1, 2, 3, 4, 5]
    assert len(tasks.pools["test"]) == 12  # once per cluster, shared by its nodes


@st.composite
def settings(draw):
    nodes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    return nodes, draw(st.integers(0, 3)), draw(st.floats(0.5, 1)), draw(st.integers(0, 99))


@given(settings())
def test_every_cluster_has_every_sample_once(setting):
    nodes, val, fraction, seed = setting
    x, y = torch.arange(61.0)[:, None], torch.arange(61) % 5
    data = from_arrays(x, y, x[:9], y[:9])
    tasks = permuted_labels(data, nodes, val=val, fraction=fraction, seed=seed)
    labels = label_permutations(5, len(nodes), seed=seed)
    seen = []
    for c in range(len(nodes)):
        own = (tasks.cluster == c).nonzero().flatten().tolist()
        sizes = [int(tasks.sizes("train")[k] + tasks.sizes("val")[k]) for k in own]
        assert len(own) == nodes[c]
        assert max(sizes) - min(sizes) <= 1
        splits = [s for s in ("train", "val") if s in tasks.splits]
        numbers = torch.cat([numbers_of(tasks, s, k) for k in own for s in splits])
        assert len(numbers) == len(numbers.unique()) == round(61 * fraction)
        seen.append(set(numbers.tolist()))
        for split in (*splits, "test"):
            for k in own:
                assert torch.equal(targets_of(tasks, split, k), labels[c, numbers_of(tasks, split, k) % 5])
    assert all(numbers == seen[0] for numbers in seen)
    assert tasks.sizes("val").tolist() == [val] * sum(nodes)


def test_a_smaller_fraction_is_part_of_a_larger(numbered):
    data = numbered(4, 50)
    few, many = ({*numbers_of(permuted_labels(data, (1,), val=0, fraction=f), "train", 0).tolist()} for f in (0.1, 0.6))
    assert (len(few), len(many)) == (20, 120)
    assert few < many


def test_fixed_numbers_of_samples(numbered):
    data = numbered(4, 30, tests=5)
    few, many = (permuted_labels(data, nodes, train=8, val=2, test=7) for nodes in ((2, 1), (3, 2, 4)))
    assert few.sizes("train").tolist() == [8] * 3
    assert few.sizes("val").tolist() == [2] * 3
    assert few.sizes("test").tolist() == [7] * 3
    for one, other in ((0, 0), (1, 1), (2, 3)):  # what a node gets depends on its cluster and place alone
        for split in ("train", "val", "test"):
            assert torch.equal(numbers_of(few, split, one), numbers_of(many, split, other))
            assert torch.equal(targets_of(few, split, one), targets_of(many, split, other))
    assert not torch.equal(numbers_of(few, "train", 0), numbers_of(few, "train", 2))  # split anew in every cluster
    assert not torch.equal(numbers_of(few, "test", 0), numbers_of(few, "test", 1))


def test_determinism(numbered):
    one, two, other = (permuted_labels(numbered(4, 30), (2, 2), val=2, seed=seed) for seed in (0, 0, 1))
    for split in ("train", "val"):
        assert all(torch.equal(numbers_of(one, split, k), numbers_of(two, split, k)) for k in range(4))
        assert all(torch.equal(targets_of(one, split, k), targets_of(two, split, k)) for k in range(4))
        assert not all(torch.equal(numbers_of(one, split, k), numbers_of(other, split, k)) for k in range(4))
    assert not torch.equal(one.pools["test"].targets, other.pools["test"].targets)


def test_splits_may_be_left_out_and_fields_are_passed_on(numbered):
    tasks = permuted_labels(numbered(2, 5), (1, 1), val=0, test=0, names=("a", "b"), metric="auc")
    assert list(tasks.splits) == list(tasks.pools) == ["train"]
    assert (tasks.names, tasks.metric) == (("a", "b"), "auc")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda d: permuted_labels(d, (2, 2, 2, 2), val=0),
            ("too-many", "clusters", "4"),
        ),
        (
            lambda d: permuted_labels(d, (2, 5), val=7),
            ("too-few", "cluster 1", "36", "5", "7"),
        ),
        (
            lambda d: permuted_labels(d, (3,), train=12, val=1),
            ("too-few", "cluster 0", "36", "39"),
        ),
        (
            lambda d: permuted_labels(d, (2,), val=0, fraction=0.03),
            ("too-few", "cluster 0"),
        ),
        (lambda d: permuted_labels(d, fraction=0.0), ("value", "fraction", "0.0")),
        (lambda d: permuted_labels(d, fraction=1.5), ("value", "fraction", "1.5")),
        (lambda d: permuted_labels(d, (), val=0), ("empty", "nodes")),
        (
            lambda d: permuted_labels(d, (1, 0), val=0),
            ("value", "nodes"),
        ),
        (
            lambda d: permuted_labels(d, (1,), train=0, val=0),
            ("value", "train"),
        ),
        (lambda d: permuted_labels(d, (1,), val=-1), ("value", "val")),
        (lambda d: permuted_labels(d, (1,), val=0, test=99), ("too-few", "cluster 0", "99")),
    ],
)
def test_refusals(numbered, make, message):
    with raises(*message):
        make(numbered(3, 12))


def test_fashion_mnist(data_root):
    data = load_dataset("fashion_mnist", data_root)
    tasks = permuted_labels(data, fraction=0.2, val=100)
    assert tasks.num_nodes == 8
    assert tasks.sizes("train").tolist() == [5900] * 8
    assert tasks.sizes("test").tolist() == [10000] * 8
    counts = [targets_of(tasks, "test", k).bincount().tolist() for k in range(8)]
    assert counts == [[1000] * 10] * 8
    labels = label_permutations(10, 4)
    for k in (0, 3, 7):
        assert torch.equal(targets_of(tasks, "test", k), labels[k // 2, data.test.targets])
