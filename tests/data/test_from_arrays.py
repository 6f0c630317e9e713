"""Tasks of flat arrays with a column of names, and of samples in a dict by name."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pytest
import torch

from graphcollab import Tasks, run
from graphcollab.methods import fedavg, l2c
from tests.raising import raises

SITES = ["north", "south", "west", "east"]
SIZES = [12, 9, 15, 10]


def table(order=None):
    """Inputs [46, 3], labels and names of four sites, whose rows may be put in another order."""
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(46, 3, generator=draw), torch.randint(2, (46,), generator=draw)
    node = np.repeat(SITES, SIZES)
    return (x, y, node) if order is None else (x[order], y[order], node[order.numpy()])


def linear():
    model = torch.nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.fill_(0.1)
        model.bias.zero_()
    return model


def rows_of(tasks, name, split):
    index = tasks.splits[split].of(tasks.names.index(name))
    return tasks.pools[tasks.splits[split].pool].inputs[index]


def site_after_site(order):
    """Rows with the sites in another order, and the same order inside of each."""
    first = np.cumsum([0, *SIZES])
    return torch.cat([torch.arange(first[k], first[k + 1]) for k in order])


def interleaved():
    """Rows of all sites by turns."""
    place = torch.cat([torch.arange(size) for size in SIZES])
    return place.argsort(stable=True)


def test_nodes_are_sorted_by_name_and_rows_keep_their_order():
    x, y, node = table()
    tasks = Tasks.from_arrays(x, y, node, val_fraction=0, test_fraction=0)
    assert tasks.names == ("east", "north", "south", "west")
    assert torch.equal(rows_of(tasks, "south", "train"), x[12:21])
    assert [len(one) for one in (tasks.pools, tasks.splits)] == [1, 1]
    assert tasks.pools["samples"].inputs is x  # stored once, as it is


def test_identity_follows_from_the_name_alone():
    x, y, node = table()
    tasks = Tasks.from_arrays(x, y, node)
    north = int.from_bytes(blake2b(b"north", digest_size=8).digest(), "little") % 2**63
    assert int(tasks.ids[tasks.names.index("north")]) == north == 6164347370713582292
    numbers = Tasks.from_arrays(x[:20], y[:20], np.repeat([7, 10], 10))
    assert numbers.names == ("7", "10")
    text = Tasks.from_arrays(x[:20], y[:20], ["7"] * 10 + ["10"] * 10)
    assert dict(zip(text.names, text.ids.tolist(), strict=True)) == dict(
        zip(numbers.names, numbers.ids.tolist(), strict=True)
    )


@pytest.mark.parametrize("node", [np.repeat([3, 5], 5), torch.tensor([3] * 5 + [5] * 5), [3] * 5 + [5] * 5,
                                  np.array([3] * 5 + [5] * 5, object), np.repeat(["3", "5"], 5),
                                  np.array(["3"] * 5 + ["5"] * 5, object)])  # fmt: skip
def test_names_in_all_kinds_of_columns(node):
    tasks = Tasks.from_arrays(np.arange(10.0)[:, None], np.arange(10) % 2, node)
    assert tasks.names == ("3", "5")
    assert tasks.sizes("train").tolist() == [3, 3]


@pytest.mark.parametrize("method", [fedavg, l2c])
def test_the_order_of_sites_changes_no_model(method):
    models = []
    for order in (None, site_after_site([2, 0, 3, 1]), interleaved()):
        tasks = Tasks.from_arrays(*table(order), seed=1)
        result = run(method(lr=0.1), tasks, linear(), rounds=3, seed=2)
        models.append({name: result.model(name).weight.detach() for name in SITES})
    for other in models[1:]:
        for name in SITES:
            torch.testing.assert_close(other[name], models[0][name], rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", [fedavg, l2c])
def test_the_order_of_a_dict_changes_no_model(method):
    x, y, node = table()
    sites = {name: (x[node == name], y[node == name]) for name in SITES}
    models = []
    for order in (SITES, SITES[::-1]):
        tasks = Tasks.from_samples({name: sites[name] for name in order}, test={name: sites[name] for name in SITES})
        result = run(method(lr=0.1), tasks, linear(), rounds=3, seed=2)
        models.append({name: result.model(name).weight.detach() for name in SITES})
    for name in SITES:
        torch.testing.assert_close(models[1][name], models[0][name], rtol=0, atol=1e-6)
    assert torch.equal(tasks.ids, Tasks.from_arrays(x, y, node).ids)


def test_true_clusters_follow_their_node_in_a_dict():
    pair = torch.zeros(4, 1), torch.tensor([0, 1, 0, 1])
    tasks = Tasks.from_samples({"b": pair, "a": pair, "c": pair}, cluster=torch.tensor([1, 0, 2]))
    assert (tasks.names, tasks.cluster.tolist()) == (("a", "b", "c"), [0, 1, 2])


def test_what_is_random_follows_from_names_in_a_list_as_in_a_dict():
    pair = torch.arange(10.0)[:, None], torch.arange(10) % 2
    plain, named = (Tasks.from_samples([pair] * 3, names=names) for names in (None, ["c", "b", "a"]))
    by_name = Tasks.from_samples(dict.fromkeys("abc", pair))
    assert named.names == ("c", "b", "a")
    assert named.ids.tolist() == by_name.ids.flip(0).tolist()
    assert plain.ids.tolist() == [0, 1, 2]


def test_a_word_for_every_row():
    words = np.array((["train"] * 3 + ["test"] * 2) * 2)
    x = torch.arange(10.0)[:, None]
    tasks = Tasks.from_arrays(x, x, ["b"] * 5 + ["a"] * 5, split=words, val_fraction=0.3, loss="mse", metric="mse")
    assert rows_of(tasks, "b", "test").flatten().tolist() == [3, 4]
    assert rows_of(tasks, "a", "test").flatten().tolist() == [8, 9]
    assert (tasks.sizes("train").tolist(), tasks.sizes("val").tolist()) == ([2, 2], [1, 1])
    all_said = Tasks.from_arrays(x, x, ["a"] * 10, split=["val", "train"] * 5, loss="mse", metric="mse")
    assert all_said.sizes("val").tolist() == [5]
    assert "test" not in all_said.splits


def test_validation_and_test_rows_have_some_of_every_class_and_are_drawn_independently():
    labels = torch.tensor([1, 1, 1] + [0] * 47).repeat(200)
    node = np.repeat(np.arange(200), 50)
    x = torch.arange(50.0).repeat(200)[:, None]
    tasks = Tasks.from_arrays(x, labels, node)
    pool = tasks.pools["samples"]
    for split in ("train", "val", "test"):
        of_node = pool.targets[tasks.splits[split].index].split(tasks.sizes(split).tolist())
        assert all(int(one.sum()) == 1 for one in of_node)
    assert tasks.sizes("test").tolist() == [10] * 200
    # how many of the 47 healthy rows' neighbors of test rows are for validation: a share of 8 in 40, as of all others
    plain = Tasks.from_arrays(x, x, node, loss="mse", metric="mse")
    test, val = (plain.splits[name].index for name in ("test", "val"))
    share = len(np.intersect1d(test.numpy() + 1, val.numpy())) / len(test)
    assert abs(share - 8 / 50) < 0.03


def test_no_validation_samples_at_all_is_a_number_of_them():
    x, y = torch.arange(12.0)[:, None], torch.arange(12) % 2
    tasks = Tasks.from_samples([(x, y), (x, y)], val=[(x[:0], y[:0])] * 2)
    assert tasks.sizes("val").tolist() == [0, 0]


def test_a_million_rows_share_memory_and_nodes_are_selected_in_order():
    node = torch.arange(300_000) // 3
    x = torch.zeros(300_000, 2)
    tasks = Tasks.from_arrays(x, node % 2, node.flip(0))
    assert tasks.num_nodes == 100_000
    few = tasks.select([5, 3])
    assert torch.equal(few.splits["train"].index, torch.cat([tasks.splits["train"].of(k) for k in (5, 3)]))
    assert few.names == (tasks.names[5], tasks.names[3])


X, Y = torch.zeros(6, 2), torch.tensor([0, 1, 0, 1, 0, 1])
NODE = ["b", "a", "b", "a", "b", "a"]
PAIR = X, Y


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tasks.from_arrays(X, Y[:5], NODE), ("mismatch", "inputs", "6", "5")),
        (lambda: Tasks.from_arrays(X, Y, NODE[:5]), ("mismatch", "inputs", "6", "5")),
        (lambda: Tasks.from_arrays(X.index_fill(0, torch.tensor([4, 5]), np.nan), Y, NODE),
         ("not-finite", "inputs", "4", "'b'")),
        (lambda: Tasks.from_arrays(X, torch.tensor([0, 1, 0, 1, np.inf, 0]), NODE),
         ("not-finite", "targets", "4", "'b'")),
        (lambda: Tasks.from_arrays(X, Y, [*NODE[:5], "c"]),
         ("too-few", "node 'a'", "'c'")),
        (lambda: Tasks.from_arrays(X, Y, [*NODE[:5], "c"], split=["train"] * 6),
         ("too-few", "node 'c'")),
        (lambda: Tasks.from_arrays(X, Y, [*NODE[:5], "c"], val_fraction=0),
         ("too-few", "node 'c'")),
        (lambda: Tasks.from_arrays(X, Y, NODE, split=["train", "valid"] * 3),
         ("value", "split", "'a'", "'valid'", "'train'")),
        (lambda: Tasks.from_arrays(X, Y, NODE, split=["train", None] * 3), ("value", "split", "'a'")),
        (lambda: Tasks.from_arrays(X, Y, NODE, split=["train"]), ("shape", "split", "6")),
        (lambda: Tasks.from_arrays(X, Y, NODE, split=["train", "val"] * 3),
         ("too-few", "node 'a'", "'train'")),
        (lambda: Tasks.from_arrays(X, Y, [*NODE[:5], None]), ("missing", "node", "5")),
        (lambda: Tasks.from_arrays(X, Y, [*NODE[:5], 3]), ("value", "node", "5")),
        (lambda: Tasks.from_arrays(X, Y, [1, 2, 3, 4, 5, "a"]), ("value", "node")),
        (lambda: Tasks.from_arrays(X, Y, [*NODE[:5], ""]), ("missing", "node", "5")),
        (lambda: Tasks.from_arrays(X, Y, np.full(6, 0.5)),
         ("value", "node")),
        (lambda: Tasks.from_arrays(X, Y, [[1, 2]] * 6), ("value", "node")),
        (lambda: Tasks.from_arrays(X, Y, X.long()), ("shape", "node", "6")),
        (lambda: Tasks.from_arrays(X[:0], Y[:0], []), ("empty", "column 'node'")),
        (lambda: Tasks.from_samples({"a": PAIR}, names=["b"]), ("conflict", "names")),
        (lambda: Tasks.from_samples({"a": PAIR}, [PAIR]), ("value", "val", "' names as '")),
        (lambda: Tasks.from_samples({"a": PAIR}, test={"b": PAIR}), ("mismatch", "test", "'a'")),
        (lambda: Tasks.from_samples({"a": PAIR}, test={"a": PAIR, "b": PAIR}), ("mismatch", "test", "'b'", "'train'")),
        (lambda: Tasks.from_samples({1: PAIR, "1": PAIR}), ("duplicate", "names", "'1'")),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(make, message):
    with raises(*message):
        make()
