from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from graphcollab.data.datasets import from_arrays
from graphcollab.data.partition import concept_shift, covariate_shift, label_shift, rotation_shift
from graphcollab.data.partition.shift import rotate
from tests.raising import raises


def inputs_of(tasks, split, node):
    """A node's inputs, in the order of its split."""
    own = tasks.splits[split]
    return tasks.pools[own.pool].inputs[own.of(node)]


def targets_of(tasks, split, node):
    own = tasks.splits[split]
    return tasks.pools[own.pool].targets[own.of(node)]


def used(tasks):
    """Sample numbers of all training and validation samples of a numbered dataset."""
    return torch.cat([inputs_of(tasks, split, k) for split in ("train", "val") for k in range(tasks.num_nodes)])


def test_label_shift(numbered):
    data = numbered(10, 50)
    tasks = label_shift(data, [(2, 3, 4, 5, 6, 7), (0, 1, 8, 9)], [6, 4], train=40, val=10)
    assert tasks.cluster.tolist() == [0] * 6 + [1] * 4
    assert tasks.names[0] == "cluster 0, node 0"
    assert tasks.names[6] == "cluster 1, node 6"
    assert tasks.sizes("train").tolist() == [40] * 10
    assert tasks.sizes("val").tolist() == [10] * 10
    assert sorted(used(tasks).flatten().tolist()) == list(range(500))  # 6 * 50 + 4 * 50 are all there are
    for node in range(10):
        own = {2, 3, 4, 5, 6, 7} if node < 6 else {0, 1, 8, 9}
        for split in ("train", "val"):
            assert set(targets_of(tasks, split, node).tolist()) <= own
        assert targets_of(tasks, "test", node).bincount(minlength=10).tolist() == [4 * (c in own) for c in range(10)]
    assert tasks.pools["train"].inputs is data.train.inputs
    assert tasks.pools["test"].inputs is data.test.inputs


@st.composite
def clusters(draw):
    """Groups of classes with nodes, and samples of a node such that the smallest group just suffices."""
    groups = draw(st.integers(1, 3))
    nodes = draw(st.lists(st.integers(1, 3), min_size=groups, max_size=groups))
    return groups, nodes, draw(st.integers(1, 3)), draw(st.integers(0, 2)), draw(st.integers(0, 99))


@given(clusters())
def test_samples_belong_to_one_node(setting):
    groups, nodes, train, val, seed = setting
    targets = torch.arange(30 * groups) % (2 * groups)
    inputs = torch.arange(30 * groups)[:, None].float()
    data = from_arrays(inputs, targets, inputs, targets)
    for tasks in (
        label_shift(data, [(2 * c, 2 * c + 1) for c in range(groups)], nodes, train, val, seed=seed),
        covariate_shift(data, [torch.clone] * groups, nodes, train, val, seed=seed),
    ):
        numbers = torch.cat([inputs_of(tasks, s, k) for s in tasks.splits if s != "test" for k in range(sum(nodes))])
        assert len(numbers.unique()) == len(numbers) == sum(nodes) * (train + val)
        assert tasks.cluster.bincount().tolist() == nodes
        assert ("val" in tasks.splits) == (val > 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda data, nodes, **kwargs: label_shift(data, [(0,), (1, 2)], nodes, 3, 2, **kwargs),
        lambda data, nodes, **kwargs: concept_shift([data, data], nodes, 3, 2, **kwargs),
    ],
)
def test_samples_depend_on_cluster_and_place_alone(numbered, make):
    data = numbered(3, 40, tests=9)
    few, many = make(data, [2, 3], test=2), make(data, [4, 5], test=2)
    for one, other in ((0, 0), (1, 1), (2, 4), (3, 5), (4, 6)):
        for split in ("train", "val"):
            assert torch.equal(inputs_of(few, split, one), inputs_of(many, split, other))
        # test samples of sources are numbered alike, so inputs tell them, too
        assert torch.equal(inputs_of(few, "test", one), inputs_of(many, "test", other))


def test_covariate_samples_depend_on_the_node_alone(numbered):
    data = numbered(2, 40)
    few, many = (covariate_shift(data, [torch.clone] * len(n), n, 3, 2) for n in ([2, 1], [2, 2, 3]))
    for node in range(3):
        assert torch.equal(inputs_of(few, "train", node), inputs_of(many, "train", node))
        assert torch.equal(inputs_of(few, "val", node), inputs_of(many, "val", node))


def test_determinism(numbered):
    data = numbered(4, 30)
    for make in (
        lambda seed: label_shift(data, [(0, 1), (2, 3)], [2, 2], 10, 2, 3, seed),
        lambda seed: covariate_shift(data, [torch.clone, torch.neg], [2, 2], 10, 2, 3, seed),
        lambda seed: concept_shift([data, data], [2, 2], 10, 2, 3, seed),
    ):
        one, two, other = (make(seed) for seed in (0, 0, 1))
        for split in ("train", "val", "test"):
            assert all(torch.equal(inputs_of(one, split, k), inputs_of(two, split, k)) for k in range(4))
            assert not all(torch.equal(inputs_of(one, split, k), inputs_of(other, split, k)) for k in range(4))


def test_a_number_of_test_samples(numbered):
    tasks = label_shift(numbered(4, 30, tests=5), [(0, 1), (2, 3)], [2, 1], 3, 1, test=7)
    assert tasks.sizes("test").tolist() == [7] * 3
    for node in range(3):
        assert len(inputs_of(tasks, "test", node).unique()) == 7
        assert set(targets_of(tasks, "test", node).tolist()) <= ({0, 1} if node < 2 else {2, 3})
    assert not torch.equal(inputs_of(tasks, "test", 0), inputs_of(tasks, "test", 1))


def test_splits_may_be_left_out(numbered):
    data = numbered(2, 10)
    for tasks in (
        label_shift(data, [(0,), (1,)], [1, 1], 5, val=0, test=0),
        covariate_shift(data, [torch.clone], [2], 5, val=0, test=0),
    ):
        assert list(tasks.splits) == list(tasks.pools) == ["train"]


def test_covariate_shift_transforms_what_is_dealt(numbered):
    data, seen = numbered(2, 20), []

    def shifted(values):
        seen.append(len(values))
        return values + 1000

    tasks = covariate_shift(data, [torch.clone, shifted], [2, 1], train=4, val=2)
    assert seen == [4, 2, 8]  # one node's training and validation samples, and all test samples once
    assert (inputs_of(tasks, "train", 1) < 1000).all()
    numbers = (inputs_of(tasks, "train", 2) - 1000).long().flatten()
    assert torch.equal(targets_of(tasks, "train", 2), numbers % 2)
    assert torch.equal(inputs_of(tasks, "test", 2), data.test.inputs + 1000)
    assert torch.equal(targets_of(tasks, "test", 2), data.test.targets)
    assert tasks.splits["test"].of(0).tolist() == tasks.splits["test"].of(1).tolist() == list(range(8))
    assert tasks.splits["test"].of(2).tolist() == list(range(8, 16))


def test_rotation_shift(images):
    data = images(60)
    tasks = rotation_shift(data, (0, 180, 10, 350), (3, 2, 1, 1), train=6, val=2, seed=3)
    assert tasks.cluster.tolist() == [0, 0, 0, 1, 1, 2, 3]
    unturned = covariate_shift(data, [torch.clone] * 4, (3, 2, 1, 1), train=6, val=2, seed=3)
    black = torch.stack([data.train.inputs[:, c].min() for c in range(2)]).view(2, 1, 1)
    for split in ("train", "val", "test"):
        for node in range(7):
            before, after = inputs_of(unturned, split, node), inputs_of(tasks, split, node)
            if node < 3:
                assert torch.equal(after, before)
            elif node < 5:
                assert torch.equal(after, torch.rot90(before, 2, (2, 3)))
            else:
                torch.testing.assert_close(after, rotate(before, 10 if node == 5 else -10, black))
            assert torch.equal(targets_of(tasks, split, node), targets_of(unturned, split, node))
    # corners that a rotation uncovers are black in both channels, not 0, which channel 1 never has
    assert inputs_of(tasks, "train", 5)[:, 1].min() >= 5 - 1e-5


def test_concept_shift(numbered):
    first, second = numbered(10, 12), numbered(10, 12)
    tasks = concept_shift([first, second], [2, 2], train=40, val=20)
    assert tasks.cluster.tolist() == [0, 0, 1, 1]
    targets = torch.cat([tasks.pools[s].targets for s in ("train", "val")])
    assert targets.bincount().tolist() == [12] * 20  # all samples of both sources
    for node in range(4):
        offset = 0 if node < 2 else 10
        for split in ("train", "val"):
            numbers = inputs_of(tasks, split, node).long().flatten()
            assert torch.equal(targets_of(tasks, split, node), numbers % 10 + offset)
        assert torch.equal(targets_of(tasks, "test", node), second.test.targets + offset)
    assert tasks.classes.shape == (4, 20)


def test_stated_numbers_of_classes_count(numbered):
    first = numbered(2, 10)
    tasks = concept_shift([replace(first, class_names=tuple("abcdefg")), numbered(2, 10)], [1, 1], 5, 1)
    assert set(tasks.pools["test"].targets.tolist()) == {0, 1, 7, 8}


def test_fields_of_tasks_are_passed_on(numbered):
    tasks = label_shift(numbered(2, 10), [(0,), (1,)], [1, 1], 3, 1, names=("a", "b"), metric="auc")
    assert (tasks.names, tasks.metric) == (("a", "b"), "auc")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda d, _: label_shift(d, [(0, 1), (2,)], [1, 3], 4, 2),
            ("too-few", "cluster 1 (classes 2)", "4", "18"),
        ),
        (lambda d, _: label_shift(d, [(0, 1), (1, 2)], [1, 1]), ("duplicate", "class 1")),
        (lambda d, _: label_shift(d, [(0, 1, 0)], [1]), ("duplicate", "class 0")),
        (lambda d, _: label_shift(d, [(0,), ()], [1, 1]), ("empty", "cluster 1")),
        (lambda d, _: label_shift(d, [(0,), (7,)], [1, 1], 2, 2), ("too-few", "class 7", "0")),
        (
            lambda d, _: label_shift(d, [(0,)], [1, 2]),
            ("mismatch", "nodes"),
        ),
        (lambda d, _: label_shift(d, [], []), ("empty", "nodes")),
        (
            lambda d, _: label_shift(d, [(0,), (1,)], [1, 0]),
            ("value", "nodes"),
        ),
        (lambda d, _: label_shift(d, [(0,)], [1], 0, 3), ("value", "train")),
        (lambda d, _: label_shift(d, [(0,)], [1], 3, -1), ("value", "val")),
        (
            lambda d, _: label_shift(d, [(0,)], [1], 3, 1, test=5),
            ("too-few", "cluster 0 (classes 0)", "4", "5"),
        ),
        (
            lambda d, _: covariate_shift(d, [torch.clone] * 2, [3, 4], 4, 2),
            ("too-few", "the dataset", "36", "7", "4"),
        ),
        (lambda d, _: covariate_shift(d, [torch.clone], [1, 1]), ("mismatch", "nodes")),
        (
            lambda d, _: covariate_shift(d, [torch.clone, torch.flatten], [1, 1], 4, 2),
            ("contract", "cluster 1", "4"),
        ),
        (lambda d, _: rotation_shift(d), ("shape", "inputs", "36")),
        (lambda d, _: concept_shift([d, d], [2, 9], 3, 2), ("too-few", "source 1", "36", "9")),
        (lambda d, i: concept_shift([d, i], [1, 1]), ("shape", "inputs", "5")),
        (
            lambda d, i: rotation_shift(i, (90, float("nan")), (1, 1), 3, 1),
            ("value", "angles", "90"),
        ),
    ],
)
def test_refusals(numbered, images, make, message):
    with raises(*message):
        make(numbered(3, 12), images(20))


def test_no_test_samples(numbered, images):
    with raises("too-few", "cluster 0 (classes 0)"):
        label_shift(numbered(2, 10, tests=0), [(0,)], [1], 3, 1)
    with raises("too-few", "cluster 0"):
        rotation_shift(images(20, tests=0), (10,), (1,), 3, 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda data, nodes: label_shift(data, [(0,), (1, 2)], nodes, None, 1),
        lambda data, nodes: covariate_shift(data, [torch.clone] * 2, nodes, None, 1),
        lambda data, nodes: concept_shift([data, data], nodes, None, 1),
    ],
)
def test_all_samples_are_dealt_out_where_no_number_is_given(numbered, make):
    data = numbered(3, 10)
    tasks = make(data, [2, 3])
    sizes = (tasks.sizes("train") + tasks.sizes("val")).tolist()
    assert sizes in ([5, 5, 7, 7, 6], [6] * 5, [15, 15, 10, 10, 10])
    assert tasks.sizes("val").tolist() == [1] * 5
    assert sorted(used(tasks).flatten().tolist()) == sorted([*range(30)] * (sum(sizes) // 30))
