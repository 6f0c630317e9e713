"""Sites that keep their samples make the tasks that all samples together would make."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from graphcollab import Tasks, load_dataset
from graphcollab.data import Preparation
from graphcollab.data.preparation import Column
from graphcollab.sites import tasks_of_site, told_by_site
from tests.data.rooms import at_sites, prepared, refusal, results_of
from tests.raising import warns

COLUMNS = (
    "age",
    "sex",
    "cp",
    "trestbps",
    "chol",
    "fbs",
    "restecg",
    "thalach",
    "exang",
    "oldpeak",
    "slope",
    "ca",
    "thal",
)
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
quiet = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def hospitals():
    """The columns of every hospital's own table; chest pain in words."""
    columns = dict(load_dataset("heart_disease").columns)
    words = {1: "typical", 2: "atypical", 3: "none", 4: "silent"}
    columns["cp"] = np.array([words.get(one) for one in columns["cp"].tolist()], object)
    columns["weight"] = np.arange(1.0, 921)
    columns["family"] = np.arange(920) // 3
    where = columns.pop("hospital")
    return {name: {key: values[where == name] for key, values in columns.items()} for name in HOSPITALS}


def alone(tables, order=None, **settings):
    """What every site makes, by name."""
    names = order or list(tables)
    found, _ = at_sites(lambda door, k: tasks_of_site(door, names[k], tables[names[k]], **settings), len(names))
    return dict(zip(names, results_of(found), strict=True))


def require_equal(own, pooled, place, tolerance=1e-6):
    """Check that a site's tasks are a share of the pooled ones, up to rounding of inputs, targets and constants."""
    share = pooled.share(torch.tensor([place]))
    assert own.names == share.names
    assert torch.equal(own.ids, share.ids)
    assert (own.loss, own.metric, own.split_given) == (share.loss, share.metric, share.split_given)
    assert list(own.splits) == list(share.splits)
    for name, split in share.splits.items():
        assert torch.equal(own.splits[name].index, split.index), name
        assert torch.equal(own.splits[name].ptr, split.ptr), name
        assert own.splits[name].pool == split.pool
    assert (own.classes is None) == (share.classes is None)
    assert own.classes is None or torch.equal(own.classes, share.classes)
    assert list(own.pools) == list(share.pools)
    for name, pool in share.pools.items():
        mine = own.pools[name]
        for key in ("inputs", "targets", "weight", "group"):
            one, other = getattr(mine, key), getattr(pool, key)
            assert (one is None) == (other is None), key
            assert one is None or one.dtype == other.dtype, key
            assert one is None or torch.allclose(one, other, rtol=0, atol=tolerance), key
    if share.preparation is None:
        assert own.preparation is None
        return
    known, prepared = share.preparation, own.preparation
    assert prepared.features == known.features
    assert prepared.classes == known.classes
    assert (prepared.node, prepared.group, prepared.floats_per_site) == (known.node, known.group, known.floats_per_site)
    at = place if known.sites else 0
    for one, other in zip((*prepared.columns, prepared.target), (*known.columns, known.target), strict=True):
        assert one.mean[0] == pytest.approx(other.mean[at], rel=1e-12)
        assert one.deviation[0] == pytest.approx(other.deviation[at], rel=1e-12)
        assert len(one.mean) == len(one.deviation) == 1 if prepared.sites or not known.sites else True
        assert (one.categories, one.indicator, one.numbers, one.truths) == (
            other.categories, other.indicator, other.numbers, other.truths,
        )  # fmt: skip
    assert prepared.sites == ((own.names[place],) if known.sites else ())


CODES = ["restecg", "slope", "thal"]
OPTIONS = {
    "defaults": {},
    "per site": {"pooled": "per_site"},
    "indicators above": {"indicator_above": 0.3},
    "columns": {"columns": ["thal", "age", "cp"], "categorical": ["thal"]},
    "left out": {"leave_out": ["weight", "family", "ca"]},
    "weights": {"weight": "weight"},
    "groups": {"group": "family"},
    "fractions": {"val_fraction": 0.1, "test_fraction": 0.4},
    "no validation": {"val_fraction": 0},
    "another seed": {"seed": 7, "stratify": False},
    "auc": {"metric": "auc"},
    "bce": {"loss": "bce", "metric": "brier"},
    "amounts": {"target": "age", "loss": "mse", "standardize_target": True, "metric": "r2"},
    "amounts, per site": {"target": "age", "loss": "mse", "standardize_target": True, "pooled": "per_site"},
    "amounts as they are": {"target": "oldpeak", "leave_out": ["disease"]},
    "words": {"target": "cp", "categorical": []},
    "declared": {"categories": {"cp": ["none", "typical", "rare"], "disease": [1, 0]}},
}


@quiet
@pytest.mark.parametrize("option", OPTIONS)
def test_a_table_of_each_site_makes_what_one_of_all_makes(option):
    settings = {"target": "disease", "categorical": CODES, **OPTIONS[option]}
    tables = hospitals()
    if settings["target"] == "oldpeak":  # which is not known of all
        known = {name: ~np.isnan(table["oldpeak"]) for name, table in tables.items()}
        tables = {name: {key: values[known[name]] for key, values in table.items()} for name, table in tables.items()}
    pooled = prepared(tables, **settings)
    for name, own in alone(tables, **settings).items():
        require_equal(own, pooled, pooled.names.index(name))


@quiet
def test_sites_may_meet_in_any_order():
    tables = hospitals()
    pooled = prepared(tables, target="disease")
    for name, own in alone(tables, ["va", "hungarian", "switzerland", "cleveland"], target="disease").items():
        require_equal(own, pooled, pooled.names.index(name))


@quiet
def test_sites_of_numbers_are_in_order_of_size():
    table = {"x": list(range(30)), "y": [0, 1, 1] * 10, "site": [10] * 10 + [9] * 20}
    pooled = prepared(table)
    rows = {10: slice(0, 10), 9: slice(10, 30)}
    found = alone({name: {key: table[key][one] for key in ("x", "y")} for name, one in rows.items()})
    assert pooled.names == ("9", "10")
    for place, name in enumerate((9, 10)):
        require_equal(found[name], pooled, place)


@quiet
@pytest.mark.parametrize("refit", [False, True])
def test_a_preparation_that_is_known_is_used_or_fitted_anew(refit):
    tables = hospitals()
    known = Tasks.from_frame(tables, target="disease", categorical=CODES, seed=3).preparation
    settings = {"preparation": known, "refit": refit, "seed": 4, "pooled": "per_site" if refit else "sums"}
    pooled = prepared(tables, **settings)
    for name, own in alone(tables, **settings).items():
        require_equal(own, pooled, pooled.names.index(name))


@quiet
def test_splits_may_be_given_and_words_that_one_site_lacks_are_those_of_all():
    words = {"a": ["train", "val", "test", "train"] * 3, "b": ["train", "test"] * 6}
    tables = {name: {"x": range(12), "y": [0, 1] * 6, "part": part} for name, part in words.items()}
    pooled = prepared(tables, split="part")
    assert pooled.sizes("val").tolist() == [3, 0]
    for place, (_, own) in enumerate(alone(tables, split="part").items()):
        require_equal(own, pooled, place)


@quiet
def test_kinds_of_values_that_one_site_does_not_show_are_those_of_others():
    tables = {
        "a": {"x": [None] * 6, "s": [None, "m", "f", "f", "m", "m"], "w": [1, 2, 1, 2, 1, 2], "y": [0, 1] * 3},
        "b": {"x": [1.5, 2, None, 4, 5, 6], "s": [None] * 6, "w": ["x", "1", "2", "2", "1", "x"], "y": [0, 1] * 3},
    }
    tables = {name: {key: values * 2 for key, values in table.items()} for name, table in tables.items()}
    settings = {"categorical": ["w"], "val_fraction": 0, "test_fraction": 0}
    pooled = prepared(tables, **settings)
    for place, own in enumerate(alone(tables, **settings).values()):
        require_equal(own, pooled, place)
        assert own.preparation.columns[2].categories == pooled.preparation.columns[2].categories == ("1", "2", "x")


@quiet
def test_files_of_four_hospitals(data_root, tmp_path):
    folder = data_root / "tabular"
    if not folder.is_dir():
        pytest.skip("needs the folder tabular")
    head = (*COLUMNS, "num")
    paths = {}
    for name in HOSPITALS:
        rows = list(csv.reader((folder / f"processed.{name}.data").read_text().splitlines()))
        text = [head, *([*row[:-1], "ill" if row[-1] > "0" else "well"] for row in rows)]
        paths[name] = tmp_path / f"{name}.csv"
        paths[name].write_text("\n".join(",".join(row) for row in text))
    settings = {"target": "num", "categorical": ["cp", *CODES], "metric": "auc"}
    pooled = prepared(paths, **settings)
    assert pooled.preparation.classes == ("ill", "well")
    for name, own in alone(paths, **settings).items():
        require_equal(own, pooled, pooled.names.index(name))
        assert len(own.pools["samples"]) == {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}[name]


def arrays(kind="labels"):
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(60, 2, 3, generator=draw)
    y = {"labels": torch.arange(60) % 3, "amounts": torch.randn(60, generator=draw)}[kind]
    return x, y, ["north"] * 25 + ["south"] * 15 + ["west"] * 20, torch.arange(60) // 5, torch.rand(60, generator=draw)


@pytest.mark.parametrize("kind", ["labels", "amounts"])
@pytest.mark.parametrize("more", ["", "weights and groups"])
def test_arrays_of_each_site_make_what_those_of_all_make(kind, more):
    x, y, site, group, weight = arrays(kind)
    settings = {"seed": 2} if kind == "labels" else {"loss": "mse", "metric": "mae"}
    ends = {"north": slice(0, 25), "south": slice(25, 40), "west": slice(40, 60)}
    given = {"group": group, "weight": weight} if more else {}
    pooled = Tasks.from_arrays(x, y, site, **given, **settings)

    def make(door, k):
        name, rows = list(ends.items())[k]
        return tasks_of_site(door, name, (x[rows], y[rows]), **{n: v[rows] for n, v in given.items()}, **settings)

    for place, own in enumerate(results_of(at_sites(make, 3)[0])):
        require_equal(own, pooled, place)


def test_targets_of_zeros_and_ones_are_no_classes_where_others_are_amounts():
    y = {"a": torch.tensor([0.0, 1.0] * 10), "b": torch.linspace(0, 1, 20)}
    x = torch.arange(20.0)[:, None]
    settings = {"loss": "mse", "metric": "mse", "seed": 1}
    pooled = Tasks.from_arrays(x.repeat(2, 1), torch.cat([*y.values()]), ["a"] * 20 + ["b"] * 20, **settings)
    found, _ = at_sites(lambda door, k: tasks_of_site(door, "ab"[k], (x, y["ab"[k]]), **settings), 2)
    for place, own in enumerate(results_of(found)):
        require_equal(own, pooled, place)


@pytest.mark.parametrize("given", [("test",), ("val", "test")])
def test_samples_of_each_site_make_what_those_of_all_make(given):
    x, y, *_ = arrays()
    rows = {"a": slice(0, 20), "b": slice(20, 45)}
    held = {"val": slice(45, 52), "test": slice(52, 60)}
    tests = {name: dict.fromkeys(rows, (x[held[name]], y[held[name]])) for name in given}
    pooled = Tasks.from_samples({site: (x[one], y[one]) for site, one in rows.items()}, **tests)
    found, _ = at_sites(
        lambda door, k: tasks_of_site(
            door, "ab"[k], (x[rows["ab"[k]]], y[rows["ab"[k]]]), **{n: t["ab"[k]] for n, t in tests.items()}
        ),
        2,
    )
    for place, own in enumerate(results_of(found)):
        require_equal(own, pooled, place)


def test_datasets_of_each_site_make_what_those_of_all_make():
    x, y, *_ = arrays()
    data = {"a": TensorDataset(x[:20], y[:20]), "b": TensorDataset(x[20:], y[20:])}
    pooled = Tasks.from_samples(data, seed=3)
    found, _ = at_sites(lambda door, k: tasks_of_site(door, "ab"[k], data["ab"[k]], seed=3), 2)
    for place, own in enumerate(results_of(found)):
        require_equal(own, pooled, place)


# What travels.

SENTINELS = (8765.4321, 7654.3219)


def secret_tables():
    """Two sites; numbers and words that only single rows have, at places where they are not looked for."""
    tables = {}
    for k, name in enumerate(("a", "b")):
        age = [30.0 + one for one in range(20)]
        age[3], age[11] = SENTINELS[k], None
        tables[name] = {
            "age": age,
            "sex": ["f", "m"] * 10,
            "patient": [f"patient-{name}-{one}" for one in range(20)],
            "note": [f"secret-{name}-{one}" for one in range(20)],
            "ward": ["east"] * 10 + ["west"] * 9 + [f"only-{name}"],
            "weight": [1.0 + 0.00123 * one for one in range(20)],
            "y": [0, 1, 1, 0] * 5,
        }
    return tables


@quiet
@pytest.mark.parametrize("pooled", ["sums", "per_site"])
@pytest.mark.parametrize("declared", [False, True])
def test_nothing_of_single_rows_travels(pooled, declared):
    tables = secret_tables()
    categories = {"categories": {"ward": ["east", "west"], "sex": ["f", "m"], "y": [0, 1]}} if declared else {}
    settings = {"leave_out": ["note"], "group": "patient", "weight": "weight", "pooled": pooled, **categories}
    names = list(tables)
    found, room = at_sites(lambda door, k: tasks_of_site(door, names[k], tables[names[k]], **settings), 2)
    owns = results_of(found)
    assert [len(told) for told in room.heard] == [3, 3]
    text = " ".join(message for told in room.heard for message in told)
    for word in ("secret", "patient-", "8765", "7654", "0.00123", "1.00123"):
        assert word not in text, word
    everything = [number for told in room.heard for message in told for number in numbers_in(json.loads(message))]
    ages = {one for table in tables.values() for one in table["age"] if one is not None}
    assert not {one for one in everything if isinstance(one, float)} & ages  # nor the least or the largest of a column
    trained = [19 in own.splits["train"].of(names.index(name)).tolist() for name, own in zip(names, owns, strict=True)]
    assert trained == [False, False]
    if not declared:  # the name of a category that a single row has does travel, whatever it is drawn for
        assert [name for name in names if f"only-{name}" in text] == names
        assert "only-" not in " ".join(told[0] for told in room.heard)
    else:
        assert "only-" not in text
        assert all(json.loads(told[1])["names"] == {} for told in room.heard)
    if pooled == "per_site":
        assert all(json.loads(told[1])["sums"] == json.loads(told[1])["squares"] == {} for told in room.heard)


def numbers_in(value):
    if isinstance(value, dict):
        return [one for part in value.values() for one in numbers_in(part)]
    if isinstance(value, list):
        return [one for part in value for one in numbers_in(part)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


@quiet
def test_a_rehearsal_shows_what_would_be_told():
    tables = secret_tables()
    settings = {"leave_out": ["note", "patient"], "seed": 5}
    names = list(tables)
    _, room = at_sites(lambda door, k: tasks_of_site(door, names[k], tables[names[k]], **settings), 2)
    for k, name in enumerate(names):
        told = told_by_site(name, tables[name], **settings)
        assert [value["about"] for value in told] == ["agreement", "counts", "sizes"]
        assert told == [json.loads(text) for text in room.heard[k]]
        assert told[1]["squares"].keys() == {"age", "weight"}


def test_what_is_told_is_as_counted_by_hand():
    age = [20.0, 40.0, None, 60.0, 20.0, 40.0, 60.0]
    table = {"age": age, "dose": [1, 2, 3, 4, 5, None, None], "sex": ["f", None, *"mfmfm"], "y": [*"nynyyyy"]}
    with warns("quality", "columns", "'dose'", "6", "'a'"):
        told = told_by_site("a", table)
    assert told[1] == {
        "about": "counts", "failed": None, "rows": 7, "known": {"age": 6, "dose": 5, "sex": 6},
        "sums": {"age": 240.0, "dose": None}, "squares": {"age": 1600.0, "dose": None},
        "names": {"sex": ["f", "m"], "y": ["n", "y"]},
    }  # fmt: skip
    assert told[2] == {
        "about": "sizes", "failed": None, "samples": {"train": 5, "val": 1, "test": 1}, "classes": [0, 1], "labels": 2,
    }  # fmt: skip


def test_sums_of_a_few_values_are_not_told():
    table = {"age": [None] * 6 + [40.0, 50.0], "y": [0, 1] * 4}
    told_by_site("a", table, val_fraction=0, test_fraction=0, pooled="per_site")


# What is refused, in the same words at all sites, before anything else is told.

PLAIN = {"x": [1.0, 2, 3, 4, 5, 6], "sex": ["f", "m"] * 3, "y": [0, 1, 0, 1, 1, 0]}


def refused(last, names=("a", "b", "c"), own=None, change=None, **settings):
    """Return what all sites raise where the last one gives other data or settings, and how often they met."""

    def make(door, k):
        other = k == len(names) - 1
        return tasks_of_site(door, names[k], last if other else PLAIN, **{**settings, **((own or {}) if other else {})})

    found, room = at_sites(make, len(names), change)
    meetings = {len(told) for told in room.heard}
    assert len(meetings) == 1
    return refusal(found), meetings.pop(), found


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ({"x": PLAIN["x"], "y": PLAIN["y"]}, "column 'sex' is at 'a', 'b' and not at 'c'"),
        ({**PLAIN, "height": PLAIN["x"]}, "column 'height' is at 'c' and not at 'a', 'b'"),
        ({**PLAIN, "x": ["one", "two"] * 3}, "column 'x' holds values of different kinds, numbers at 'a', 'b'"),
        ({**PLAIN, "sex": [0, 1] * 3}, "column 'sex' holds values of different kinds, text at 'a', 'b'"),
        ({**PLAIN, "y": ["no", "yes"] * 3}, "targets of different kinds, numbers at 'a', 'b' and text at 'c'"),
        ({**PLAIN, "y": [True, False] * 3}, "numbers at 'a', 'b' and true and false at 'c'"),
        ({name: [] for name in PLAIN}, "site 'c' has failed with a EmptyError (table)"),
        ({name: values[:2] for name, values in PLAIN.items()}, "site 'c' has failed with a TooFewError (node)"),
    ],
)  # fmt: skip
def test_tables_that_do_not_fit_are_refused(last, words):
    text, meetings, _ = refused(last)
    assert words in text
    assert meetings == (2 if "TooFewError" in words else 1)


def test_a_column_that_has_another_name_at_a_site_is_recognized():
    other = {"x": PLAIN["x"], "gender": PLAIN["sex"], "y": PLAIN["y"]}
    assert refused(other)[0] == (
        "column 'sex' is at 'a', 'b' and not at 'c', where there is 'gender' instead: if they are the same, rename "
        "one; else add it there, with missing values where nothing is known, or leave it out by leave_out=['sex'] "
        "where it is"
    )
    fewer = {"x": PLAIN["x"], "y": PLAIN["y"]}
    assert "not at 'c': add it there, with missing values where nothing is known" in refused(fewer)[0]


def test_declared_types_are_a_kind_of_their_own():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(PLAIN).astype({"sex": "category"})
    assert "column 'sex' holds values of different kinds, text at 'a', 'b' and categories at 'c'" in refused(frame)[0]
    frames = {"a": pandas.DataFrame(PLAIN), "b": frame}
    pooled = prepared(frames, categorical=["sex"])
    for place, own in enumerate(alone(frames, categorical=["sex"]).values()):
        require_equal(own, pooled, place)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"seed": 1}, "seed= is 0 at 'a', 'b' and 1 at 'c'"),
        ({"val_fraction": 0.3}, "val_fraction= is 0.2 at 'a', 'b' and 0.3 at 'c'"),
        ({"test_fraction": 0.3}, "test_fraction= is 0.2 at 'a', 'b' and 0.3 at 'c'"),
        ({"stratify": False}, "stratify= is true at 'a', 'b' and false at 'c'"),
        ({"metric": "brier"}, "metric= is null at 'a', 'b' and brier at 'c'"),
        ({"loss": "bce"}, "loss= is null at 'a', 'b' and bce at 'c'"),
        ({"pooled": "per_site"}, "pooled= is sums at 'a', 'b' and per_site at 'c'"),
        ({"indicator_above": 0.5}, "indicator_above= is 0.0 at 'a', 'b' and 0.5 at 'c'"),
        ({"weight": "x"}, "weight= is null at 'a', 'b' and x at 'c'"),
        ({"group": "x"}, "group= is null at 'a', 'b' and x at 'c'"),
        ({"target": "x", "loss": "mse"}, "target= is y at 'a', 'b' and x at 'c'"),
        ({"categories": {"sex": ["f", "m"]}}, "categories= is {} at 'a', 'b' and {\"sex\": [\"f\", \"m\"]} at 'c'"),
        (
            {"preparation": Preparation((Column("x"),), Column("y", categories=("0", "1"), numbers=True))},
            "preparation= is null at 'a', 'b' and ",
        ),
    ],
)
def test_settings_that_differ_are_refused(own, words):
    text, meetings, _ = refused(PLAIN, own=own)
    assert words in text
    assert text.startswith("sites have different settings: ")
    assert meetings == 1


def test_two_sites_of_one_name_are_refused():
    text, meetings, _ = refused(PLAIN, ("a", "b", "a"))
    assert (text, meetings) == ("two sites are called 'a': names tell sites apart and must differ", 1)


def test_another_version_is_what_is_told_first():
    text, meetings, _ = refused(
        {"z": [1]}, ("a", "a", "a"), own={"seed": 3}, change=lambda value: {**value, "version": "9.0"}
    )
    assert text.startswith("sites have different versions of graphcollab, ")
    assert "9.0 at 'a'" in text
    assert meetings == 1


def test_a_site_that_fails_says_why_to_itself_only():
    broken = {**PLAIN, "x": [1.0, 2, float("inf"), 4, 5, 6]}
    text, meetings, found = refused(broken)
    assert text == "site 'c' has failed with a RangeError (column); its message stays there"
    assert meetings == 2
    assert "row 2 (site 'c') has infinity in column 'x'" in str(found[2].__cause__)
    assert [one.__cause__ for one in found[:2]] == [None, None]


def test_a_class_that_nobody_trains_on_is_known_before_anybody_goes_on():
    words = ["train"] * 8 + ["test"] * 4
    first = {**{name: values * 2 for name, values in PLAIN.items()}, "part": words}
    last = {**first, "y": [0, 1] * 5 + [0, 7]}

    def make(door, k):
        return tasks_of_site(door, "ab"[k], [first, last][k], split="part", val_fraction=0)

    found, room = at_sites(make, 2)
    assert refusal(found).startswith("site 'b' has failed with a ")
    assert "has 7 in column 'y', and the classes that were trained on are 0, 1" in str(found[1].__cause__)
    assert [len(told) for told in room.heard] == [3, 3]


def test_whole_numbers_that_may_be_amounts_are_asked_for_before_they_are_told():
    last = {"x": list(range(120)), "sex": ["f", "m"] * 60, "y": [7000 + one for one in range(60)] * 2}
    text, meetings, _ = refused(last)
    assert text.startswith("column 'y' has 60 different whole numbers: say whether they are counts")
    assert meetings == 1


def test_whole_numbers_are_amounts_where_others_are():
    tables = {"a": PLAIN, "b": {**PLAIN, "y": [0.5, 1, 1, 2, 3, 4]}}
    pooled = prepared(tables)
    assert pooled.loss == "mse"
    for place, own in enumerate(alone(tables).values()):
        require_equal(own, pooled, place)


def test_a_class_that_a_site_lacks_is_one_all_the_same():
    tables = {"a": {**PLAIN, "y": [0, 1, 0, 1, 2, 2]}, "b": PLAIN}
    pooled = prepared(tables, val_fraction=0, test_fraction=0)
    owns = [*alone(tables, val_fraction=0, test_fraction=0).values()]
    assert owns[0].classes.tolist() == owns[1].classes.tolist() == [[True, True, True], [True, True, False]]
    for place, own in enumerate(owns):
        require_equal(own, pooled, place)


def test_more_classes_than_a_metric_is_of_are_refused_by_all():
    text, *_ = refused({**PLAIN, "y": [0, 2, 0, 2, 2, 0]}, metric="auc")
    assert text.startswith("metric='auc' is of two classes, and column 'y' has 3, 0, 1, 2: use metric 'accuracy' or ")


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ((torch.zeros(9, 4), torch.arange(9) % 3), "inputs of different shapes, [3] at 'a' and [4] at 'b'"),
        ((torch.zeros(9, 3, dtype=torch.int64), torch.arange(9) % 3), "types, torch.float32 at 'a' and torch.int64 at"),
        ((torch.zeros(9, 3), torch.rand(9)), "targets of different types, torch.int64 at 'a' and torch.float32 at 'b'"),
        ((torch.zeros(9, 3), torch.zeros(9, 2, dtype=torch.int64)), "of different shapes, [] at 'a' and [2]"),
        ((torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)), "site 'b' has failed with a EmptyError (site)"),
        ({"x": [1, 2, 3], "y": [0, 1, 0]}, "sites give different kinds of data, arrays at 'a' and a table at 'b'"),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(last, words):
    data = [(torch.zeros(9, 3), torch.arange(9) % 3), last]
    found, room = at_sites(lambda door, k: tasks_of_site(door, "ab"[k], data[k]), 2)
    assert words in refusal(found)
    assert [len(told) for told in room.heard] == [1, 1]


@pytest.mark.parametrize(
    ("stage", "change", "words"),
    [
        (1, lambda value: {**value, "known": {"x": "all"}}, "site 'c' tells 'all' as known of 'x', which cannot be"),
        (1, lambda value: {**value, "sums": {"x": float("nan")}}, "site 'c' tells nan as sums of 'x', which cannot be"),
        (1, lambda value: {**value, "names": {}}, "site 'c' does not tell the names of categories of 'sex'"),
        (2, lambda value: {**value, "samples": {"train": -1}}, "site 'c' tells -1 as samples of 'train'"),
        (2, lambda value: {**value, "classes": [0, 9]}, "site 'c' tells [0, 9] as its classes, which cannot be"),
        (2, lambda value: {**value, "about": "counts"}, "site 'c' tells other things than "),
        (0, lambda value: [value], "a site tells something that is no description of its samples"),
    ],
)
def test_a_site_that_tells_nonsense_is_named(stage, change, words):
    count = iter(range(9))
    names = ("a", "b", "c")
    found, _ = at_sites(
        lambda door, k: tasks_of_site(door, names[k], PLAIN),
        3,
        lambda value: change(value) if next(count) == stage else value,
    )
    assert all(words in str(one) for one in found[:2]), found


def test_arrays_as_weights_are_given_in_any_form():
    weights = ([1.0, 2, 1, 2, 1, 2], np.array([2.0, 1, 2, 1, 2, 1]))
    pooled = prepared({"a": PLAIN, "b": PLAIN}, weight=np.concatenate(weights))
    found, _ = at_sites(lambda door, k: tasks_of_site(door, "ab"[k], PLAIN, weight=weights[k]), 2)
    for place, own in enumerate(results_of(found)):
        require_equal(own, pooled, place)
