from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

from graphcollab.data.datasets import from_arrays
from graphcollab.data.partition import grouped_tasks, shard_tasks
from graphcollab.data.partition.partition import class_shards
from tests.raising import raises


def dataset(classes, per_class, tests=2):
    """Inputs are sample numbers, so that every sample can be told."""
    train, test = torch.arange(classes * per_class), torch.arange(classes * tests)
    return from_arrays(train[:, None].float(), train % classes, test[:, None].float(), test % classes)


@st.composite
def settings_of_figure_2(draw):
    classes_per_node, groups = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    shards = draw(st.integers(1, 4))
    return classes_per_node * groups, shards, classes_per_node, draw(st.integers(shards, 9)), draw(st.integers(0, 99))


@given(settings_of_figure_2())
def test_figure_2(setting):
    """K = M P / N nodes with N classes each; every sample belongs to exactly one node."""
    classes, shards, classes_per_node, per_class, seed = setting
    data = dataset(classes, per_class)
    tasks = shard_tasks(data, shards, classes_per_node, seed, val_fraction=0)
    assert tasks.num_nodes == classes * shards // classes_per_node
    assert tasks.classes.sum(1).tolist() == [classes_per_node] * tasks.num_nodes
    assert tasks.classes.sum(0).tolist() == [shards] * classes
    assert sorted(tasks.splits["train"].index.tolist()) == list(range(classes * per_class))
    for node in range(tasks.num_nodes):
        tested = data.test.targets[tasks.splits["test"].of(node)]
        own = tasks.classes[node].nonzero().flatten()
        assert tested.bincount(minlength=classes)[own].tolist() == [2] * classes_per_node
        assert len(tested) == 2 * classes_per_node


def test_settings_of_the_paper():
    assert shard_tasks(dataset(10, 40), 20, 2).num_nodes == 100
    assert shard_tasks(dataset(100, 20), 10, 10).num_nodes == 100


def test_groups_deal_every_class_once():
    """P groups of one shard of every class: with N classes a node, M / N nodes in a row cover all classes."""
    tasks = shard_tasks(dataset(6, 12), 4, 2, val_fraction=0)
    assert tasks.classes.view(4, 3, 6).sum(1).eq(1).all()


def test_partition_depends_on_the_seed_only():
    one, two, other = (shard_tasks(dataset(4, 20), 4, 2, seed=s).splits["train"].index for s in (0, 0, 1))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_shards_of_a_size():
    shards = class_shards(dataset(2, 10).train.targets, [0, 1], 3, size=2)
    assert [[len(s) for s in row] for row in shards] == [[2, 2, 2], [2, 2, 2]]
    tasks = shard_tasks(dataset(4, 10), 2, 2, shard_size=3, val_fraction=0)
    assert tasks.sizes("train").tolist() == [6] * 4


def test_classes_can_be_chosen():
    tasks = shard_tasks(dataset(6, 8), 2, 2, classes=[1, 4])
    assert tasks.classes.any(0).nonzero().flatten().tolist() == [1, 4]


def test_test_samples_are_stored_once():
    data = dataset(4, 10, tests=5)
    tasks = shard_tasks(data, 5, 2)
    assert tasks.pools["test"].inputs is data.test.inputs
    assert tasks.sizes("test").tolist() == [10] * 10


def test_groups_share_a_task():
    data = dataset(10, 30)
    tasks = grouped_tasks(data, 5, 3, seed=2, val_fraction=0)
    assert tasks.num_nodes == 15
    assert tasks.cluster.tolist() == [k // 3 for k in range(15)]
    groups = tasks.classes.view(5, 3, 10)
    assert (groups == groups[:, :1]).all()
    assert groups[:, 0].sum(0).tolist() == [1] * 10
    assert sorted(tasks.splits["train"].index.tolist()) == list(range(300))
    assert grouped_tasks(data, 5, 3, shard_size=4, val_fraction=0).sizes("train").tolist() == [8] * 15


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: shard_tasks(dataset(5, 10), 2, 2), ("conflict", "classes_per_node", "5")),
        (lambda: shard_tasks(dataset(4, 3), 4, 2), ("too-few", "class 0", "4")),
        (
            lambda: shard_tasks(dataset(4, 9), 3, 2, shard_size=4),
            ("too-few", "class 0", "4"),
        ),
        (lambda: shard_tasks(dataset(4, 9), 3, 2, classes=[0, 7]), ("too-few", "class 7", "0")),
        (lambda: shard_tasks(dataset(4, 9), 0, 2), ("value", "shards")),
        (lambda: shard_tasks(dataset(4, 9, tests=0), 3, 2), ("too-few", "classes")),
        (lambda: grouped_tasks(dataset(5, 9), 2, 2), ("conflict", "groups", "5")),
    ],
)
def test_refusals(make, message):
    with raises(*message):
        make()


def test_settings_of_tasks_are_passed_on():
    tasks = shard_tasks(dataset(2, 8), 2, 2, names=("a", "b"), metric="auc")
    assert (tasks.names, tasks.metric) == (("a", "b"), "auc")


def test_a_class_named_twice_is_refused():
    with raises("duplicate", "classes", "0", "1"):
        class_shards(torch.arange(20) % 2, [0, 0, 1, 1], 2)
