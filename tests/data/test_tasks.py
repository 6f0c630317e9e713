from __future__ import annotations

import random
import typing
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset
from torch_geometric.data import Data

from graphcollab import Tasks
from graphcollab._base.settings import SettingError
from graphcollab.analysis.metrics import METRICS, Metric
from graphcollab.data._builders import TaskFields
from graphcollab.data.datasets import LabeledArrays
from graphcollab.data.partition import class_clusters, shard_tasks
from graphcollab.data.samples import Pool, Split
from graphcollab.engine.losses import NAMED
from tests.raising import raises, warns


def samples(count, start=0):
    return torch.arange(start, start + count).float()[:, None], torch.arange(count) % 2


def test_arrays_lists_tensors_and_datasets_are_taken():
    x, y = samples(4)
    kinds = [(x, y), (x.numpy().astype(np.float64), y.numpy().astype(np.int32)), (x.tolist(), y.tolist()),
             TensorDataset(x, y)]  # fmt: skip
    tasks = Tasks.from_samples(kinds, kinds)
    pool = tasks.pools["train"]
    assert (pool.inputs.dtype, pool.targets.dtype) == (torch.float32, torch.int64)
    for node in range(4):
        index = tasks.splits["train"].of(node)
        assert torch.equal(pool.inputs[index], x)
        assert torch.equal(pool.targets[index], y)


def test_bytes_are_refused_and_whole_numbers_stay():
    x, y = torch.zeros(4, 1, dtype=torch.uint8), torch.zeros(4)
    with raises("shape", "node 1 (train)", "uint8", "255"):
        Tasks.from_samples([(x / 255, y), (x, y)])
    with raises("shape", "inputs", "uint8", "255"):
        Tasks.from_arrays(x, y, [1] * 4)
    with raises("mismatch", "b", "'train'"):
        Tasks.from_samples({"b": (x.float(), y), "a": (x.long(), y)})
    tasks = Tasks.from_samples([(torch.zeros(4, 1, dtype=torch.int32), torch.zeros(4, dtype=torch.float64))])
    assert (tasks.pools["train"].inputs.dtype, tasks.pools["train"].targets.dtype) == (torch.int32, torch.float32)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.floats(0, 0.99), st.integers(0, 5))
def test_held_out_samples_are_a_partition(sizes, fraction, seed):
    tasks = Tasks.from_samples([samples(n, 100 * k) for k, n in enumerate(sizes)], val_fraction=fraction, seed=seed)
    for node, count in enumerate(sizes):
        train, val = tasks.splits["train"].of(node).tolist(), tasks.splits["val"].of(node).tolist()
        own = range(sum(sizes[:node]), sum(sizes[: node + 1]))
        assert sorted(train + val) == list(own)
        assert train
        if count > 1 and fraction > 0:
            assert 1 <= len(val) <= max(1, round(fraction * count))


def test_held_out_samples_follow_identity():
    many = [samples(10, 100 * k) for k in range(4)]
    whole = Tasks.from_samples(many, node_id=torch.tensor([7, 3, 9, 4]))
    part = Tasks.from_samples([many[2], many[0]], node_id=torch.tensor([9, 7]))
    for node, old in enumerate((2, 0)):
        mine = part.pools["train"].inputs[part.splits["val"].of(node)]
        assert torch.equal(mine, whole.pools["train"].inputs[whole.splits["val"].of(old)])
    again = Tasks.from_samples(many, node_id=torch.tensor([7, 3, 9, 4]), seed=1)
    assert not torch.equal(whole.splits["val"].index, again.splits["val"].index)


def test_the_order_of_named_nodes_in_a_list_changes_no_draw():
    many = {name: samples(9, 10 * k) for k, name in enumerate("abcd")}
    one, other = (Tasks.from_samples([many[n] for n in order], names=order) for order in (list("abcd"), list("cadb")))
    for node, name in enumerate(other.names):
        old = one.names.index(name)
        for split in ("train", "val"):
            rows = [tasks.pools["train"].inputs[tasks.splits[split].of(k)] for tasks, k in ((one, old), (other, node))]
            assert torch.equal(*rows)


def test_select_keeps_everything_about_a_node():
    many = [samples(5, 10 * k) for k in range(3)]
    tasks = Tasks.from_samples(many, test=many, names=list("abc"), cluster=torch.tensor([0, 1, 1]), metric="auc")
    chosen = tasks.select([2, 0])
    ids = [int.from_bytes(blake2b(name, digest_size=8).digest(), "little") % 2**63 for name in (b"c", b"a")]
    assert (chosen.names, chosen.ids.tolist(), chosen.cluster.tolist()) == (("c", "a"), ids, [1, 0])
    assert chosen.metric == "auc"
    for split in ("train", "val", "test"):
        assert torch.equal(chosen.splits[split].of(0), tasks.splits[split].of(2))
    assert all(chosen.pools[name] is pool for name, pool in tasks.pools.items())


def test_select_by_name():
    tasks = Tasks.from_samples([samples(5, k) for k in range(3)], names=["ada", "bob", "cy"])
    assert tasks.select(["cy", 0]).names == tasks.select(torch.tensor([2, 0])).names == ("cy", "ada")
    with raises("unknown", "node", "'rob'", "'bob'", kind=KeyError):
        tasks.select(["rob"])
    with raises("range", "node", "3", kind=IndexError):
        tasks.select([3])


def test_classes_of_every_node():
    x = torch.zeros(4, 1)
    tasks = Tasks.from_samples([(x, torch.tensor([0, 0, 2, 2])), (x, torch.tensor([1, 1, 1, 1]))], val_fraction=0)
    assert tasks.classes.tolist() == [[True, False, True], [False, True, False]]
    assert Tasks.from_samples([(x, torch.rand(4))], loss="mse", metric="mse").classes is None
    assert Tasks.from_samples([(x, torch.tensor([1, -100, 1, 0]))], val_fraction=0).classes.tolist() == [[True, True]]
    assert Tasks.from_samples([(x, torch.tensor([1, -100, 1, 1]))], val_fraction=0).classes.tolist() == [[False, True]]


def test_sizes_of_a_split_that_is_not_there():
    tasks = Tasks.from_samples([samples(4)])
    assert tasks.sizes("test").tolist() == [0]
    with raises("empty", "split 'test'", "'node 0'", "are for judging"):
        tasks.require("test", "are for judging")
    tasks.hold_out(into="test").require("test", "are for judging")
    tasks.require("val", "are there")


X, Y = torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64)
PAIR = Pool(X, Y)
ONE = Split.from_lists("p", [torch.tensor([0, 1])])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tasks({"p": PAIR}, {"test": ONE}), ("missing", "splits", "'train'", "'test'")),
        (lambda: Tasks({"p": PAIR}, {"train": Split.from_lists("p", [])}), ("empty", "splits")),
        (lambda: Tasks({"p": PAIR}, {"train": ONE}, names=("a", "b")), ("mismatch", "names")),
        (lambda: Tasks({"p": PAIR}, {"train": Split.from_lists("p", [torch.tensor([0])] * 2)},
                       node_id=torch.tensor([5, 5])), ("duplicate", "node_id")),
        (lambda: Tasks({"p": PAIR}, {"train": ONE, "val": Split.from_lists("p", [Y, Y])}), ("mismatch", "split 'val'")),
        (lambda: Tasks({"q": PAIR}, {"train": ONE}), ("unknown", "split 'train'", "'p'", "'q'")),
        (lambda: Tasks({"p": PAIR}, {"train": Split.from_lists("p", [torch.tensor([2])])}), ("range", "split 'train'")),
        (lambda: Tasks({"p": PAIR}, {"train": Split.from_lists("p", [Y, Y[:0]])}, names=("a", "b")),
         ("empty", "node 'b'")),
        (lambda: Tasks.from_samples([(X, Y[:1])]), ("mismatch", "node 0 (train)")),
        (lambda: Tasks.from_samples([(X, Y)], [(X, Y), (X, Y)]), ("mismatch", "val", "'train'")),
        (lambda: Tasks.from_samples([(X, Y), (torch.zeros(2, 3), Y)]), ("shape", "inputs")),
        (lambda: Tasks.from_samples([(X, Y)], val_fraction=1.0), ("value", "val_fraction")),
        (lambda: Tasks.from_samples([TensorDataset(X[:0], Y[:0])]), ("empty", "node 0 (train)")),
        (lambda: Tasks.from_samples([TensorDataset(X, Y, Y)]), ("shape", "node 0 (train)")),
        (lambda: Tasks.from_samples([(X / 0, Y)], names=["far"]),
         ("not-finite", "inputs", "far (train)")),
    ],
)  # fmt: skip
def test_tasks_refuse(make, message):
    with raises(*message):
        make()


def test_moving_keeps_all():
    tasks = Tasks.from_samples([samples(4)], cluster=torch.tensor([0])).to("cpu")
    assert (tasks.num_nodes, tasks.device.type, tasks.cluster.tolist()) == (1, "cpu", [0])


@pytest.mark.parametrize("names", [np.arange(3), range(3), ["0", "1", "2"], torch.arange(3).tolist()])
def test_names_become_text(names):
    tasks = Tasks.from_samples([(X, Y)] * 3, names=names)
    assert tasks.names == replace(tasks, names=names).names == ("0", "1", "2")
    assert all(type(name) is str for name in tasks.names)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tasks.from_samples([1, 2]),
         ("value", "train", "[1, 2]")),
        (lambda: Tasks.from_samples([(X, Y)], 3),
         ("value", "val", "got 3")),
        (lambda: Tasks.from_samples([(1, 2)]), ("value", "node 0 (train)", "(1, 2)")),
        (lambda: Tasks.from_samples([("ab", Y)]), ("value", "node 0 (train)", "('ab'")),
        (lambda: Tasks.from_samples([(X, Y, Y)]), ("value", "train")),
        (lambda: Tasks.from_samples([[X, Y, Y]]), ("value", "node 0 (train)")),
        (lambda: Tasks.from_samples([(X, Y)], names=3), ("value", "names")),
        (lambda: Tasks({"p": PAIR}, {"train": ONE}, names="ab"), ("value", "names", "'ab'")),
        (lambda: Tasks({"p": PAIR}, {"train": ONE}, loss=3), ("value", "loss", "'bce'")),
        (lambda: Tasks.from_samples([(X, Y)], metric="x"), ("value", "metric", "'accuracy'", "'x'")),
        (lambda: Tasks.from_samples([(X, Y)], cluster=[0]), ("value", "cluster")),
        (lambda: Tasks.from_samples([(X, Y)], cluster=X[:, 0]), ("value", "cluster")),
        (lambda: Tasks.from_samples([(X, Y)], node_id=torch.tensor(7)), ("value", "node_id")),
    ],
)  # fmt: skip
def test_a_message_names_the_argument_what_it_must_be_and_the_value(make, message):
    with raises(*message):
        make()


def test_unknown_arguments_are_refused_in_the_name_of_the_builder():
    data = LabeledArrays("made", Pool(X, Y), Pool(X, Y), ("a", "b"))
    with raises("type", "losss", "'loss'", kind=TypeError):
        class_clusters(data, losss="x")
    with raises("type", "zz", kind=TypeError):
        Tasks.from_samples([(X, Y)], zz=1)
    with raises("value", "seed", "'x'", kind=SettingError):
        shard_tasks(data, 1, 1, seed="x")


def test_losses_that_have_a_name_may_be_given():
    assert set(typing.get_args(typing.get_args(typing.get_type_hints(TaskFields)["loss"])[0])) == set(NAMED)


@pytest.mark.parametrize(("name", "metric"), METRICS.items(), ids=METRICS)
def test_metrics_that_have_a_name_may_be_given(name, metric):
    loss = metric.losses[0]
    targets = torch.stack([Y, Y], 1) if loss == "cox" else Y
    assert Tasks.from_samples([(X, targets)], loss=loss, metric=name).metric == name


def test_a_metric_that_is_entered_is_known_to_tasks_their_messages_and_the_command(monkeypatch):
    given = {"loss": "cross_entropy", "metric": "share_of_ones"}
    with raises("value", "metric", "'share_of_ones'", kind=SettingError):
        Tasks.from_samples([(X, Y)], **given)
    share = Metric.per_node("share_of_ones", True, lambda outputs, targets: float((targets == 1).double().mean()))
    monkeypatch.setitem(METRICS, "share_of_ones", share)
    for loss in ("cross_entropy", "mse"):
        assert Tasks.from_samples([(X, Y)], **{**given, "loss": loss}).metric == "share_of_ones"
    with raises("value", "metric", "'rmse'", "'share_of_ones'", kind=SettingError):
        Tasks.from_samples([(X, Y)], metric="share_of_one")
    monkeypatch.setitem(METRICS, "share_of_ones", replace(share, losses=("mse",)))
    with raises("conflict", "metric", "'share_of_ones'"):
        Tasks.from_samples([(X, Y)], **given)


def test_names_must_differ():
    samples = torch.zeros(4, 1), torch.tensor([0, 1, 0, 1])
    with raises("duplicate", "names", "'a'"):
        Tasks.from_samples([samples] * 3, names=["a", "b", "a"])


def test_reading_a_dataset_leaves_the_callers_random_numbers_alone():
    state = torch.random.get_rng_state()
    Tasks.from_samples([torch.utils.data.TensorDataset(torch.zeros(4, 1), torch.tensor([0, 1, 0, 1]))])
    assert torch.equal(torch.random.get_rng_state(), state)


def test_true_clusters_are_numbered_from_0():
    tasks = Tasks.from_samples([samples(4)] * 4, cluster=torch.tensor([7, 2, 7, 9]))
    assert tasks.require_cluster().tolist() == [1, 0, 1, 2]
    with raises("missing", "cluster"):
        Tasks.from_samples([samples(4)] * 4).require_cluster()


def test_few_names_are_shown():
    tasks = Tasks.from_samples([samples(4)] * 4)
    shown = "'node 0', 'node 1', 'node 2', …"
    assert repr(tasks) == f"Tasks(4 nodes ({shown}), train=12, val=4, loss='cross_entropy', metric='accuracy')"


class Dicts(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, place):
        return {"label": place % 2, "image": torch.tensor([float(place)])}


def test_datasets_and_dicts_are_taken():
    x, y = samples(6)
    state = torch.random.get_rng_state()
    part = Subset(TensorDataset(x, y), [1, 2, 4])
    dicts = {"image": x, "label": y}
    tasks = Tasks.from_samples([TensorDataset(x, y), part, dicts, Dicts()], val_fraction=0)
    assert tasks.sizes("train").tolist() == [6, 3, 6, 6]
    pool = tasks.pools["train"]
    assert pool.inputs.flatten().tolist() == [*range(6), 1, 2, 4, *range(6), *range(6)]
    assert pool.targets.tolist() == [place % 2 for place in pool.inputs.flatten().int().tolist()]
    assert torch.equal(torch.random.get_rng_state(), state)


def test_loaders_and_dicts_whose_samples_cannot_be_told_are_refused():
    x, y = samples(6)
    with raises("value", "train", "Dataset"):
        Tasks.from_samples([DataLoader(TensorDataset(x, y))])
    for wrong in ({"a": x, "b": y}, {"x": x, "y": y, "w": y}, {"target": x, "y": y}):
        with raises("shape", "node 0 (train)"):
            Tasks.from_samples([wrong])
    with raises("value", "targets"):
        Tasks.from_arrays(x, ["a"] * 6, [1] * 6)


def test_samples_for_testing_that_are_for_training_are_warned_of():
    x, y = torch.randn(3, 40, 5, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2
    test = [(torch.cat([x[0, :5], x[1, 5:]]), y), (x[2], y)]  # of the first, five are for training, too
    with warns("quality", "splits", "10", "160", "'a'"):
        Tasks.from_samples([(x[0], y), (x[2] + 1, y)], test=test, names=["a", "b"])
    Tasks.from_samples([(x[0], 1 - y)], test=[(x[0], y)])  # with another target they are others
    Tasks.from_samples([(x[0] > 0, y)], test=[(x[0] > 0, y)])  # and rows are alike by chance
    with warns("quality", "splits"):
        Tasks.from_arrays(torch.cat([x[0], x[0]]), torch.cat([y, y]), ["a"] * 80)
    with warns("quality", "splits", "80"):
        Tasks.from_samples([(x[0], y)], [(x[0], y)])


class Drawing(Dataset):
    def __init__(self, draw):
        self.draw = draw

    def __len__(self):
        return 6

    def __getitem__(self, place):
        return torch.tensor([place + self.draw()]), place % 2


def test_a_dataset_that_draws_is_warned_of():
    own = np.random.default_rng(0)
    for draw in (lambda: float(torch.rand(())), np.random.rand, random.random, own.random):
        with warns("quality", "node 0 (train)"):
            Tasks.from_samples([Drawing(draw)])
    Tasks.from_samples([Drawing(lambda: 0.0)])


class Listed(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        return self.rows[place]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (Listed([(torch.zeros(5 + k % 2, 3), 1) for k in range(4)]), ("shape", "[5, 3]", "[6, 3]")),
        (Listed([(torch.zeros(3), None)] * 3), ("shape", "NoneType")),
        (Listed([(Data(x=X), 1)] * 3), ("shape", "Data")),
        (Listed([({"a": torch.zeros(3)}, 1)] * 3), ("shape", "dict of 1")),
        (((X, X), Y), ("shape", "tuple of 2")),
        ((X.to_sparse(), Y), ("shape", "sparse")),
        ((X, ["ill"] * len(X)), ("value", "targets")),
        ([(1.0, 2.0), (3.0, 4.0)], ("value", "not a list of samples")),
        ([{"x": X, "y": Y}], ("value", "not a list of samples")),
    ],
)
def test_samples_that_are_no_arrays_are_refused_by_node(samples, message):
    code, *facts = message
    with raises(code, "node 0 (train)", *facts):
        Tasks.from_samples([samples])


def test_datasets_of_pairs_and_of_dicts_are_taken():
    pairs = [(torch.tensor([k, 1.0]), k % 2) for k in range(4)]
    dicts = [{"x": x, "y": y} for x, y in pairs]
    for samples in (pairs, dicts):
        pool = Tasks.from_samples({"a": Listed(samples)}).pools["train"]
        assert pool.inputs.tolist() == [[k, 1.0] for k in range(4)]
        assert pool.targets.tolist() == [k % 2 for k in range(4)]
    two = Tasks.from_samples({"a": [[[0.0], [1.0]], [0, 1]]}).pools["train"]  # inputs and targets, as ever
    assert (two.inputs.tolist(), two.targets.tolist()) == ([[0.0], [1.0]], [0, 1])


def test_arrays_of_text_are_said_to_be_such():
    inputs, labels = np.zeros((4, 2)), np.array(["ill", "well"] * 2)
    with raises("value", "node 0 (train)"):
        Tasks.from_samples([(inputs, labels)])
    with raises("value", "node 0 (train)"):
        Tasks.from_samples([(inputs.astype(object), np.arange(4) % 2)])
