"""Weights of samples in tasks: where they come from, that they stay with their rows, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from graphcollab import Tasks, load_dataset
from graphcollab.analysis import resplit
from graphcollab.analysis.resplit import halve_tests
from graphcollab.data.samples import Pool, Split
from graphcollab.train.identity import identify_tasks
from graphcollab.train.newcomers import _together
from tests.raising import raises

SITES = ["south"] * 12 + ["north"] * 8
X = torch.arange(20.0)[:, None]
Y = torch.arange(20) % 2
W = np.arange(20) + 1.0  # one more than the input
SPLIT = ["test" if k % 12 == 0 else "train" for k in range(20)]


def table(**columns):
    return {"site": SITES, "age": X[:, 0].tolist(), "y": Y.tolist(), "w": W.tolist(), **columns}


def pairs(tasks):
    """(input, weight) of all samples, by node and split, inputs as they were in the table."""
    found = {}
    for name, split in tasks.splits.items():
        pool = tasks.pools[split.pool]
        for node in range(tasks.num_nodes):
            own = split.of(node)
            found[tasks.names[node], name] = list(
                zip(pool.inputs[own, 0].tolist(), pool.weight[own].tolist(), strict=True)
            )
    return found


def test_from_arrays():
    tasks = Tasks.from_arrays(X, Y, SITES, weight=W)
    assert tasks.weighted
    for one in pairs(tasks).values():
        assert all(w == x + 1 for x, w in one)
    total = {
        site: sum(w for (name, _), one in pairs(tasks).items() for _, w in one if name == site) for site in set(SITES)
    }
    assert total == {"south": sum(range(1, 13)), "north": sum(range(13, 21))}
    assert tasks.pools["samples"].weight.dtype == torch.float64
    assert "weighted samples" in repr(tasks)
    whole = Tasks.from_arrays(X, Y, SITES, weight=list(range(1, 21)))
    assert torch.equal(whole.pools["samples"].weight, tasks.pools["samples"].weight)
    assert not Tasks.from_arrays(X, Y, SITES).weighted


def test_mean_weight():
    tasks = Tasks.from_arrays(X, Y, SITES, weight=W, val_fraction=0, test_fraction=0)
    assert tasks.mean_weight["train"].tolist() == [16.5, 6.5]


@pytest.mark.parametrize("library", [None, "pandas", "polars"])
def test_from_frame_takes_a_column(library):
    make = dict if library is None else pytest.importorskip(library).DataFrame
    tasks = Tasks.from_frame(make(table()), weight="w")
    assert tasks.preparation.features == ("age",)
    plain = Tasks.from_frame({k: v for k, v in table().items() if k != "w"})
    assert torch.equal(tasks.pools["samples"].inputs, plain.pools["samples"].inputs)  # standardized as without weights
    assert tasks.pools["samples"].weight.tolist() == W.tolist()
    assert {n: s.index.tolist() for n, s in tasks.splits.items()} == {
        n: s.index.tolist() for n, s in plain.splits.items()
    }


def test_from_frame_takes_weights_row_by_row_files_and_frames_by_site(tmp_path):
    pytest.importorskip("pyarrow")  # writes Parquet
    frame = pytest.importorskip("pandas").DataFrame(table())
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    by_site = {site: part.drop(columns="site") for site, part in frame.groupby("site", sort=False)}
    without = frame.drop(columns="w")
    for given, weight in ((tmp_path / "t.csv", "w"), (tmp_path / "t.parquet", "w"), (by_site, "w"), (without, W)):
        assert Tasks.from_frame(given, weight=weight).pools["samples"].weight.tolist() == W.tolist()


def test_newcomers_and_refitted_tables_name_their_weights_too():
    tasks = Tasks.from_frame(table(), weight="w")
    other = Tasks.from_frame(table(), weight="w", preparation=tasks.preparation)
    assert other.weighted
    assert not Tasks.from_frame(table(), preparation=tasks.preparation).weighted


def test_tables_that_are_loaded_take_weights():
    tasks = load_dataset("heart_disease").tasks(weight="age")
    assert "age" not in tasks.preparation.features
    assert float(tasks.pools["samples"].weight.mean()) == pytest.approx(53.51, abs=0.01)


class Rows(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, k):
        return {"x": X[k], "label": Y[k], "weight": float(W[k])}


@pytest.mark.parametrize("key", ["weight", "weights", "sample_weight"])
def test_from_samples_takes_dicts(key):
    site = {"x": X[:10], key: W[:10], "y": Y[:10]}
    tasks = Tasks.from_samples({"b": site, "a": Rows()})
    for one in pairs(tasks).values():
        assert all(w == x + 1 for x, w in one)


def from_samples(*weights, **more):
    return Tasks.from_samples([{"x": X[:10], "y": Y[:10], "weight": w} for w in weights], **more)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tasks.from_arrays(X, Y, SITES, weight=-W), ("range", "weight", "'south'")),
        (lambda: Tasks.from_arrays(X, Y, SITES, weight=np.where(W == 14, np.inf, W)),
         ("range", "weight", "13", "'north'")),
        (lambda: Tasks.from_arrays(X, Y, SITES, weight=[1, 2]), ("value", "weight", "20")),
        (lambda: Tasks.from_arrays(X, Y, SITES, weight=["a"] * 20), ("value", "weight")),
        (lambda: Tasks.from_arrays(X, Y, SITES, weight=W * (W < 13)),
         ("empty", "node 'north'", "'train'")),
        (lambda: Tasks.from_arrays(X, Y, SITES, weight=W * (np.arange(20) % 12 > 0), split=SPLIT),
         ("empty", "node 'north'", "'south'", "'test'")),
        (lambda: Tasks.from_frame(table(), weight="v"), ("unknown", "column 'v'")),
        (lambda: Tasks.from_frame(table(w=[None, *W[1:]]), weight="w"),
         ("missing", "weight", "'south'", "'w'")),
        (lambda: Tasks.from_frame(table(w=[*W[1:], -2.0]), weight="w"),
         ("range", "weight", "19", "'north'", "'w'")),
        (lambda: Tasks.from_frame(table(w=["a"] * 20), weight="w"), ("ambiguous", "column 'w'", "'a'")),
        (lambda: Tasks.from_frame(table(), weight="w", columns=["age", "w"]), ("conflict", "column 'w'")),
        (lambda: from_samples(W[:10], -W[:10]), ("range", "weight", "node 1 (train)")),
        (lambda: from_samples(W[:10], W[:9]), ("mismatch", "node 1 (train)", "10", "9")),
        (lambda: Tasks.from_samples([{"x": X, "y": Y, "weight": W}, (X, Y)]), ("mismatch", "node 1 (train)")),
        (lambda: from_samples(W[:10], test=[(X, Y)]), ("mismatch", "node 0 (test)")),
        (lambda: Tasks.from_samples([{"x": X, "y": Y, "weight": W, "weights": W}]), ("shape", "node 0 (train)")),
        (lambda: Tasks.from_samples([torch.utils.data.TensorDataset(X, Y, Y)]), ("shape", "node 0 (train)")),
        (lambda: Pool(X, Y, torch.ones(3)), ("shape", "weight", "20")),
        (lambda: Pool(X, Y, torch.ones(20, dtype=torch.int64)), ("shape", "weight")),
        (lambda: Pool(X, Y, torch.full((20,), float("nan"))), ("range", "weight")),
    ],
)  # fmt: skip
def test_refused(make, message):
    with raises(*message):
        make()


def weights_follow_rows(tasks):
    return all(w == x + 1 for one in pairs(tasks).values() for x, w in one)


def test_weights_stay_with_their_rows():
    tasks = Tasks.from_arrays(X, Y, SITES, weight=W)
    again = [tasks.select(["south"]), tasks.hold_out(0.3, seed=4), tasks.to("cpu"), resplit(tasks, 3)]
    again.append(halve_tests(resplit(tasks, 3, test=0.6), 1))
    assert all(map(weights_follow_rows, again))
    assert torch.equal(again[0].mean_weight["train"], tasks.mean_weight["train"][1:])


def test_joined_pools():
    one, other = Pool(X[:2], Y[:2], torch.tensor([3.0, 4.0])), Pool(X[2:4], Y[2:4])
    assert Pool.joined([one, other]).weight.tolist() == [3, 4, 1, 1]
    assert Pool.joined([other, other]).weight is None
    assert Pool.joined([one, other]).inputs.flatten().tolist() == [0, 1, 2, 3]


def test_newcomers_keep_their_weights():
    old, new = Tasks.from_arrays(X, Y, SITES, weight=W), Tasks.from_arrays(X, Y, ["east"] * 20, weight=W)
    assert weights_follow_rows(_together(old, new))
    plain = _together(old, Tasks.from_arrays(X, Y, ["east"] * 20))
    assert plain.pools["train"].weight.tolist() == [*W, *[1.0] * 20]


def test_fingerprints_tell_weights_apart():
    found = {identify_tasks(Tasks.from_arrays(X, Y, SITES, weight=w, seed=1)) for w in (None, W, W + 1, np.ones(20))}
    assert len(found) == 4


def test_splits_may_share_samples():
    pool = Pool(X, Y, torch.as_tensor(W))
    splits = {name: Split.from_lists("p", [torch.tensor(of)]) for name, of in (("train", [0, 1]), ("val", [1, 2]))}
    assert {n: m.tolist() for n, m in Tasks({"p": pool}, splits).mean_weight.items()} == {"train": [1.5], "val": [2.5]}


def test_weights_that_are_text_are_to_be_numbers():
    text = {**table(), "w": ["many", *map(str, W.tolist()[1:])]}
    with raises("ambiguous", "column 'w'", "'many'", "0"):
        Tasks.from_frame(text, weight="w")
