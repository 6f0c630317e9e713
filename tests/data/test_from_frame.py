"""Tasks of tables: what is read, what is fitted to which rows, and what is said where something is wrong."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from datetime import date
from decimal import Decimal

import numpy as np
import pytest
import torch
from torch import nn

from graphcollab import Tasks, run
from graphcollab.data import Preparation
from graphcollab.methods import fedavg, local
from tests.raising import raises, warns

NAN = float("nan")
TABLE = {
    "site": ["b", "a", "b", "a", "b", "a", "b", "a"],
    "age": [30.0, 50.0, NAN, 70.0, 50.0, NAN, 30.0, 50.0],
    "dose": [1, 2, 3, 4, 5, 6, 7, 8],
    "sex": ["f", "m", None, "f", "m", "f", "f", "m"],
    "kind": [2, 10, 2, 10, 2, 2, 10, 2],
    "y": ["no", "yes", "yes", "no", "no", "yes", "no", "yes"],
}
ALL = {"val_fraction": 0, "test_fraction": 0}


def inputs(tasks, name, split="train"):
    index = tasks.splits[split].of(tasks.names.index(name)).sort().values
    return tasks.pools["samples"].inputs[index]


def targets(tasks):
    return tasks.pools["samples"].targets


def test_every_kind_of_column_by_hand():
    tasks = Tasks.from_frame(TABLE, categorical=["kind"], **ALL)
    known = np.array([30, 50, 70, 50, 30, 50])
    dose = np.arange(1, 9)
    age, dose = (known - known.mean()) / known.std(), (dose - dose.mean()) / dose.std()
    expected = np.array([
        # age, age missing, dose, f, m, sex missing, kind 2, kind 10
        [age[0], 0, dose[0], 1, 0, 0, 1, 0],
        [age[1], 0, dose[1], 0, 1, 0, 0, 1],
        [0, 1, dose[2], 0, 0, 1, 1, 0],
        [age[2], 0, dose[3], 1, 0, 0, 0, 1],
        [age[3], 0, dose[4], 0, 1, 0, 1, 0],
        [0, 1, dose[5], 1, 0, 0, 1, 0],
        [age[4], 0, dose[6], 1, 0, 0, 0, 1],
        [age[5], 0, dose[7], 0, 1, 0, 1, 0],
    ])  # fmt: skip
    np.testing.assert_allclose(tasks.pools["samples"].inputs, expected, atol=1e-6)
    assert tasks.preparation.features == (
        "age", "age missing", "dose", "sex = f", "sex = m", "sex missing", "kind = 2", "kind = 10",
    )  # fmt: skip
    assert tasks.preparation.classes == ("no", "yes")
    assert targets(tasks).tolist() == [0, 1, 1, 0, 0, 1, 0, 1]
    assert (tasks.names, tasks.loss, tasks.metric) == (("a", "b"), "cross_entropy", "accuracy")
    # counts of rows and of 4 columns, 2 sums of 2 columns, 4 categories and 2 classes of up to four letters
    assert tasks.preparation.floats_per_site == 1 + 4 + 2 * 2 + 4 + 2


def test_what_sites_share_is_charged_once():
    """Counts, sums, deviations and names are a message; who is prepared as others were tells nothing."""
    sent = {}
    model = lambda tasks: nn.Linear(tasks.input_shape[0], 2)  # noqa: E731
    tasks = {
        "sums": Tasks.from_frame(TABLE, **ALL),
        "text": Tasks.from_frame(TABLE, columns=["sex"], **ALL),
        "own": Tasks.from_frame(TABLE, pooled="per_site", **ALL),
    }
    tasks["like"] = Tasks.from_frame(TABLE, preparation=tasks["sums"].preparation, **ALL)
    tasks["fitted"] = Tasks.from_frame(TABLE, preparation=tasks["sums"].preparation, refit=True, **ALL)
    for name, one in tasks.items():
        data = run(local(), one, model(one), rounds=1).data
        assert data.bytes_sent.tolist() == [4.0 * one.preparation.floats_per_site] * 2
        sent[name] = data.messages_sent.tolist()
    assert sent == {"sums": [1, 1], "text": [1, 1], "own": [1, 1], "like": [0, 0], "fitted": [1, 1]}
    assert tasks["like"].preparation.floats_per_site == 0
    assert tasks["fitted"].preparation.floats_per_site == 1 + 4 + 2 * 3  # sums of age, dose and kind; no names again
    averaged = run(fedavg(), tasks["sums"], model(tasks["sums"]), rounds=2)
    first, last = averaged.history.table("bytes_sent")
    before = 4.0 * tasks["sums"].preparation.floats_per_site
    assert torch.equal(last - before, 2 * (first - before))


def test_sites_that_go_by_their_own():
    tasks = Tasks.from_frame(TABLE, pooled="per_site", columns=["age", "dose"], **ALL)
    age = torch.tensor([50.0, 70.0, 50.0])  # of a; the third is missing
    age = (age - age.mean()) / age.std(correction=0)
    dose = torch.tensor([2.0, 4, 6, 8])
    expected = torch.stack([torch.tensor([age[0], age[1], 0, age[2]]), torch.tensor([0.0, 0, 1, 0]),
                            (dose - 5) / dose.std(correction=0)], 1)  # fmt: skip
    torch.testing.assert_close(inputs(tasks, "a"), expected)
    prepared = tasks.preparation
    assert prepared.sites == ("a", "b")
    assert prepared.floats_per_site == 1 + 2 + 2  # rows, known values of two columns, two classes
    torch.testing.assert_close(prepared.apply({"age": [50.0], "dose": [2]}, site="a"), expected[:1])
    torch.testing.assert_close(prepared.apply({k: np.array(v)[1::2] for k, v in TABLE.items()}), expected)
    with raises("unknown", "site", "'c'", "'per_site'"):
        prepared.apply({"age": [50.0], "dose": [2]}, site="c")
    with raises("missing", "site"):
        prepared.apply({"age": [50.0], "dose": [2]})


def split_table(sentinel, category):
    """Six rows a site for training and two for validation and testing, which hold a sentinel."""
    words = np.tile(["train"] * 6 + ["val", "test"], 3)
    value = np.where(words == "train", np.tile(np.arange(8.0), 3) + np.repeat([0, 10, 20], 8), sentinel)
    text = np.where(words == "train", np.tile(["x", "y"], 12), category)
    y = np.where(words == "train", np.arange(24.0) * 7 % 24, sentinel) / 7
    return {"site": np.repeat(["a", "b", "c"], 8), "value": value, "text": text, "y": y, "words": words}


@pytest.mark.parametrize("pooled", ["sums", "per_site"])
def test_only_training_rows_are_looked_at(pooled):
    settings = {"pooled": pooled, "split": "words", "standardize_target": True}
    plain, with_sentinel = (Tasks.from_frame(split_table(*s), **settings) for s in ((3.0, "x"), (1e9, "secret")))
    assert plain.preparation == with_sentinel.preparation
    assert "secret" not in json.dumps(with_sentinel.preparation.to_json())
    for name in "abc":
        assert torch.equal(inputs(plain, name), inputs(with_sentinel, name))
    held = inputs(with_sentinel, "a", "test")
    assert held[0, 0] > 1e7
    assert held[0, 1:].tolist() == [0, 0]  # an unknown category


def test_missing_values_of_other_rows_bring_no_indicator():
    table = split_table(NAN, "x")
    table["y"] = np.tile(["u", "u", "v", "v"], 6)
    tasks = Tasks.from_frame(table, split="words")
    assert tasks.preparation.features == ("value", "text = x", "text = y")
    assert inputs(tasks, "a", "val").tolist() == [[0, 1, 0]]


def test_sums_of_sites_are_what_all_rows_together_give():
    draw = np.random.default_rng(0)
    x = draw.normal(1.7e9, 3.0, 1000)  # large numbers that differ little
    tasks = Tasks.from_frame({"site": draw.integers(0, 7, 1000), "x": x, "y": draw.integers(0, 2, 1000)}, **ALL)
    column = tasks.preparation.columns[0]
    assert column.mean[0] == pytest.approx(x.mean(), rel=1e-14)
    assert column.deviation[0] == pytest.approx(x.std(), rel=1e-9)


@pytest.mark.parametrize("pooled", ["sums", "per_site"])
@pytest.mark.parametrize(("mean", "spread"), [(1e9, 0.01), (-1e9, 3e-5), (1.7e9, 1e-3), (1e-9, 1e-22), (1e29, 1e16)])
def test_large_numbers_that_differ_little_are_standardized(mean, spread, pooled):
    """As NumPy does it in two passes, however small a deviation is beside the mean; so does scikit-learn."""
    x = mean + spread * np.random.default_rng(0).normal(size=60)
    table = {"site": ["a", "b"] * 30, "x": x, "y": ["u", "v", "v", "u"] * 15}
    inputs = Tasks.from_frame(table, pooled=pooled, **ALL).pools["samples"].inputs[:, 0].numpy()
    for rows in (slice(None),) if pooled == "sums" else (slice(0, None, 2), slice(1, None, 2)):
        right = (x[rows] - x[rows].mean()) / x[rows].std()
        np.testing.assert_allclose(inputs[rows], right, atol=1e-5 + 1e-15 * abs(mean) / spread)  # digits of the mean
    amounts = {"site": table["site"], "k": np.sin(np.arange(60)), "y": x}
    amounts = Tasks.from_frame(amounts, pooled=pooled, standardize_target=True, loss="mse", **ALL)
    assert torch.equal(amounts.pools["samples"].targets, torch.from_numpy(inputs))


@pytest.mark.parametrize("value", [0.1, -1e9 / 3, 1e30 / 7, 1e-30 / 3])
def test_numbers_that_are_all_the_same_are_0_at_any_number_of_rows(value):
    draw = np.random.default_rng(0)
    table = {"site": draw.integers(0, 300, 30_000), "x": np.full(30_000, value), "y": draw.integers(0, 2, 30_000)}
    tasks = Tasks.from_frame(table, **ALL)
    assert tasks.preparation.columns[0].deviation == (0.0,)
    assert not tasks.pools["samples"].inputs.any()


def test_a_column_that_does_not_vary_or_is_never_known_says_nothing():
    table = {**TABLE, "age": [0.1] * 8, "dose": [NAN] * 8}
    with warns("quality", "column 'dose'"):
        tasks = Tasks.from_frame(table, columns=["age", "dose"], **ALL)
    assert tasks.pools["samples"].inputs.tolist() == [[0, 0, 1]] * 8
    assert tasks.preparation.apply({"age": [7.0], "dose": [3.0]}).tolist() == [[0, 0, 0]]
    with warns("quality", "column 'dose'"):
        none = Tasks.from_frame(table, columns=["age", "dose"], indicator_above=1, **ALL)
    assert none.preparation.features == ("age", "dose")


def test_real_targets():
    table = {"site": [1, 1, 2, 2], "x": [1, 2, 3, 4], "y": [1.0, 2.0, 3.0, 4.5]}
    plain, standard = (Tasks.from_frame(table, standardize_target=s, **ALL) for s in (False, True))
    assert (plain.loss, plain.metric, plain.preparation.classes) == ("mse", "mae", ())
    assert targets(plain).tolist() == table["y"]
    y = torch.tensor(table["y"])
    torch.testing.assert_close(targets(standard), (y - y.mean()) / y.std(correction=0))
    torch.testing.assert_close(standard.preparation.restore(targets(standard)), y)
    torch.testing.assert_close(standard.preparation.targets(table), targets(standard))
    assert standard.preparation.floats_per_site == plain.preparation.floats_per_site + 2
    own = Tasks.from_frame(table, standardize_target=True, pooled="per_site", **ALL)
    assert targets(own).tolist() == pytest.approx([-1, 1, -1, 1])
    assert own.preparation.restore(torch.tensor([0.0]), site="2").tolist() == [3.75]


@pytest.mark.parametrize(
    ("y", "loss", "classes", "dtype"),
    [
        ([1, 0, 1, 0], None, (0, 1), torch.int64),
        ([1.0, 0.0, 1.0, 0.0], None, (0, 1), torch.int64),
        ([True, False, True, False], None, (0, 1), torch.int64),
        ([10, 9, 10, 9], None, (9, 10), torch.int64),
        (["b", "a", "b", "a"], "bce", ("a", "b"), torch.float32),
        ([0.5, 0.25, 0.5, 0.25], "cross_entropy", (0.25, 0.5), torch.int64),
        (["1", "0", "1", "0"], None, ("0", "1"), torch.int64),
        ([1, 0, 1, 0], "mse", (), torch.float32),
    ],
)
def test_classes_and_real_targets(y, loss, classes, dtype):
    tasks = Tasks.from_frame({"site": [1, 1, 2, 2], "x": [1, 2, 3, 4], "y": y}, loss=loss, **ALL)
    assert tasks.preparation.classes == classes
    assert targets(tasks).dtype == dtype
    assert targets(tasks).tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("kind", ["list", "numpy", "pandas", "polars", "nullable"])
def test_truths_are_given_back_as_such(kind):
    truths = [True, False] * 4
    if kind in ("pandas", "polars", "nullable"):
        library = pytest.importorskip("polars" if kind == "polars" else "pandas")
        truths = library.Series(truths, **({"dtype": "boolean"} if kind == "nullable" else {}))
        frame = library.DataFrame({**TABLE, "y": truths})
    else:
        frame = {**TABLE, "y": np.array(truths) if kind == "numpy" else truths}
    prepared = Tasks.from_frame(frame, columns=["dose"], **ALL).preparation
    assert [*map(repr, prepared.classes)] == ["False", "True"]
    assert [*map(repr, Preparation.from_json(json.loads(json.dumps(prepared.to_json()))).classes)] == ["False", "True"]
    assert prepared.targets({"y": [1, 0]}).tolist() == prepared.targets({"y": [True, False]}).tolist() == [1, 0]


def test_truths_among_inputs_are_numbers():
    features = Tasks.from_frame({**TABLE, "dose": [True, False] * 4}, columns=["dose"], **ALL).preparation.features
    assert features == ("dose",)
    joined = {"a": {"x": [True, False], "y": [0, 1]}, "b": {"x": [2, 1], "y": [0, 1]}}
    found = Tasks.from_frame(joined, **ALL)
    assert found.preparation.columns[0].mean == (1.0,)


def test_rows_as_dicts_are_a_table():
    rows = [{name: values[k] for name, values in TABLE.items() if name != "age" or k} for k in range(8)]
    table = {**TABLE, "age": [None, *TABLE["age"][1:]]}
    one, two = (Tasks.from_frame(some, columns=["age", "sex"], **ALL) for some in (rows, table))
    assert one.preparation == two.preparation
    assert torch.equal(one.pools["samples"].inputs, two.pools["samples"].inputs)
    assert torch.equal(one.preparation.apply(rows[1:3]), two.preparation.apply(table)[1:3])


def test_numbers_of_all_sizes():
    large = {**TABLE, "dose": np.array([2**63 + k for k in range(8)], np.uint64)}
    assert Tasks.from_frame(large, columns=["dose"], **ALL).preparation.columns[0].mean[0] == pytest.approx(2.0**63)
    assert Tasks.from_frame({**TABLE, "dose": [2**70] * 8}, columns=["dose"], **ALL).preparation.features == ("dose",)


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"sex": ["f", "m", None, "F", "m", "f", "f ", "m"]}, "column 'sex' has both 'F' and 'f'"),
        ({"y": ["no", "yes"] * 3 + ["no", "Yes"]}, "the target 'y' has both 'Yes' and 'yes'"),
        ({"site": ["a", "b"] * 3 + ["A ", "b"]}, "column 'site', which names the sites, has both 'A' and 'a'"),
        ({"sex": ["f", "F", "m", "M"] * 2}, "column 'sex' has both 'F' and 'f', 'M' and 'm'"),
        (
            {"sex": [one + word for one in "xX" for word in "abcd"]},
            "column 'sex' has both 'Xa' and 'xa', 'Xb' and 'xb', 'Xc' and 'xc', … (4 in all)",
        ),
    ],
)
def test_two_spellings_of_a_name_are_warned_of(columns, what):
    with warns("quality", None, what):
        Tasks.from_frame({**TABLE, **columns}, **ALL)


@pytest.mark.parametrize("y", [["no"] * 8, [7] * 8, [True] * 8])
def test_targets_that_are_all_the_same_are_refused(y):
    with raises("too-few", "column 'y'", f"'{y[0]}'"):
        Tasks.from_frame({**TABLE, "y": y}, **ALL)
    with raises("too-few", "column 'y'"):
        Tasks.from_frame({**TABLE, "y": y}, loss="bce", **ALL)
    other = {"no": "yes", 7: 8, True: False}[y[0]]
    assert len(Tasks.from_frame({**TABLE, "y": y}, categories={"y": [y[0], other]}, **ALL).preparation.classes) == 2


def test_identifiers_and_dates_are_categories_where_that_is_said():
    table = {"site": ["a", "b"] * 20, "id": [f"p{k}" for k in range(40)], "x": range(40), "y": [0, 1] * 20}
    assert len(Tasks.from_frame(table, categorical=["id"], **ALL).preparation.features) == 41
    days = {**TABLE, "when": ["2026-01-30"] * 8}
    assert Tasks.from_frame(days, columns=["when"], categorical=["when"], **ALL).preparation.features == (
        "when = 2026-01-30",
    )
    classes = Tasks.from_frame({**table, "y": table["id"]}, columns=["x"], loss="cross_entropy", **ALL)
    assert len(classes.preparation.classes) == 40


def test_a_preparation_is_plain_data_and_comes_back():
    for settings in ({}, {"pooled": "per_site"}):
        prepared = Tasks.from_frame(TABLE, categorical=["kind"], **settings, **ALL).preparation
        stored = json.loads(json.dumps(prepared.to_json(), allow_nan=False))
        again = Preparation.from_json(stored)
        assert again == prepared
        assert torch.equal(again.apply(TABLE), prepared.apply(TABLE))
        assert torch.equal(again.targets(TABLE), prepared.targets(TABLE))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: {**s, "version": 9}, ("version", "preparation", "9")),
        (lambda s: {**s, "more": 1}, ("format", "preparation")),
        (lambda s: {k: v for k, v in s.items() if k != "columns"}, ("format", "preparation")),
        (lambda s: {**s, "columns": [3]}, ("value", "a column")),
        (lambda s: {**s, "columns": [{"name": 3}]}, ("value", "name")),
        (
            lambda s: {**s, "target": {**s["target"], "categories": ["0", "x"], "numbers": True}},
            ("value", "column 'y'", "'x'"),
        ),
        (
            lambda s: {**s, "target": {**s["target"], "categories": ["9" * 5000], "numbers": True}},
            ("value", "column 'y'"),
        ),
        (lambda s: {**s, "sites": ["a", "b"]}, ("shape", "column 'age'")),
    ],
)
def test_damaged_preparations_are_refused(change, message):
    stored = Tasks.from_frame(TABLE, **ALL).preparation.to_json()
    with raises(*message):
        Preparation.from_json(change(stored))


def test_a_preparation_is_no_path_of_one():
    with raises("value", "a preparation", "'p.json'"):
        Preparation.from_json("p.json")


def test_predicting_takes_unknown_categories_and_missing_values_but_needs_all_columns():
    prepared = Tasks.from_frame(TABLE, columns=["age", "sex"], **ALL).preparation
    rows = prepared.apply({"sex": ["x", None, "m"], "age": [None, 50, 50], "other": [1, 2, 3]})
    assert rows[:, 2:].tolist() == [[0, 0, 1], [0, 0, 1], [0, 1, 0]]
    assert rows[0, :2].tolist() == [0, 1]
    with raises("unknown", "column 'sex'", "'age'"):
        prepared.apply({"age": [50]})
    with raises("ambiguous", "column 'age'", "0", "'old'"):
        prepared.apply({"age": ["old"], "sex": ["f"]})
    with raises("unknown", "column 'y'", "1", "'maybe'"):
        prepared.targets({"y": ["no", "maybe"]})


def test_columns_are_left_out_by_name():
    kept = [name for name in TABLE if name not in ("site", "y", "sex", "dose")]
    tasks, same = (
        Tasks.from_frame(TABLE, leave_out=["sex", "dose"], **ALL),
        Tasks.from_frame(TABLE, columns=kept, **ALL),
    )
    assert tasks.preparation == same.preparation
    assert torch.equal(tasks.pools["samples"].inputs, same.pools["samples"].inputs)
    again = Tasks.from_frame(TABLE, preparation=tasks.preparation, leave_out=["sex", "not there"], **ALL)
    assert torch.equal(again.pools["samples"].inputs, same.pools["samples"].inputs)
    with raises("conflict", "leave_out", "'age'"):
        Tasks.from_frame(TABLE, preparation=tasks.preparation, leave_out=["age"], **ALL)
    with raises("empty", "columns"):
        Tasks.from_frame(TABLE, leave_out=["sex", "dose", *kept], **ALL)


def test_a_dict_of_sites_is_one_table():
    sites = {name: {k: np.array(v, object)[np.array(TABLE["site"]) == name] for k, v in TABLE.items()} for name in "ba"}
    whole, apart = Tasks.from_frame(TABLE), Tasks.from_frame(sites)
    assert whole.preparation.to_json() == apart.preparation.to_json()
    assert torch.equal(whole.ids, apart.ids)
    for split in whole.splits:
        assert all(torch.equal(inputs(whole, name, split), inputs(apart, name, split)) for name in "ab")
    del sites["a"]["site"]
    assert torch.equal(inputs(Tasks.from_frame(sites), "a"), inputs(whole, "a"))


def test_a_csv_file_needs_no_library(tmp_path):
    path = tmp_path / "table.csv"
    rows = zip(*TABLE.values(), strict=True)
    text = {"nan": "", "None": "?"}
    lines = [";".join(TABLE), *(";".join(text.get(str(cell), str(cell)) for cell in row) for row in rows)]
    path.write_text("\ufeff" + "\n".join(lines) + "\n", encoding="utf-8")
    settings = {"categorical": ["kind"], **ALL}
    tasks, expected = (Tasks.from_frame(one, **settings) for one in (str(path), TABLE))
    assert tasks.preparation == expected.preparation
    assert torch.equal(tasks.pools["samples"].inputs, expected.pools["samples"].inputs)
    by_site = Tasks.from_frame({"a": path, "b": path}, columns=["dose"], node="where", **ALL)
    assert (by_site.names, by_site.sizes("train").tolist()) == (("a", "b"), [8, 8])


@pytest.mark.parametrize(("library", "make"), [("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "table")])
def test_frames_of_libraries(library, make, tmp_path):
    made = pytest.importorskip(library)
    plain = {name: [None if cell != cell else cell for cell in values] for name, values in TABLE.items()}
    frame = getattr(made, make)(plain)
    settings = {"categorical": ["kind"], **ALL}
    tasks, expected = (Tasks.from_frame(one, **settings) for one in (frame, TABLE))
    assert tasks.preparation == expected.preparation
    assert torch.equal(tasks.pools["samples"].inputs, expected.pools["samples"].inputs)
    assert torch.equal(tasks.preparation.apply(frame), tasks.pools["samples"].inputs)
    path = tmp_path / "table.parquet"
    if library == "pyarrow":
        importlib.import_module("pyarrow.parquet").write_table(frame, path)
    else:
        frame.write_parquet(path) if library == "polars" else frame.to_parquet(path)
    stored = Tasks.from_frame(path, **settings)
    assert stored.preparation == expected.preparation


def test_kinds_of_columns_in_pandas():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({
        "where": pd.Categorical(["b", "a"] * 4),
        "whole": pd.array([1, None] * 4, dtype="Int64"),
        "yes": pd.array([True, False, None, True] * 2, dtype="boolean"),
        "mixed": np.array(["u", None, "v", np.nan] * 2, object),
        "level": pd.Categorical([1, 2] * 4),
        7: range(8),
        "when": pd.date_range("2026-01-01", periods=8),
        "y": [0, 1, 1, 0, 0, 1, 0, 1],
    })  # fmt: skip
    columns = ["whole", "yes", "mixed", "level", "7"]
    tasks = Tasks.from_frame(frame, "where", columns=columns, categorical=["level"], **ALL)
    assert tasks.preparation.features == (
        "whole", "whole missing", "yes", "yes missing", "mixed = u", "mixed = v", "mixed missing", "level = 1",
        "level = 2", "7",
    )  # fmt: skip
    with raises("unsupported", "column 'when'"):
        Tasks.from_frame(frame, "where", categorical=["level"])
    with raises("duplicate", "table"):
        Tasks.from_frame(pd.concat([frame, frame["yes"]], axis=1), "where")
    by_site = Tasks.from_frame(dict(list(frame.groupby("where", observed=True))), "where", columns=["7"], **ALL)
    assert by_site.names == ("a", "b")


def test_kinds_of_columns_in_polars():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"site": ["b", "a"] * 4, "whole": [1, None] * 4, "yes": [True, False, None, True] * 2,
                          "level": ["x", "y"] * 4, "y": [0.5] * 7 + [1.0]},
                         schema_overrides={"site": pl.Categorical, "whole": pl.UInt8,
                                           "level": pl.Enum(["x", "y"])})  # fmt: skip
    tasks = Tasks.from_frame(frame, **ALL)
    features = ("whole", "whole missing", "yes", "yes missing", "level = x", "level = y")
    assert tasks.preparation.features == features
    with raises("type", "table", kind=TypeError):
        Tasks.from_frame(frame.lazy())


@pytest.mark.parametrize("pooled", ["sums", "per_site"])
def test_further_rows_are_prepared_as_others_were(pooled):
    first = Tasks.from_frame(TABLE, pooled=pooled, categorical=["kind"], **ALL)
    more = {name: values[2:4] for name, values in TABLE.items()}  # a row of each site
    later = Tasks.from_frame(more, preparation=first.preparation, **ALL)
    assert later.preparation == replace(first.preparation, floats_per_site=0)
    assert torch.equal(later.pools["samples"].inputs, first.pools["samples"].inputs[2:4])
    assert targets(later).tolist() == [1, 0]
    with raises("unknown", "column 'y'", "'maybe'"):
        Tasks.from_frame({**more, "y": ["no", "maybe"]}, preparation=first.preparation, **ALL)
    with raises("unknown", "column 'sex'"):
        Tasks.from_frame({k: v for k, v in more.items() if k != "sex"}, preparation=first.preparation, **ALL)
    given = {"categorical": ["kind", "sex"], "node": "site", "target": "y"}
    given["columns"] = [one.name for one in first.preparation.columns]
    assert Tasks.from_frame(more, preparation=first.preparation, **given, **ALL).preparation == later.preparation
    for wrong in ({"node": "hospital"}, {"target": "nonsense"}, {"columns": ["age"]}, {"categorical": ["age"]}):
        with raises("conflict", next(iter(wrong))):
            Tasks.from_frame(more, preparation=first.preparation, **wrong, **ALL)
    if pooled == "per_site":
        with raises("unknown", "site", "'c'"):
            Tasks.from_frame({**more, "site": ["a", "c"]}, preparation=first.preparation, **ALL)


@pytest.mark.parametrize("pooled", ["sums", "per_site"])
def test_other_splits_have_the_same_features_and_means_of_their_own(pooled):
    rare = {
        **TABLE,
        "sex": [None, "m", "f", "m", "x", "m", "f", "m"],
        "y": [0, 1, 2, 0, 0, 1, 0, 1],
        "part": ["train"] * 8,
    }
    first = Tasks.from_frame({**rare, "unused": rare["dose"]}, columns=["sex", "dose"], pooled=pooled, **ALL)
    rare["part"] = ["train"] * 2 + ["test"] * 6  # no f, no x, and no 2 to train on
    settings = {"split": "part", "val_fraction": 0}
    later = Tasks.from_frame(rare, preparation=first.preparation, refit=True, pooled=pooled, **settings)
    assert later.preparation.features == ("sex = f", "sex = m", "sex = x", "sex missing", "dose")
    assert later.preparation.features == first.preparation.features
    assert later.preparation.classes == (0, 1, 2)
    means = {"sums": (1.5,), "per_site": (2.0, 1.0)}
    assert later.preparation.columns[1].mean == means[pooled]
    own = Tasks.from_frame({**rare, "y": [0, 1] * 4}, columns=["sex", "dose"], **settings)
    assert own.preparation.features == ("sex = m", "sex missing", "dose")


def test_tasks_of_a_table_are_trained():
    tasks = Tasks.from_frame({**TABLE, "site": ["a"] * 4 + ["b"] * 4}, val_fraction=0.25)
    result = run(fedavg(), tasks, torch.nn.Linear(len(tasks.preparation.features), 2), rounds=1)
    assert result.tasks.select([1]).preparation is tasks.preparation


def changed(**columns):
    return {**TABLE, **columns}


@pytest.mark.parametrize(
    ("frame", "settings", "message"),
    [
        (TABLE, {"node": "hospital"}, ("unknown", "column 'hospital'", "'site'", "'age'")),
        (TABLE, {"target": "ill"}, ("unknown", "column 'ill'")),
        (changed(Ill=[0, 1] * 4), {"target": "ill"}, ("unknown", "column 'ill'", "'Ill'", "'site'")),
        (TABLE, {"split": "prat"}, ("unknown", "column 'prat'")),
        (TABLE, {"categorical": ["knd"]}, ("unknown", "column 'knd'", "'kind'")),
        (TABLE, {"categorical": ["site"]}, ("conflict", "column 'site'")),
        (TABLE, {"columns": []}, ("empty", "columns", "'site'", "'age'")),
        (changed(when=["2026-01-30", None, "2026-02-01", "2026-02-03 10:00"] * 2), {},
         ("unsupported", "column 'when'", "'b'", "'2026-01-30'")),
        (changed(when=["1.2.26", "31/01/2026", "01-12-99", "?"] * 2), {}, ("unsupported", "column 'when'")),
        (changed(when=np.array(["2026-01-30"] * 8, "datetime64[D]")), {}, ("unsupported", "column 'when'")),
        (changed(when=[date(2026, 1, 30)] * 8), {}, ("unsupported", "column 'when'", "2026", "30")),
        ({"site": ["a", "b"] * 20, "id": [f"p{k}" for k in range(38)] + [None] * 2, "x": range(40), "y": [0, 1] * 20},
         {}, ("ambiguous", "column 'id'", "38", "'p0'")),
        ({"site": ["a", "b"] * 20, "x": range(40), "y": [f"p{k}" for k in range(40)]}, {},
         ("ambiguous", "column 'y'", "40", "'cross_entropy'")),
        (changed(y=["1.5", "2.5", "3.5", "none of it"] * 2), {}, ("ambiguous", "column 'y'", "'none of it'")),
        (TABLE, {"node": "y"}, ("conflict", "node", "'y'")),
        ({name: [] for name in TABLE}, {}, ("empty", "table", "'site'", "'age'")),

        (TABLE, {"columns": ["aeg"]}, ("unknown", "column 'aeg'", "'age'")),
        (TABLE, {"leave_out": ["aeg"]}, ("unknown", "column 'aeg'", "'age'")),
        (TABLE, {"leave_out": ["site"]}, ("conflict", "column 'site'")),
        (TABLE, {"leave_out": ["sex"], "columns": ["age"]}, ("conflict", "columns")),
        (TABLE, {"leave_out": "age"}, ("value", "leave_out", "'age'")),
        (TABLE, {"columns": ["y"]}, ("conflict", "column 'y'")),
        (TABLE, {"columns": "age"}, ("value", "columns", "'age'")),
        (TABLE, {"split": "sex"}, ("value", "split", "'b'", "'f'", "'train'")),
        (changed(site=["a", None] * 4), {}, ("missing", "node", "'site'")),
        (changed(site=[1.0, NAN] * 4), {}, ("missing", "node", "'site'")),
        (changed(y=["no", None] * 4), {}, ("missing", "column 'y'", "'a'", "8")),
        (changed(y=["no", None, *["yes"] * 6]), {}, ("missing", "column 'y'", "'a'")),
        (changed(age=[1.0, np.inf] * 4), {}, ("range", "column 'age'", "'a'")),
        (changed(age=["30", "50", "??", *["70"] * 5]), {},
         ("ambiguous", "column 'age'", "'b'")),
        (changed(age=["30", "50"] * 4), {}, ("ambiguous", "column 'age'", "'30'", "'b'")),
        (changed(age=[30, "old", *[3] * 6]), {}, ("mismatch", "column 'age'", "'old'", "30")),
        (changed(age=[3] * 7), {}, ("shape", "table", "'age'", "7")),
        (changed(age=np.zeros((8, 2))), {}, ("shape", "column 'age'", "8")),
        (changed(y=np.arange(8) * 1000), {"loss": "bce"}, ("conflict", "loss", "'bce'", "'y'")),
        (changed(y=["a"] * 8), {"loss": "mse"},
         ("ambiguous", "column 'y'", "'a'", "'b'", "loss='mse'")),
        (changed(y=["1.5", "2.5", "??", "4"] * 2), {"loss": "mse"},
         ("ambiguous", "column 'y'", "'b'")),
        (changed(y=["1.5", "2.5"] * 4), {"loss": "mse"}, ("ambiguous", "column 'y'")),
        (changed(y=[1.5, np.inf] * 4), {"loss": "mse"}, ("range", "column 'y'")),
        ({"a": {"x": [1], "y": [1]}, " a": {"x": [1], "y": [1]}}, {}, ("duplicate", "sites")),
        ({"site": ["a"] * 60, "x": range(60), "y": range(60)}, {},
         ("ambiguous", "column 'y'", "60", "'mse'")),
        ({"site": ["a"] * 4, "x": range(4), "y": list("uuuv"), "s": ["train", "train", "val", "test"]},
         {"split": "s"}, ("unknown", "column 'y'", "'a'", "'v'")),
        ({"a": {"x": [1], "y": [1]}, "b": {"y": [1]}}, {},
         ("mismatch", "column 'x'", "'b'")),
        ({"a": {"x": [1, np.inf], "y": [1, 2]}, "b": {"x": [np.inf, 1], "y": [1, 2]}}, {},
         ("range", "column 'x'", "'a'")),
        ({"a": {"x": [1, 2], "y": [1, 2]}, "b": {"x": [np.inf, 1], "y": [1, 2]}}, {},
         ("range", "column 'x'", "'b'")),
        ({"a": {"x": [1], "y": [1]}, "b": {"x": [[1]], "y": [1]}}, {}, ("mismatch", "column 'x'", "'b'")),
        ({"a": {"x": [1], "y": [1]}, "b": {"x": [], "y": []}}, {}, ("empty", "site 'b'")),
        ({"a": {"x": [1], "y": [1], "who": ["a"]}, "b": {"x": [1], "y": [0], "who": ["b"]}}, {},
         ("conflict", "column 'who'")),
        (changed(age=3.0), {}, ("shape", "column 'age'", "3.0")),
        ({"a": {"site": ["b"], "x": [1], "y": [1]}}, {},
         ("conflict", "site 'a'")),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(frame, settings, message):
    with raises(*message):
        Tasks.from_frame(frame, **{**ALL, **settings})


def test_files_that_cannot_be_read(tmp_path):
    with raises(
        "missing-file",
        f"file {tmp_path / 'none.csv'}",
        kind=FileNotFoundError,
    ):
        Tasks.from_frame(tmp_path / "none.csv")
    wrong = {
        "a,b\n1\n": ("format", "row 0", "2 columns"),
        "a,b,a\n1,2,3\n": ("duplicate", "'a'"),
        "": ("empty",),
    }
    for text, (code, *facts) in {**wrong, "a,b\n": ("empty", "'a', 'b'")}.items():
        (tmp_path / "bad.csv").write_text(text)
        with raises(code, f"file {tmp_path / 'bad.csv'}", *facts):
            Tasks.from_frame(tmp_path / "bad.csv")
    (tmp_path / "bad.csv").write_text(",age,y\n7,1,1\n")
    with raises("format", f"file {tmp_path / 'bad.csv'}"):
        Tasks.from_frame(tmp_path / "bad.csv")
    (tmp_path / "bad.csv").write_bytes(b"\xff\xfe\x00,")
    with raises("format", f"file {tmp_path / 'bad.csv'}"):
        Tasks.from_frame(tmp_path / "bad.csv")
    (tmp_path / "bad.xlsx").write_bytes(b"PK")
    with raises("format", f"file {tmp_path / 'bad.xlsx'}"):
        Tasks.from_frame(tmp_path / "bad.xlsx")
    with raises("value", f"file {tmp_path}"):
        Tasks.from_frame(tmp_path)
    with raises("type", "table", kind=TypeError):
        Tasks.from_frame(3)


def test_zeros_before_numbers_are_kept(tmp_path):
    (tmp_path / "zip.csv").write_text("site,zip,y\n" + "a,01234,0\nb,1234,1\n" * 3)
    tasks = Tasks.from_frame(tmp_path / "zip.csv", categorical=["zip"], **ALL)
    assert tasks.preparation.features == ("zip = 01234", "zip = 1234")
    assert replace(tasks.preparation).features == tasks.preparation.features


def test_numbers_may_have_decimal_commas(tmp_path):
    """As in files whose values are separated by semicolons; a column without any stays what it is."""
    rows = [f"{'ab'[k % 2]};{k},5;{k};{'x,y' if k % 3 else 'z'};{k % 4 // 2}" for k in range(24)]
    (tmp_path / "table.csv").write_text("\n".join(["site;age;count;kind;target", *rows, "a;;3;z;1"]))
    tasks = Tasks.from_frame(tmp_path / "table.csv", node="site", target="target", indicator_above=0.9)
    assert tasks.preparation.features == ("age", "count", "kind = x,y", "kind = z")
    inputs = tasks.preparation.apply({"age": [4.5, 6.5], "count": [4, 6], "kind": ["z", "z"]})
    deviation = tasks.preparation.columns[0].deviation[0]
    assert abs(float(inputs[1, 0] - inputs[0, 0]) - 2 / deviation) < 1e-5


@pytest.mark.parametrize("pooled", ["sums", "per_site"])
def test_rows_of_another_site_are_not_taken_for_a_site_s_own(pooled):
    given = Tasks.from_frame({"site": ["a", "b"] * 4, "x": range(8), "y": [0, 1] * 4}, pooled=pooled, **ALL).preparation
    rows = {"site": ["a", None, "b"], "x": [1, 2, 3], "y": [0, 0, 1]}
    for read in (given.apply, given.targets):
        with raises("conflict", "site", "2", "'b'", "'a'"):
            read(rows, "a")
    own = {name: values[:2] for name, values in rows.items()}
    without = {"x": [1, 2]}
    assert torch.equal(given.apply(own, "a"), given.apply(without, "a"))
    assert torch.equal(given.apply({"a": without}, "a"), given.apply(without, "a"))


def test_new_values_that_are_strange_are_warned_of():
    table = {**TABLE, "age": [30.0, 50.0] * 4}  # mean 40, standard deviation 10
    given = Tasks.from_frame(table, columns=["age", "sex"], **ALL).preparation
    rows = {"age": [40, 1050], "sex": ["F", "m"], "site": ["a", "b"], "y": ["no", "yes"]}
    for read in (given.apply, lambda rows: Tasks.from_frame(rows, preparation=given, **ALL)):
        with warns("quality", "column 'age'", "1", "1050", "101", "40"):
            read({**rows, "sex": ["f", "x"]})
        with warns("quality", "column 'sex'", "'F'", "'f'"):
            read({**rows, "age": [40, 1040]})
        read({**rows, "age": [40, 1040], "sex": ["x", "m"]})


def numbered(count, name, values):
    return {"site": ["a", "b"] * (count // 2), name: values, "y": [k // 2 % 2 for k in range(count)]}


@pytest.mark.parametrize(
    "table",
    [numbered(100, "row", range(1, 101)), numbered(12, "patient_id", range(700, 712)),
     numbered(12, "ID", [k // 2 for k in range(12)]), numbered(12, "caseId", [10**9 * k for k in range(12)]),
     numbered(100, "n", [1.0 + k * 7 % 100 for k in range(100)])],
)  # fmt: skip
def test_numbers_of_rows_are_warned_of(table):
    with warns("quality", f"column '{list(table)[1]}'", "leave_out="):
        Tasks.from_frame(table, **ALL)


def test_numbers_that_differ_are_not_always_numbers_of_rows():
    for table in (numbered(40, "age", range(20, 60)), numbered(100, "income", [k * 1000 for k in range(100)]),
                  numbered(12, "acid", range(12)), numbered(12, "id", [1] * 12),
                  numbered(100, "x", [k / 2 for k in range(100)])):  # fmt: skip
        Tasks.from_frame(table, **ALL)
    Tasks.from_frame(numbered(12, "id", range(12)), categorical=["id"], **ALL)


def test_sites_of_one_class_have_no_auc():
    y = [(0, k // 3 % 2, 1)[k % 3] for k in range(24)]  # a has 0, c has 1
    table = {"site": [*"abc"] * 8, "x": [k % 7 for k in range(24)], "y": y}
    with warns("quality", "metric", "'a'", "'c'", "'auc'"):
        Tasks.from_frame(table, metric="auc")
    Tasks.from_frame(table, metric="brier")


def test_accuracy_is_doubted_where_most_rows_are_of_one_class():
    table = {"site": [*"abc"] * 40, "x": [k % 7 for k in range(120)], "y": ["no"] * 100 + ["yes"] * 20}  # 83 %
    with warns("quality", "metric", "83 %", "'no'", "'log_loss'"):
        Tasks.from_frame(table, metric="accuracy")
    Tasks.from_frame(table, metric="brier")
    Tasks.from_frame(table | {"y": ["no"] * 95 + ["yes"] * 25}, metric="accuracy")  # 79 %
    Tasks.from_frame({name: column[21:] for name, column in table.items()}, metric="accuracy")  # 79 of 99 rows


def test_a_column_of_amounts_names_no_site_with_cells_missing_or_not():
    for site in ([12.5, None, 3.0, 4.0], [None, 12.5, 3.0, 4.0]):
        with pytest.raises(ValueError, match=r"12\.5 as the name of its site.*name another column"):
            Tasks.from_frame({"site": site, "x": [1, 2, 3, 4], "y": [0, 1, 0, 1]})


@pytest.mark.parametrize("reader", ["polars", "pyarrow", "pandas"])
def test_an_index_without_a_name_is_no_column(reader, tmp_path):
    pd, read = pytest.importorskip("pandas"), pytest.importorskip(reader)
    pytest.importorskip("pyarrow")  # writes Parquet
    frame = pd.DataFrame({"site": ["a", "b"] * 4, "x": range(8), "y": [0, 1, 1, 0] * 2}).sort_values("site")
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    if reader == "pyarrow":
        stored = importlib.import_module("pyarrow.parquet").read_table(path)
    else:
        stored = read.read_parquet(path)
    assert ("__index_level_0__" in getattr(stored, "column_names", stored.columns)) == (reader != "pandas")
    for given in (path, stored):
        assert Tasks.from_frame(given, **ALL).preparation.features == ("x",)
    for site in "ab":
        frame[frame["site"] == site].to_parquet(tmp_path / f"{site}.parquet")
    by_site = Tasks.from_frame({"a": tmp_path / "a.parquet", "b": frame[frame["site"] == "b"]}, **ALL)
    assert (by_site.names, by_site.preparation.features) == (("a", "b"), ("x",))


def test_columns_that_a_frame_declares_are_categories():
    """A type of categories says so, whatever they look like; new rows of a CSV file are read alike."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    site, codes, words = ["a", "b"] * 6, [3, 10, 3, None] * 3, ["7", "07", "1 %"] * 4
    y = [2, 5, 5] * 4
    frame = pd.DataFrame({
        "site": site, "code": pd.Categorical(codes), "word": pd.Categorical(words),
        "age": pd.cut([20, 30, 40, 50] * 3, [0, 35, 99]), "y": pd.Categorical(y),
    })  # fmt: skip
    tasks = Tasks.from_frame(frame, **ALL)
    assert tasks.preparation.features == (
        "code = 3", "code = 10", "code missing", "word = 07", "word = 7", "word = 1 %", "age = (0, 35]",
        "age = (35, 99]",
    )  # fmt: skip
    assert tasks.preparation.classes == (2, 5)
    assert tasks.loss == "cross_entropy"
    rows = {"code": [10, 3], "word": ["7", "7"], "age": ["(0, 35]", "(35, 99]"]}
    expected = [[0.0, 1, 0, 0, 1, 0, 1, 0], [1, 0, 0, 0, 1, 0, 0, 1]]
    assert tasks.preparation.apply(rows).tolist() == tasks.preparation.apply(pd.DataFrame(rows)).tolist() == expected
    amounts = frame.assign(y=pd.Categorical([0.5, 1.5] * 6))
    assert Tasks.from_frame(amounts, **ALL).preparation.classes == (0.5, 1.5)
    kind = pl.Enum(["7", "07", "1 %"])
    for type_ in (pl.Categorical, kind):
        named = pl.DataFrame({"site": site, "word": words, "y": y}, schema_overrides={"word": type_})
        assert Tasks.from_frame(named, **ALL).preparation.features == ("word = 07", "word = 7", "word = 1 %")
    parts = {one: frame[frame["site"] == one] for one in "ab"}
    assert Tasks.from_frame(parts, **ALL).preparation.features == tasks.preparation.features


def test_declared_categories_are_not_dates_and_no_names_of_rows():
    """Those who make categories of all columns to save memory do not mean it."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"site": ["a", "b"] * 6, "v": range(12), "y": [0, 1, 1] * 4})
    with raises("ambiguous", "column 'v'", "12", "'0'"):
        Tasks.from_frame(frame.assign(v=pd.Categorical(frame["v"])), **ALL)
    days = pd.Categorical(pd.to_datetime(["2026-01-05", "2026-02-05"] * 6))
    with raises("unsupported", "column 'v'", "0", "'a'", "2026", "01"):
        Tasks.from_frame(frame.assign(v=days), **ALL)
    meant = Tasks.from_frame(frame.assign(v=pd.Categorical(frame["v"])), categorical=["v"], **ALL)
    assert len(meant.preparation.features) == 12


@pytest.mark.parametrize("word", ["?", ".", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "None", "NULL", "null", "<NA>"])
def test_words_for_missing_values_are_read_alike_everywhere(word, tmp_path):
    pd = pytest.importorskip("pandas")
    table = {"site": ["a", "b"] * 6, "v": ["x", word, "z"] * 4, "n": [1, 2, 3, 4] * 3, "y": [0, 1, 1] * 4}
    path = tmp_path / "t.csv"
    path.write_text(
        "\n".join([",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))])
    )
    mixed = {**table, "n": [1, 2, f" {word} ", 4] * 3}  # numbers, and words for those that are missing
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    for one in (path, table, rows, pd.DataFrame(table), pd.DataFrame(table).astype({"v": "category"})):
        assert Tasks.from_frame(one, **ALL).preparation.features == ("v = x", "v = z", "v missing", "n")
    prepared = Tasks.from_frame(mixed, **ALL).preparation
    assert prepared.features == ("v = x", "v = z", "v missing", "n", "n missing")
    assert prepared.columns[1].mean == (7 / 3,)
    assert prepared.apply({"v": [word], "n": ["?"]}).tolist() == [[0, 0, 1, 0, 1]]


@pytest.mark.parametrize("word", ["unknown", "none", "-", "missing"])
def test_other_words_are_categories(word):
    table = {"site": ["a", "b"] * 6, "v": ["x", word] * 6, "y": [0, 1, 1] * 4}
    assert set(Tasks.from_frame(table, **ALL).preparation.features) == {"v = x", f"v = {word}"}


def test_columns_without_values_and_rows_in_other_units_are_warned_of():
    age = np.array([40.0, 50, 60] * 4)  # mean 50, standard deviation sqrt(200 / 3) = 8.16
    table = {"site": ["a", "b"] * 6, "age": age, "sex": ["f", "m", "m"] * 4, "dose": [1, NAN, 3, 4] * 3}
    table["y"] = [0, 1, 1, 0] * 3
    prepared = Tasks.from_frame(table, **ALL).preparation
    rows = {"age": [NAN, NAN], "sex": ["f", "m"], "dose": [NAN, NAN]}  # of doses it was known in training
    with warns("quality", "column 'age'") as told:
        assert prepared.apply(rows)[:, 0].tolist() == [0, 0]
    assert len(told) == 1
    with warns("quality", "column 'sex'"):
        prepared.apply({**rows, "age": [50, 50], "sex": [None, ""]})
    prepared.apply({**rows, "age": [NAN, 50]})
    months = {name: [one[k] for k in (0, 1, 2)] for name, one in table.items()} | {"age": [480, 600, 720]}
    with warns("quality", "column 'age'", "2", "720", "82", "50"):
        prepared.apply(months)
    prepared.apply({**months, "age": [720, 50, 40]})  # one in a few may be so
    prepared.apply({name: one[:1] for name, one in months.items()} | {"age": [50 + 8.16 * 29]})
    with warns("quality", "column 'age'", "0", "480", "53"):
        prepared.apply({name: one[:1] for name, one in months.items()})
    newcomer = {**months, "site": ["c"] * 3, "dose": [1, 2, 3]}
    with warns("quality", "column 'age'", "2", "720"):
        Tasks.from_frame(newcomer, preparation=prepared, **ALL)


def test_classes_are_not_standardized():
    with raises("conflict", "standardize_target", "'y'"):
        Tasks.from_frame(TABLE, standardize_target=True, **ALL)


@pytest.mark.parametrize(
    ("change", "settings", "says"),
    [
        ({"site": np.array(["2026-01-30"] * 8, "datetime64[D]")}, {}, ("unsupported", "column 'site'")),
        ({"y": np.array(["2026-01-30"] * 8, "datetime64[D]")}, {}, ("unsupported", "column 'y'")),
        ({"y": ["30.01.2026"] * 8}, {}, ("unsupported", "column 'y'")),
        ({"age": np.array([3] * 8, "timedelta64[D]")}, {}, ("unsupported", "column 'age'")),
        (
            {"y": [0, 1, 2] * 2 + [0, 1]},
            {"loss": "bce"},
            ("conflict", "loss", "'cross_entropy'"),
        ),
        ({}, {"group": ["sex"]}, ("shape", "group", "8", "'sex'")),
        ({"site": ["a", "b"] * 3 + ["NA", "b"]}, {}, ("missing", "node", "6", "'site'")),
        ({"part": [0, 1] * 4}, {"split": "part"}, ("value", "split")),
        (
            {"part": ["train", "test"] * 4, "site": ["a", "b"] * 4},
            {"split": "part", "val_fraction": 0.2},
            ("too-few", "node 'b'", "'train'"),
        ),
    ],
)
def test_advice_can_be_followed(change, settings, says):
    with raises(*says):
        Tasks.from_frame(changed(**change), **({} if "split" in settings else ALL), **settings)


def test_columns_that_nobody_named():
    table = {"Klinik": ["a", "b"] * 4, "Kosten": [0.5, 1.5] * 4}
    with raises("missing", "node", "'site'", "'Klinik'"):
        Tasks.from_frame(table)
    with raises("missing", "target", "'y'"):
        Tasks.from_frame(table, node="Klinik")
    with raises("missing", "node", "'site'", "'Site'"):
        Tasks.from_frame({"Site": ["a"], "y": [1]})
    with raises("type", "drop", "'leave_out'", kind=(TypeError, ValueError)):
        Tasks.from_frame(table, drop=["Kosten"])


def test_amounts_that_are_taken_for_classes_are_told_briefly():
    table = {"site": ["a", "b"] * 40, "x": [0.5] * 80, "costs": [k + 0.5 for k in range(80)]}
    with raises("conflict", "loss", "column 'costs'", "0.5 in row 0 (site 'a')"):
        Tasks.from_frame(table, target="costs", loss="cross_entropy")


def test_an_index_is_no_column():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE)
    with raises("missing", "node"):
        Tasks.from_frame(frame.set_index("site"))
    with raises("type", "table", kind=TypeError):
        Tasks.from_frame([frame, frame])


def test_whole_numbers_beyond_63_bits_do_not_wrap():
    pl = pytest.importorskip("polars")
    large = pl.DataFrame(TABLE, strict=False).with_columns(
        dose=pl.Series([2**63 + k for k in range(8)], dtype=pl.UInt64)
    )
    assert Tasks.from_frame(large, columns=["dose"], **ALL).preparation.columns[0].mean[0] == pytest.approx(2.0**63)


def test_a_parquet_file_with_two_columns_of_one_name(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table([["a", "b"] * 4, range(8), range(8), [0, 1] * 4], names=["site", "x", "x", "y"])
    parquet.write_table(table, tmp_path / "t.parquet")
    for given in (table, tmp_path / "t.parquet"):
        with raises("duplicate", "table", "'x'"):
            Tasks.from_frame(given)


def test_files_of_which_only_some_were_read_as_numbers(tmp_path):
    pandas = pytest.importorskip("pandas")
    ages = {"a": [40.5, 51, 62, 39, 47, 58], "b": [44, 61, "?", 52, 49, 63]}
    for site, values in ages.items():
        rows = [f"{site},{age},{k % 2}" for k, age in enumerate(values)]
        (tmp_path / f"{site}.csv").write_text("\n".join(["site,age,y", *rows]))
    read = lambda **told: pandas.concat([pandas.read_csv(tmp_path / f"{site}.csv", **told) for site in ages])  # noqa: E731
    frame = read()
    with raises("ambiguous", "column 'age'", "6", "'44'", "0", "40.5") as told:
        Tasks.from_frame(frame)
    assert "become text, here by '?' in row 8: make all of them numbers, in pandas by" in str(told.value)
    assert "leave it out" not in str(told.value)
    cures = [frame.assign(age=pandas.to_numeric(frame["age"], errors="coerce")), read(na_values=["?"])]
    for cure in ("pd.to_numeric(frame['age'], errors='coerce')", "na_values=['?']"):
        assert cure in str(told.value)
    for cured in cures:
        mean = np.mean([age for values in ages.values() for age in values if age != "?"])
        split = ["train"] * 12
        tasks = Tasks.from_frame(cured.assign(part=split), split="part", val_fraction=0)
        assert tasks.preparation.features == ("age", "age missing")
        assert tasks.preparation.columns[0].mean[0] == pytest.approx(mean)


def test_numbers_that_are_partly_text_beside_words():
    codes = changed(age=[30, "40", "ward B", *[3] * 5])
    with raises("ambiguous", "column 'age'", "'ward B'", "2"):
        Tasks.from_frame(codes)
    with raises("ambiguous", "column 'age'"):
        Tasks.from_frame(codes)
    with raises("ambiguous", "column 'age'", "'coerce'"):
        Tasks.from_frame(changed(age=[30, "40", None, *[3] * 5]))


def test_rows_as_dicts_for_every_site():
    rows = {"a": [{"x": k, "y": k % 2} for k in range(6)], "b": [{"x": 9 - k, "y": k % 2} for k in range(6)]}
    columns = {site: {name: [row[name] for row in some] for name in ("x", "y")} for site, some in rows.items()}
    one, other = (Tasks.from_frame(given) for given in (rows, columns))
    assert one.names == ("a", "b")
    assert torch.equal(one.pools["samples"].inputs, other.pools["samples"].inputs)


def test_categories_may_be_named():
    table = {
        "site": ["a"] * 4 + ["b"] * 4,
        "ward": ["x", "y", None, "z"] * 2,
        "code": [3, 1, 1, 3] * 2,
        "y": [1, 0] * 4,
    }
    named = {"ward": ["y", "q", "x"], "code": [3, 1], "y": [1, 0]}
    tasks = Tasks.from_frame(table, categories=named, val_fraction=0, test_fraction=0)
    assert tasks.preparation.features == ("ward = y", "ward = q", "ward = x", "ward missing", "code = 3", "code = 1")
    assert tasks.preparation.classes == (1, 0)
    pool = tasks.pools["samples"]
    assert pool.inputs[:4].tolist() == [[0, 0, 1, 0, 1, 0], [1, 0, 0, 0, 0, 1], [0, 0, 0, 1, 0, 1], [0, 0, 0, 1, 1, 0]]
    assert pool.targets.tolist() == [0, 1] * 4
    assert tasks.preparation.floats_per_site == 3  # rows, and known values of two columns


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"categories": {"age": ["x"]}}, ("unknown", "column 'age'")),
        ({"categories": {"ward": ["x", "x"]}}, ("value", "column 'ward'")),
        ({"categories": {"ward": []}}, ("value", "column 'ward'")),
        ({"categories": {"y": [0, 2]}}, ("unknown", "column 'y'")),
        ({"categories": ["ward"]}, ("value", "categories")),
    ],
)
def test_categories_that_cannot_be_are_refused(settings, words):
    table = {"site": ["a"] * 8, "ward": ["x", "y"] * 4, "y": [1, 0] * 4}
    with raises(*words):
        Tasks.from_frame(table, **settings)


def test_named_categories_and_a_preparation_contradict_each_other():
    table = {"site": ["a"] * 8, "ward": ["x", "y"] * 4, "y": [1, 0, 0, 1] * 2}
    known = Tasks.from_frame(table).preparation
    with raises("conflict", "categories"):
        Tasks.from_frame(table, preparation=known, categories={"ward": ["x"]})


def test_parquet_files_keep_indices_and_decimals(tmp_path):
    pd, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    price = [Decimal(k) / 4 for k in range(16)]
    frame = pd.DataFrame({"price": price, "y": [0, 1] * 8}, index=pd.Index(["a", "b"] * 8, name="site"))
    frame.to_parquet(tmp_path / "t.parquet")
    stored = Tasks.from_frame(tmp_path / "t.parquet", **ALL)
    plain = {"site": ["a", "b"] * 8, "price": [float(one) for one in price], "y": [0, 1] * 8}
    assert stored.preparation == Tasks.from_frame(plain, **ALL).preparation
