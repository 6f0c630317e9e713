"""How good models are for groups of rows: by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from graphcollab import Tasks, compare
from graphcollab.analysis import Comparison
from graphcollab.methods import local
from graphcollab.report import group_table
from tests.raising import raises, warns

# of the test rows the model says 1 where x > 0; the first row of each site is for training, and has no group
X = [-1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0]
Y = [0, 1, 1, 0, 1, 1, 0, 0]
ROWS = {
    "site": ["b", "a", "b", "a", "a", "a", "b", "b"],
    "x": X,
    "y": Y,
    "part": ["train", "train", *["test"] * 6],
    "sex": [None, None, "f", "f", "m", "m", "m", None],
    "age": [1, 2, 30, 40, 50, 60, 70, 80],
}
USED = {"columns": ["x"], "split": "part", "val_fraction": 0}


def sign_of(tasks: Tasks, **methods: float) -> Comparison:
    """Models that say by the sign of their one input which class it is, and no step changes."""
    model = nn.Linear(1, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[0.0], [1.0]]))
        model.bias.zero_()
    made = {name: lambda: local(lr=0, weight_decay=0) for name in methods or ("local",)}
    return compare(made, lambda seed: tasks, model, [0], rounds=1)


def rows_of(table) -> dict[str, list[Any]]:
    return {row[0].text: [cell.value for cell in row[1:]] for row in table.rows}


def test_by_hand_by_a_column_that_models_do_not_read() -> None:
    tasks = Tasks.from_frame(ROWS, **USED)
    table = group_table(sign_of(tasks), ROWS, "sex")
    # women: both right; men: -1 is no 1, 1 is 1, 1 is no 0; without a value: right
    assert rows_of(table) == {"f": [2, 100.0], "m": [3, pytest.approx(100 / 3)], "missing": [1, 100.0]}
    assert table.columns == ["sex", "rows", "local accuracy (%)"]
    cell = table.rows[1][2]
    # of 3 draws, each right with chance 1/3: none is with chance 8/27, all with 1/27
    assert cell.interval == pytest.approx((0.0, 100.0))
    assert not cell.star


def test_bands_and_several_metrics_and_methods() -> None:
    found = sign_of(Tasks.from_frame(ROWS, **USED), one=0, other=0)
    table = group_table(found, ROWS, "age", bands=[50, 70], metrics=["accuracy", "brier"])
    assert table.columns[2:] == [
        "one accuracy (%)",
        "one brier",
        *("other accuracy (%)", "other brier"),
    ]
    assert {name: row[:2] for name, row in rows_of(table).items()} == {
        "below 50": [2, 100.0],
        "50 to below 70": [2, 50.0],
        "70 and more": [2, 50.0],
    }
    whole = {**ROWS, "age": range(8)}
    by_quartiles = group_table(found, {**whole, "age": [1, 2, 10, 20, 30, 40, 50, 60.5]}, "age")
    assert [*rows_of(by_quartiles)] == ["10", "20", "30", "40", "50", "60.5"]  # six values are groups as they are


def test_numbers_are_divided_at_their_quartiles() -> None:
    many = {name: values * 4 for name, values in ROWS.items()} | {"age": range(32)}
    table = group_table(sign_of(Tasks.from_frame(many, **USED)), many, "age")
    # tested are 2 to 7, 10 to 15, 18 to 23 and 26 to 31
    bands = ["below 9.25", "9.25 to below 16.5", "16.5 to below 23.75", "23.75 and more"]
    assert {name: row[0] for name, row in rows_of(table).items()} == dict.fromkeys(bands, 6)


def test_of_many_words_the_most_frequent_have_a_row() -> None:
    many = {name: list(values) * 5 for name, values in ROWS.items()}
    words = [f"w{k:02}" for k in range(40)]
    words[2], words[3], words[4] = "w39", "w38", None  # tested twice, twice, and without a word
    found = rows_of(group_table(sign_of(Tasks.from_frame(many, **USED)), {**many, "word": words}, "word"))
    assert len(found) == 22
    assert (found["w39"][0], found["w38"][0], found["7 others"][0], found["missing"][0]) == (2, 2, 7, 1)


def test_rows_are_found_where_some_were_left_out() -> None:
    fewer = {name: [*values[:3], values[3], *values[3:]] for name, values in ROWS.items()}
    fewer["y"] = ["no" if y == 0 else "yes" for y in fewer["y"]]
    fewer["y"][3] = None  # a row of a woman at "a" without a target, and one without a site
    fewer = {name: [*values, None if name == "site" else values[-1]] for name, values in fewer.items()}
    with warns("quality"):
        tasks = Tasks.from_frame(fewer, drop_missing_target=True, **USED)
    assert rows_of(group_table(sign_of(tasks), fewer, "sex"))["m"] == [3, pytest.approx(100 / 3)]


def table_of(wrong: int, right: int, **more: Any) -> dict[str, list]:
    """A site with a row to train on, and test rows of which the first ones are wrong."""
    tested = wrong + right
    rows = {"site": ["a"] * (tested + 2), "x": [1.0, -1.0, *[1.0] * tested], "y": [1, 0, *[0] * wrong, *[1] * right]}
    rows |= {"part": ["train", "train", *["test"] * tested], "sex": ["f", "m", *["m"] * wrong, *["f"] * right]}
    return rows | {"who": range(tested + 2)}


def test_a_star_is_for_evidence_on_enough_rows_that_are_independent() -> None:
    for wrong, grouped, star in ((30, False, True), (15, False, False), (30, True, False)):
        rows = table_of(wrong, 30)
        tasks = Tasks.from_frame(rows, group="who" if grouped else None, **USED)
        table = group_table(sign_of(tasks), rows, "sex")
        assert [row[2].star for row in table.rows] == [False, star]
        assert ("belong together" in str(table)) == grouped


def test_what_has_no_groups() -> None:
    tasks = Tasks.from_frame(ROWS, **USED)
    found = sign_of(tasks)
    with raises("unknown", "column 'gender'", "sex"):
        group_table(found, ROWS, "gender")
    with raises("mismatch", "frame"):
        group_table(found, {name: values[::-1] for name, values in ROWS.items()}, "sex")
    with raises("mismatch", "frame"):
        group_table(found, {name: values[:4] for name, values in ROWS.items()}, "sex")
    node = (torch.zeros(4, 1), torch.tensor([0, 1, 0, 1]))
    with raises("unsupported", "comparison", "from_frame"):
        group_table(sign_of(Tasks.from_samples([node], test=[node])), ROWS, "sex")


def test_counts_are_judged_by_rates() -> None:
    """Rates are 3 everywhere, the mean count: the mean deviance is 2 (y log(y / 3) - y + 3)."""
    rows = {"site": ["a", "b"] * 4, "x": [0.0, 1.0] * 4, "y": [3, 3, 3, 3, 1, 6, 0, 3], "g": ["u"] * 6 + ["v"] * 2}
    rows["part"] = ["train"] * 4 + ["test"] * 4
    tasks = Tasks.from_frame(rows, columns=["x"], split="part", val_fraction=0, loss="poisson")
    model = nn.Linear(1, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    found = compare({"local": lambda: local(lr=0, weight_decay=0)}, lambda seed: tasks, model, [0], rounds=1)
    one, six = 2 * (math.log(1 / 3) + 2), 2 * (6 * math.log(2) - 3)
    assert rows_of(group_table(found, rows, "g")) == {
        "u": [2, pytest.approx((one + six) / 2, rel=1e-5)],
        "v": [2, pytest.approx(3.0, rel=1e-5)],
    }


def test_only_rows_of_one_site_are_ranked() -> None:
    """Both sites rank their men right, on scales that are 10 apart: of both together 3 of 4 pairs are right."""
    rows = {"site": [*"aaabbb"], "x": [0.0, 1.0, 2.0, 9.0, 11.0, 12.0], "y": [0, 0, 1, 1, 0, 1]}
    rows |= {"sex": [None, "m", "m"] * 2, "part": ["train", "test", "test"] * 2}
    table = group_table(sign_of(Tasks.from_frame(rows, **USED, metric="auc")), rows, "sex")
    assert rows_of(table) == {"m": [4, 100.0]}
    assert "only rows of one site are ranked against each other" in str(table)
