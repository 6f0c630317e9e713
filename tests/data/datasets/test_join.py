from __future__ import annotations

import torch

from graphcollab.data.datasets import LabeledArrays
from graphcollab.data.datasets.labeled_arrays import join_datasets
from graphcollab.data.partition import concept_shift
from graphcollab.data.samples import Pool
from tests.raising import raises


def toy(name, classes, count, shape=(2,), offset=0.0):
    x, y = torch.arange(count, dtype=torch.float32)[:, None].expand(-1, *shape) + offset, torch.arange(count) % classes
    return LabeledArrays(name, Pool(x, y), Pool(x[:2], y[:2]), tuple(f"{name} {c}" for c in range(classes)))


def test_labels_are_shifted_and_samples_stay_in_order():
    joined = join_datasets([toy("a", 3, 4), toy("b", 2, 3, offset=100.0), toy("c", 2, 2, offset=200.0)])
    assert joined.name == "a + b + c"
    assert joined.train.targets.tolist() == [0, 1, 2, 0, 3, 4, 3, 5, 6]
    assert joined.test.targets.tolist() == [0, 1, 3, 4, 5, 6]
    assert joined.train.inputs[:, 0].tolist() == [0, 1, 2, 3, 100, 101, 102, 200, 201]
    assert joined.test.inputs[:, 1].tolist() == [0, 1, 100, 101, 200, 201]
    assert joined.class_names == ("a 0", "a 1", "a 2", "b 0", "b 1", "c 0", "c 1")


def test_labels_are_those_of_a_concept_shift():
    sources = [toy("a", 3, 6), toy("b", 2, 6)]
    tasks, joined = concept_shift(sources, (1, 1), train=4, val=2), join_datasets(sources)
    assert torch.equal(tasks.pools["test"].targets, joined.test.targets)


def test_one_dataset_stays_what_it_is():
    data = toy("a", 3, 4)
    joined = join_datasets([data])
    assert (joined.name, joined.class_names) == (data.name, data.class_names)
    assert torch.equal(joined.train.targets, data.train.targets)


def test_refusals():
    with raises("empty", "datasets"):
        join_datasets([])
    with raises("shape", "inputs"):
        join_datasets([toy("a", 2, 3), toy("b", 2, 3, shape=(3,))])
