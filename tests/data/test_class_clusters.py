from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, strategies as st

from graphcollab import load_dataset
from graphcollab.data.datasets import from_arrays
from graphcollab.data.partition import class_clusters
from graphcollab.data.partition.class_counts import class_windows
from tests.raising import raises


def counts_of(tasks, split, targets, node):
    return targets[tasks.splits[split].of(node)].bincount(minlength=10).tolist()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((10, 2, 0), [range(5), range(5, 10)]),
        ((10, 2, 4), [range(7), range(3, 10)]),  # the authors' configuration
        ((10, 2, 2), [range(6), range(4, 10)]),  # the figure in the appendix
        ((10, 4, 2), [range(4), range(2, 6), range(4, 8), range(6, 10)]),
        ((7, 3, 0), [range(3), range(3, 5), range(5, 7)]),
        ((5, 1, 4), [range(5)]),
    ],
)
def test_windows(arguments, expected):
    assert class_windows(*arguments) == expected


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 20))
def test_windows_cover_all_classes_and_neighbors_share_the_overlap(clusters, overlap, more):
    classes = clusters + overlap + more
    windows = class_windows(classes, clusters, overlap)
    assert set().union(*windows) == set(range(classes))
    assert all(len(set(a) & set(b)) == overlap for a, b in pairwise(windows))
    assert max(map(len, windows)) - min(map(len, windows)) <= 1


@pytest.mark.parametrize(("overlap", "groups"), [(0, (range(5), range(5, 10))), (4, (range(7), range(3, 10)))])
def test_the_paper_with_twenty_nodes(numbered, overlap, groups):
    """3,000 samples of a class are for 10 nodes; those of the 4 classes in common are for all 20."""
    data = numbered(10, 6000, tests=100)
    tasks = class_clusters(data, overlap=overlap)
    assert tasks.cluster.tolist() == [0] * 10 + [1] * 10
    assert tasks.names[19] == "cluster 1, node 19"
    assert "val" not in tasks.splits
    for node in range(20):
        group = groups[node // 10]
        assert tasks.classes[node].nonzero().flatten().tolist() == list(group)
        assert counts_of(tasks, "train", data.train.targets, node) == [300 * (c in group) for c in range(10)]
        assert counts_of(tasks, "test", data.test.targets, node) == [15 * (c in group) for c in range(10)]
        assert len(tasks.splits["test"].of(node).unique()) == 15 * len(group)
    index = tasks.splits["train"].index
    assert len(index.unique()) == len(index) == 20 * 300 * len(groups[0])


@pytest.mark.parametrize(("overlap", "groups"), [(0, (range(5), range(5, 10))), (4, (range(7), range(3, 10)))])
def test_drawn_numbers(numbered, overlap, groups):
    data = numbered(10, 6000, tests=20)
    tasks = class_clusters(data, nodes=10, per_class=(100, 300), overlap=overlap)
    assert tasks.cluster.tolist() == [0] * 5 + [1] * 5
    found = torch.tensor([counts_of(tasks, "train", data.train.targets, node) for node in range(10)])
    has = torch.tensor([[c in groups[node // 5] for c in range(10)] for node in range(10)])
    assert (found[~has] == 0).all()
    drawn = found[has]
    assert 100 <= drawn.min() < 120
    assert 280 < drawn.max() < 300
    assert abs(drawn.double().mean() - 199.5) < 4 * 57.7 / len(drawn) ** 0.5
    assert len(set(found[0, has[0]].tolist())) > 2  # a number of its own for every class
    assert len({tuple(row) for row in found.tolist()}) == 10  # and node


@given(
    st.booleans(),
    st.integers(1, 3),
    st.integers(0, 5),
    st.integers(1, 6),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(0, 3),
    st.integers(0, 99),
)
def test_nobody_has_anothers_samples(same, clusters, more, low, overlap, val, test, seed):
    val, nodes = min(val, low - 1), clusters + more
    targets = torch.arange(9 * 80) % 9 + 1  # no sample of class 0
    data = from_arrays(targets[:, None].float(), targets, targets[:36, None].float(), targets[:36])
    per_class = low if same else (low, low + 4)
    tasks = class_clusters(data, nodes, clusters, per_class, overlap, val, test, seed)
    windows = class_windows(9, clusters, overlap)
    sizes = tasks.cluster.bincount()
    assert len(sizes) == clusters
    assert sizes.max() - sizes.min() <= 1
    assert tasks.cluster.equal(tasks.cluster.sort().values)
    every = torch.cat([tasks.splits[s].index for s in ("train", "val") if s in tasks.splits])
    assert len(every.unique()) == len(every)
    for node in range(nodes):
        window = [c + 1 for c in windows[int(tasks.cluster[node])]]
        own, held, judged = (
            targets[tasks.splits[s].of(node)].bincount(minlength=10).tolist() if s in tasks.splits else [0] * 10
            for s in ("train", "val", "test")
        )
        assert held == [val * (c in window) for c in range(10)]
        assert judged == [test * (c in window) for c in range(10)]
        allowed = range(low, low + 1 if same else low + 4)
        assert all(own[c] + held[c] in allowed if c in window else own[c] == 0 for c in range(10))


def test_a_seed_says_everything(numbered):
    data = numbered(10, 900, tests=60)
    one, two, other = (class_clusters(data, 6, 2, (10, 60), 4, val=3, seed=seed) for seed in (5, 5, 6))
    for split in ("train", "val", "test"):
        assert torch.equal(one.splits[split].index, two.splits[split].index)
        assert torch.equal(one.splits[split].ptr, two.splits[split].ptr)
        assert not torch.equal(one.splits[split].index, other.splits[split].index)
    assert not torch.equal(one.sizes("train"), other.sizes("train"))


def test_a_nodes_samples_do_not_depend_on_names_or_on_nodes_behind_it(numbered):
    data = numbered(10, 900, tests=60)
    tasks = class_clusters(data, nodes=4, per_class=20, overlap=4, val=5)
    named = class_clusters(data, nodes=4, per_class=20, overlap=4, val=5, node_id=torch.tensor([7, 5, 3, 1]))
    more = class_clusters(data, nodes=5, per_class=20, overlap=4, val=5)  # the first three are of cluster 0
    for split in ("train", "val", "test"):
        assert torch.equal(tasks.splits[split].index, named.splits[split].index)
        for node in range(2):
            assert torch.equal(tasks.splits[split].of(node), more.splits[split].of(node))


def test_relabeled_data_are_dealt_alike(numbered):
    """Classes stand in order whatever their labels are: 0 … 9 or 10, 12, … 28."""
    data = numbered(10, 100, tests=20)
    train, test = ((pool.inputs, 2 * pool.targets + 10) for pool in (data.train, data.test))
    spread = from_arrays(*train, *test)
    one, two = (class_clusters(d, nodes=4, per_class=10, overlap=4) for d in (data, spread))
    assert torch.equal(one.splits["train"].index, two.splits["train"].index)
    assert torch.equal(one.classes, two.classes[:, 10::2])


def test_the_embedded_digits():
    data = load_dataset("digits")
    tasks = class_clusters(data, per_class=(4, 7), overlap=4, val=1, test=10)
    assert tasks.num_nodes == 20
    assert tasks.sizes("test").tolist() == [70] * 20
    assert tasks.sizes("val").tolist() == [7] * 20
    assert tasks.pools["train"].inputs is data.train.inputs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {},
            ("too-few", "class 0", "50", "10", "3000"),
        ),
        ({"per_class": 5, "test": 5}, ("too-few", "class 0", "4", "5")),
        ({"per_class": None}, ("value", "per_class")),
        ({"per_class": 0}, ("value", "per_class")),
        ({"per_class": (4, 4)}, ("value", "per_class", "4")),
        (
            {"per_class": (3, 9), "val": 3},
            ("too-few", "val"),
        ),
        ({"nodes": 3, "clusters": 4}, ("range", "nodes", "4")),
        ({"clusters": 0}, ("value", "clusters")),
        ({"val": -1}, ("value", "val")),
        ({"overlap": -1}, ("value", "overlap")),
        (
            {"overlap": 9},
            ("too-few", "clusters", "9", "11", "10"),
        ),
    ],
)
def test_refusals(numbered, arguments, message):
    with raises(*message):
        class_clusters(numbered(10, 50), **arguments)
