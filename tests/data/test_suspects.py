"""What columns and rows hardly mean is warned of, once for each kind, and nothing else is."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from graphcollab import Tasks
from tests.raising import warns

N = 300
DRAW = np.random.default_rng(0)
BASE = {
    "site": np.tile(["north", "south", "west"], N // 3),
    "x": DRAW.normal(size=N),
    "age": DRAW.integers(18, 90, N),
    "ward": DRAW.choice(["a", "b", "c"], N),
    "y": DRAW.integers(0, 2, N),
}
ALL = {"val_fraction": 0, "test_fraction": 0}


def warnings_of(table, **settings):
    """Return the texts of all warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        Tasks.from_frame(table, **settings)
    return [str(one.message) for one in found]


def test_an_ordinary_table_is_above_suspicion():
    assert warnings_of(BASE) == []
    assert warnings_of({**BASE, "y": DRAW.normal(size=N)}) == []


@pytest.mark.parametrize(
    "copy",
    [
        np.where(BASE["y"] == 1, "ill", "well"),
        1 - BASE["y"],
        np.where(
            BASE["y"] == 1, DRAW.choice(["I21", "I50"], N), DRAW.choice(["Z00", "Z01"], N)
        ),  # codes of a diagnosis
        np.where(BASE["y"] == 1, 1.0, np.nan),  # known of the ill alone
    ],
)
def test_columns_that_tell_the_class(copy):
    (text,) = warnings_of({**BASE, "label": copy}, **ALL)
    assert text.startswith(
        "column 'label' tells the target 'y' of all rows exactly: leave it out by leave_out=['label']"
    )
    (text,) = warnings_of({**BASE, "label": copy, "more": copy}, **ALL)
    assert text.startswith(
        "each of the columns 'label', 'more' tells the target 'y' of all rows exactly: leave them out"
    )
    assert warnings_of({**BASE, "label": copy}, leave_out=["label"], **ALL) == []
    other = copy.copy()
    other[3] = copy[np.flatnonzero(BASE["y"] != BASE["y"][3])[0]]  # wrong in a single row
    assert warnings_of({**BASE, "label": other}, **ALL) == []


@pytest.mark.parametrize("change", [lambda y: y, lambda y: 1.8 * y + 32, lambda y: -np.exp(y)])
def test_columns_that_tell_the_amount(change):
    amounts = {**BASE, "y": DRAW.normal(size=N)}
    (text,) = warnings_of({**amounts, "other": change(amounts["y"])}, **ALL)
    assert "column 'other' tells the target 'y' of all rows exactly" in text
    assert warnings_of({**amounts, "other": change(amounts["y"]) + 0.01 * DRAW.normal(size=N)}, **ALL) == []


def test_few_rows_prove_nothing():
    """Of 12!/(6! 6!) = 924 orders of 12 rows, 4 / 924 would let a column of two values tell the class."""
    table = {"site": ["a", "b"] * 6, "v": ["x", "z"] * 6, "y": [0, 1] * 6}
    assert warnings_of(table, **ALL) == []
    more = {name: values * 3 for name, values in table.items()} | {"sex": ["f", "f", "m"] * 12}
    assert len(warnings_of(more, **ALL)) == 1


def test_persons_tell_their_class_unless_they_are_groups():
    """40 persons of one class each, with 6 visits: whatever is constant in visits tells the class."""
    person = np.repeat(np.arange(40), 6)
    ill = np.random.default_rng(1).permutation(np.tile([0, 1], 20))
    table = {"site": np.where(person % 2, "a", "b"), "x": np.random.default_rng(2).normal(size=240)}
    table |= {"height": np.random.default_rng(3).normal(170, 9, 40)[person], "y": ill[person]}
    (text,) = warnings_of(table, **ALL)
    assert text.startswith("column 'height' tells the target")
    assert text.endswith("or give group=... if rows belong together, such as visits of a patient")
    assert warnings_of({**table, "person": person}, group="person", **ALL) == []


def test_rows_that_are_there_twice():
    twice = {name: np.tile(values, 2) for name, values in BASE.items()}
    (text,) = warnings_of(twice, seed=1)
    tasks = Tasks.from_frame(BASE, seed=1)
    assert tasks.names == ("north", "south", "west")
    assert text.startswith(
        "600 of 600 rows have the inputs and the target of another one (site 'north' 200, 'south' 200,"
    )
    assert warnings_of(twice, seed=2) == warnings_of(twice, seed=3) == [text]  # the same, so that many draws warn once
    rows = np.arange(N)
    words = np.where(rows < 60, "test", "train")
    copied = {name: np.concatenate([values, values[:12]]) for name, values in BASE.items()}
    given = {"split": [*words, *["train"] * 12], "val_fraction": 0}
    (text,) = warnings_of(copied, **given)
    assert text.startswith(
        "24 of 312 rows have the inputs and the target of another one (site 'north' 8, 'south' 8, 'west' 8), and rows "
        "for testing are there for training, too, so models are tested on what they know: drop those that"
    )
    other = {**copied, "y": np.concatenate([BASE["y"], 1 - BASE["y"][:12]])}  # with another target they are others
    assert warnings_of(other, **given) == []
    few = {name: np.concatenate([values, values[:2]]) for name, values in BASE.items()}
    assert warnings_of(few, split=[*words, "train", "train"], val_fraction=0) == []
    moved = {**copied, "ward": [*BASE["ward"], *["abc"["bca".index(one)] for one in BASE["ward"][:12]]]}
    assert warnings_of(moved, **given) == []  # and so they are at another ward
    coarse = {"site": BASE["site"], "age": BASE["age"] // 20, "ward": BASE["ward"], "y": BASE["y"]}
    assert warnings_of(coarse) == []  # where rows are equal by chance


def test_rows_are_the_same_that_have_the_same_inputs():
    ward, age = BASE["ward"].astype(object), np.where(np.arange(N) % 7 == 0, np.nan, BASE["age"])
    ward[:5], ward[70:90] = ["new", "other", None, None, "b"], None  # of training no row has "new" or "other"
    words = np.where(np.arange(N) < 60, "test", "train")
    twice = {name: [*values, *values[:30]] for name, values in {**BASE, "age": age, "ward": [*ward]}.items()}
    twice["ward"][N : N + 5] = [None, "a", None, "c", "c"]  # so rows 0 and 2 are there twice, and 1, 3 and 4 are not
    with warns("quality", "splits", "54", "330") as found:
        tasks = Tasks.from_frame(twice, split=[*words, *["train"] * 30], val_fraction=0)
    assert len(found) == 1
    inputs = tasks.pools["samples"].inputs
    rows = list(map(tuple, np.column_stack([inputs, twice["y"]]).tolist()))
    assert [k for k in range(60) if rows[k] in rows[60:]] == [0, 2, *range(5, 30)]


LAB = np.where(BASE["y"] == 1, 10.0, 3.0) + 0.3 * DRAW.normal(size=N)


@pytest.mark.parametrize("target", [BASE["y"], np.where(BASE["y"] == 1, "ill", "well")], ids=["numbers", "words"])
@pytest.mark.parametrize("lab", [LAB, -LAB, np.where(np.arange(N) % 3 == 0, np.nan, LAB)])
def test_columns_that_part_the_classes_by_a_threshold(lab, target):
    (text,) = warnings_of({**BASE, "lab": lab, "y": target}, **ALL)
    assert text.startswith("column 'lab' tells the target 'y' by its order alone, without an error in any row, as by")
    assert "leave it out by leave_out=['lab'] if it is known only after it" in text
    assert "tells the target 'y'" in warnings_of({**BASE, "lab": lab.round(1), "y": target}, **ALL)[0]
    wrong = lab.copy()
    wrong[1] = lab[np.flatnonzero(~np.isnan(lab) & (BASE["y"] != BASE["y"][1]))[0]]
    assert warnings_of({**BASE, "lab": wrong, "y": target}, **ALL) == []


def test_three_classes_by_two_thresholds():
    grade = DRAW.integers(0, 3, N)
    (text,) = warnings_of({**BASE, "score": grade % 3 + DRAW.uniform(0, 0.9, N), "y": grade}, **ALL)
    assert text.startswith("column 'score' tells the target 'y' by its order alone")


AMOUNT = DRAW.normal(size=N)


@pytest.mark.parametrize(
    ("column", "y"),
    [(AMOUNT.round(1), AMOUNT), (-2 * AMOUNT, AMOUNT.round(1)), (AMOUNT > 0.3, AMOUNT), (np.floor(AMOUNT), AMOUNT)],
    ids=["rounded", "finer", "indicator", "group"],
)
def test_columns_that_tell_the_amount_but_for_rounding(column, y):
    (text,) = warnings_of({**BASE, "other": column, "y": y}, **ALL)
    assert text.startswith("column 'other' tells the target 'y' by its order alone")
    assert warnings_of({**BASE, "other": column + 0.2 * DRAW.normal(size=N), "y": y}, **ALL) == []


def test_few_rows_and_few_persons_prove_no_threshold():
    """Of 20 rows a column parts 10 and 10 by chance in 2 of 184,756 orders; of 6 persons, in 2 of 20 orders."""
    ill = np.repeat([0, 1], 10)
    assert (
        warnings_of({"site": ["a", "b"] * 10, "x": LAB[:20] * 0 + ill + 0.1 * DRAW.normal(size=20), "y": ill}, **ALL)
        == []
    )
    person = np.repeat(np.arange(6), 50)
    table = {"site": BASE["site"], "x": BASE["x"], "height": 150.0 + person, "y": (person > 2) * 1}
    (text,) = warnings_of(table, **ALL)
    assert text.startswith("column 'height' tells the target 'y' of all rows exactly")  # and advises group=
    assert warnings_of({**table, "person": person}, group="person", **ALL) == []


@pytest.mark.parametrize("n", [12, 24, 40])
def test_chance_parts_no_classes(n):
    """None of 1000 columns; one in a million may."""
    draw = np.random.default_rng(n)
    for _ in range(10):
        columns = {f"x{k}": draw.normal(size=n) for k in range(100)}
        assert (
            warnings_of({"site": ["a", "b"] * (n // 2), **columns, "y": draw.permutation(np.arange(n) % 2)}, **ALL)
            == []
        )


@pytest.mark.parametrize(
    ("classes", "code"),
    [
        ((0, 1), -9),
        ((0, 1), 9),
        ((0, 1), 77),
        ((1, 2, 3), 999),
        (("0", "1"), "-9"),
        (("no", "yes"), "999"),
        ((0.5, 1.7), -99),
    ],
)
def test_targets_that_mean_nothing_is_known(classes, code):
    y = [code if k % 30 == 0 else classes[k % 7 % len(classes)] for k in range(N)]
    (text,) = warnings_of({**BASE, "y": y}, **ALL)
    assert text.startswith(f"the target 'y' has {code} in 10 rows, far from all other values, as where a number says")
    assert text.endswith("drop such rows if so")
    fine = [classes[k % 7 % len(classes)] for k in range(N)]
    assert warnings_of({**BASE, "y": fine}, **ALL) == []


def test_targets_that_mean_themselves():
    for y in (DRAW.integers(0, 10, N), np.where(np.arange(N) % 30 == 0, 99, DRAW.integers(18, 98, N)) + 0.5):
        assert warnings_of({**BASE, "y": y}, **ALL) == []


@pytest.mark.parametrize(("target", "until"), [("status", "time"), ("Event", "OS_days"), ("death", "futime")])
def test_whether_an_event_was_seen_is_no_class_like_any_other(target, until):
    table = {name: values for name, values in BASE.items() if name != "y"}
    table |= {until: DRAW.integers(1, 2000, N), target: 1 + BASE["y"]}
    (text,) = warnings_of(table, target=target, **ALL)
    assert text.startswith(f"the target {target!r} seems to say whether an event was seen until {until!r}: rows that")
    assert warnings_of(table, target=target, leave_out=[until], **ALL) == []
    assert warnings_of({**table, target: DRAW.normal(size=N)}, target=target, **ALL) == []


@pytest.mark.parametrize("code", [9999, -999, -99, 99999, 888])
def test_numbers_that_mean_nothing_is_known(code):
    table = {**BASE, "x": np.where(np.arange(N) % 30 == 0, code, BASE["x"])}
    (text,) = warnings_of(table, **ALL)
    assert text.startswith(f"column 'x' has {code} in 10 rows, far from all other values there, as where a number says")
    assert warnings_of(table, categorical=["x"], **ALL) == []


def test_a_code_below_0_where_nothing_else_is():
    grams = np.random.default_rng(10).integers(101, 5160, N)
    (text,) = warnings_of({**BASE, "weight": np.where(np.arange(N) % 90 == 0, -9, grams)}, **ALL)
    assert text.startswith("column 'weight' has -9 in 4 rows")
    assert warnings_of({**BASE, "weight": np.where(np.arange(N) % 90 == 0, -9, grams - 300)}, **ALL) == []


def test_numbers_that_may_mean_themselves():
    old = np.where(np.arange(N) % 30 == 0, 99, BASE["age"])
    assert warnings_of({**BASE, "age": old}, **ALL) == []
    assert warnings_of({**BASE, "count": np.arange(N) % 7 * 9}, **ALL) == []
    once = np.where(np.arange(N) == 30, 9999, BASE["x"])
    assert warnings_of({**BASE, "x": once}, **ALL) == []


def test_a_site_whose_numbers_are_all_0():
    level = np.round(np.random.default_rng(5).normal(240, 40, N))
    table = {**BASE, "chol": np.where(BASE["site"] == "west", 0, level)}
    (text,) = warnings_of(table, **ALL)
    assert text.startswith("column 'chol' has 0 in all rows of site 'west', far from all other values there")
    (text,) = warnings_of({**BASE, "chol": np.where(np.arange(N) % 50 == 0, 0, level)}, **ALL)  # 6 of 300 rows
    assert text.startswith("column 'chol' has 0 in 6 rows, far from all other values there")
    stays = {**BASE, "days": np.where(BASE["site"] == "west", 0, np.random.default_rng(6).poisson(9, N))}
    assert warnings_of(stays, **ALL) == []  # no intensive care in the west
    assert warnings_of({**BASE, "mri": np.where(BASE["site"] == "west", 0, 1)}, **ALL) == []


WEST = BASE["site"] == "west"
UNITS = {
    "pounds": (DRAW.normal(80, 14, N), 2.2046),
    "inches": (DRAW.normal(170, 9, N), 1 / 2.54),
    "g/l": (DRAW.normal(140, 15, N), 0.1),
    "mmol/l": (DRAW.normal(105, 20, N), 1 / 18.02),
    "mg/dl of cholesterol": (DRAW.normal(5.2, 1.0, N), 38.67),
    "milligrams": (DRAW.gamma(9, 1, N), 1000),
}


@pytest.mark.parametrize("unit", UNITS)
def test_a_site_that_measures_in_another_unit(unit):
    values, factor = UNITS[unit]
    with warns("quality", "column 'v'", "'west'") as found:
        tasks = Tasks.from_frame({**BASE, "v": np.where(WEST, values * factor, values).round(1)}, **ALL)
    assert len(found) == 1
    assert [(one.code, one.numbers) for one in tasks.findings] == [("other-units", {"columns": ["v"]})]
    assert warnings_of({**BASE, "v": values.round(1)}, **ALL) == []
    assert warnings_of({**BASE, "v": np.where(WEST, values * 1.3, values).round(1)}, **ALL) == []


def test_targets_in_another_unit():
    values = np.random.default_rng(3).lognormal(12, 0.4, N)
    price, levels = np.where(WEST, values / 1000, values), np.where(WEST, values / 1.7, values)
    (text,) = warnings_of({**BASE, "y": price}, loss="mse", **ALL)
    assert text.startswith("column 'y' has the median")
    assert text.endswith("give all sites the same unit")
    assert warnings_of({**BASE, "y": levels}, loss="mse", **ALL) == []


def test_sites_of_other_people_have_the_same_unit():
    children = np.where(WEST, DRAW.normal(8, 3, N), DRAW.normal(70, 9, N)).round()  # 9 times as old, in years
    assert warnings_of({**BASE, "age": children}, **ALL) == []
    costs = np.where(WEST, 2.5, 1) * DRAW.lognormal(5, 1, N)  # which overlap
    assert warnings_of({**BASE, "costs": costs}, **ALL) == []
    ranks = np.select([WEST, BASE["site"] == "north"], [2.54, 2.54 * 6], 1) * np.random.default_rng(9).normal(100, 5, N)
    assert warnings_of({**BASE, "salary": ranks}, **ALL) == []  # three levels, of which two are inches to centimeters


def test_the_last_of_few_years_is_no_code():
    """Years 92, 95 and 99: the last is four after the one before, which is three after the first."""
    years = np.tile([92, 95, 99], N // 3)
    assert warnings_of({**BASE, "year": years}, categorical=[], **ALL) == []
    (text,) = warnings_of({**BASE, "pain": np.tile([1, 2, 99], N // 3)}, **ALL)
    assert "column 'pain' has 99 in 100 rows" in text


def test_dear_makes_have_the_same_unit_where_others_lie_between():
    """Prices of six makes: the dearest has 2.2 times the usual one's, as pounds would, and another lies between."""
    draw = np.random.default_rng(5)
    levels = {"Saturn": 16, "Chevrolet": 16.5, "Pontiac": 18, "Buick": 19, "Saab": 29.6, "Cadillac": 39}
    site = np.repeat([*levels], 60)
    price = np.repeat([*levels.values()], 60) * 1000 * draw.lognormal(0, 0.12, len(site))
    table = {"site": site, "x": draw.normal(size=len(site)), "y": price.round(2)}
    assert warnings_of(table, loss="mse", **ALL) == []
    alone = site != "Saab"
    (text,) = warnings_of({name: column[alone] for name, column in table.items()}, loss="mse", **ALL)
    assert "'Cadillac'" in text


def test_days_that_are_written_as_numbers():
    days = DRAW.choice([20200101, 20200131, 20200201], N)
    (text,) = warnings_of({**BASE, "date": days, "until": days + 10_000}, **ALL)
    assert text.startswith("columns 'date', 'until' seem to hold dates that are written as numbers, such as 202")
    assert "make them days since the first, or leave them out by leave_out=['date', 'until']" in text
    assert warnings_of({**BASE, "price": DRAW.integers(20_200_000, 20_210_000, N)}, **ALL) == []


def test_numbers_that_name_rows():
    numbers = np.random.default_rng(7).choice(10**7, N, replace=False)
    for name in ("mrn", "patient_no"):
        (text,) = warnings_of({**BASE, name: numbers}, **ALL)
        assert text.startswith(
            f"column '{name}' seems to number the rows, such as {numbers[0]} and {numbers[1]}, and is"
        )
    (text,) = warnings_of({**BASE, "mrn": numbers, "k": np.arange(N)}, **ALL)
    assert text.startswith("columns 'mrn', 'k' seem to number the rows")
    assert warnings_of({**BASE, "k": numbers}, **ALL) == []
    assert (
        warnings_of({**BASE, "income": np.exp(np.random.default_rng(8).normal(10, 1, N)).round(2) * 100}, **ALL) == []
    )


def test_persons_that_come_again():
    visit = np.arange(N) // 5  # persons of five visits each, and of every person some at every site
    for name, values in {
        "Patient": np.array([f"P{k:02d}" for k in visit], object),
        "PatientID": 100_000 + 13 * visit,
        "pat_nr": visit,
        "childid": visit,
        "student_id": visit,
        "id": visit,
    }.items():
        (text,) = warnings_of({**BASE, name: values}, **ALL)
        shown = repr(values[0]) if name == "Patient" else str(values[0])
        assert text.startswith(f"column {name!r} is used as an input, and has {shown} in 2 rows of a site, as where")
        assert f"group={name!r} keeps such rows together" in text
        assert warnings_of({**BASE, name: values}, group=name, **ALL) == []
        assert warnings_of({**BASE, name: values}, leave_out=[name]) == []
    lone = np.where(np.arange(N) < 8, 0, np.random.default_rng(9).permutation(N) * 17 % 4001)
    for name, values in {
        "patient_age": visit,
        "visits_per_patient": visit,
        "patients": visit,
        "child": visit,
        "ward": visit,
        "subject": np.arange(N) % 9,  # that are taught
        "person": np.arange(N) % 2,
        "pid": lone,  # a number that was given twice
    }.items():
        assert warnings_of({**BASE, name: values}, **ALL) == []


def test_numbers_that_name_few_rows():
    table = {name: column[:60] for name, column in BASE.items()}
    for name in ("index", "Unnamed: 0", "PatNr", "patient", "Fall-Nr"):
        (text,) = warnings_of({**table, name: np.arange(60)}, **ALL)
        assert text.startswith(f"column {name!r} seems to number the rows, such as 0 and 1, and is used as an input")
    assert warnings_of({**table, "shock index": np.arange(60)}, **ALL) == []


def test_names_that_look_alike():
    (text,) = warnings_of({**BASE, "site": np.where(np.arange(N) % 2, "Köln", "köln")}, **ALL)
    assert "has both 'Köln' and 'köln', which" in text
    assert warnings_of({**BASE, "site": np.where(np.arange(N) % 2, "Köln", "Koln")}, **ALL) == []
    known = Tasks.from_frame({**BASE, "ward": np.where(BASE["ward"] == "a", "süd", "nord")}, **ALL).preparation
    with warns("quality", "column 'ward'", "'Süd'", "'süd'"):
        known.apply({"x": [0.5], "age": [40], "ward": ["Süd"]})


def test_tasks_keep_what_was_warned_of():
    with pytest.warns(RuntimeWarning):
        tasks = Tasks.from_frame({**BASE, "label": 1 - BASE["y"], "mrn": np.arange(N)}, **ALL)
    assert [(one.code, one.subject) for one in tasks.findings] == [
        ("tells-target", "column 'label'"),
        ("numbers-rows", "column 'mrn'"),
    ]
    assert tasks.findings[0].numbers == {"columns": ["label"]}
    assert tasks.select([0]).findings == tasks.findings


@pytest.mark.parametrize("until", ["time", "days", "os_time", "pfs months", "time_to_death", "Time to event"])
def test_targets_that_are_censored_are_named(until):
    table = {**{name: column for name, column in BASE.items() if name != "y"}, "status": BASE["y"], until: BASE["x"]}
    with pytest.warns(RuntimeWarning):
        tasks = Tasks.from_frame(table, target="status", **ALL)
    assert [(one.code, one.subject) for one in tasks.findings] == [("censored", "column 'status'")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Tasks.from_frame({**table, "downtime": BASE["x"]} | {until: BASE["ward"]}, target="status", **ALL)
        Tasks.from_frame({**table, until: 6 * (BASE["age"] % 12)}, target="status", **ALL)  # terms of loans


def test_a_column_that_tells_the_event_is_named():
    """The cause of death, which is known of the dead alone."""
    table = {**BASE, "y": DRAW.integers(1, 4000, N), "died": BASE["y"]}
    cause = np.where(BASE["y"] == 1, DRAW.choice(["heart", "lungs"], N), "none")
    texts = warnings_of({**table, "cause": cause}, loss="cox", event="died", **ALL)
    (text,) = [one for one in texts if "exactly" in one]
    assert text.startswith("column 'cause' tells the event 'died' of all rows exactly: leave it out")
    assert not [one for one in warnings_of(table, loss="cox", event="died", **ALL) if "exactly" in one]


def test_columns_that_add_up_to_the_target_are_told():
    """Three answers from 0 to 10, of which the target is the sum; x and age have no part in it."""
    parts = {name: DRAW.integers(0, 11, N).astype(float) for name in ("economy", "culture", "life")}
    total = sum(parts.values())
    (text,) = warnings_of({**BASE, **parts, "y": total}, loss="mse", **ALL)
    assert text == (
        "columns 'economy', 'culture', 'life', each times a number, add up to the target 'y' of all rows: leave them "
        "out by leave_out=['economy', 'culture', 'life'] if they are known only with it"
    )
    noisy = total + 0.05 * DRAW.normal(size=N)
    assert warnings_of({**BASE, **parts, "y": noisy}, loss="mse", **ALL) == []


def test_zero_that_is_the_next_number_is_no_code():
    """Months from 0 to 30, most of them 0 to 3: 1 comes after 0; weights from 40 on are far from 0."""
    months = DRAW.choice([0, 0, 0, 0, 1, 1, 2, 2, 3, *range(4, 31)], N).astype(float)
    months[:31] = range(31)
    assert warnings_of({**BASE, "months": months}, **ALL) == []
    weights = DRAW.integers(40, 90, N).astype(float)
    weights[:4] = 0
    (text,) = warnings_of({**BASE, "weight": weights}, **ALL)
    assert text.startswith("column 'weight' has 0 in 4 rows")


def test_a_time_that_ends_no_later_than_the_target_is_named():
    """Years until a relapse or, without one, until death: never above those, the same in half of rows."""
    death = np.round(DRAW.uniform(1, 20, N), 2)
    relapse = np.where(BASE["x"] > 0, death, np.round(0.6 * death, 2))
    texts = warnings_of({**BASE, "relapse": relapse, "y": death}, loss="mse")
    (text,) = [one for one in texts if "never above" in one]
    share = (BASE["x"] > 0).mean()
    assert f"column 'relapse' is never above the target 'y' and is the same in {share:.0%} of rows" in text
    relapse[0] = death[0] + 1  # later in one row: another time
    assert not [
        one for one in warnings_of({**BASE, "relapse": relapse, "y": death}, loss="mse") if "never above" in one
    ]
    zeros = np.where(BASE["x"] > 0, 0, BASE["age"])  # days in hospital, mostly none, and visits
    assert not [one for one in warnings_of({**BASE, "days": 0 * zeros, "y": zeros}, loss="mse") if "never above" in one]
