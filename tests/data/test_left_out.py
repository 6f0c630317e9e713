"""Rows without a target or a site, and small sites, are left out where that is asked for, and it is said which."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphcollab import Tasks
from graphcollab.sites import tasks_of_site
from tests.raising import raises, warns

ALL = {"val_fraction": 0, "test_fraction": 0}
LACK = {
    "site": ["a", "a", "a", "b", "b", "b", "b", "c", None],
    "x": range(9),
    "y": [0, 1, None, 1, 0, None, 1, 0, 1],
    "people": range(10, 19),
}


def inputs(tasks, site):
    split = tasks.splits["train"]
    column = tasks.preparation.columns[0]
    x = tasks.pools["samples"].inputs[split.of(tasks.names.index(site)), 0] * column.deviation[0] + column.mean[0]
    return sorted(x.round().int().tolist())


def test_rows_without_a_target_or_a_site():
    with raises("missing", "node", "row 8", "drop_missing_target=True"):
        Tasks.from_frame(LACK, **ALL)
    with raises("missing", "column 'y'", "row 2", "1 more of the 8", "drop_missing_target=True"):
        Tasks.from_frame({name: list(values)[:8] for name, values in LACK.items()}, **ALL)
    with warns("quality", "drop_missing_target", "3 of 9 rows", "2 without a target", "1 without a site"):
        tasks = Tasks.from_frame(LACK, drop_missing_target=True, leave_out=["people"], **ALL)
    assert tasks.preparation.classes == (0, 1)
    assert [inputs(tasks, site) for site in tasks.names] == [[0, 1], [3, 4, 6], [7]]
    assert [one.numbers for one in tasks.findings if one.code == "left-out-rows"] == [{"rows": 3}]


def test_small_sites_are_left_out_after_such_rows():
    with (
        warns("quality", "min_rows", "2 of 3 sites", "'a' 2, 'c' 1"),
        warns("quality", "drop_missing_target", "3 of 9"),
    ):
        tasks = Tasks.from_frame(LACK, drop_missing_target=True, min_rows=3, leave_out=["people"], **ALL)
    assert tasks.names == ("b",)
    assert inputs(tasks, "b") == [3, 4, 6]
    with raises("empty", "table", "3 of 3 sites"):
        Tasks.from_frame(LACK, drop_missing_target=True, min_rows=30)
    whole = {"site": ["a", "b", "a"], "x": [1, 2, 3], "y": [0, 1, 1]}
    assert Tasks.from_frame(whole, min_rows=1, **ALL).findings == ()


@pytest.mark.filterwarnings("ignore")
def test_what_is_given_for_every_row_is_left_out_with_it():
    settings = {"drop_missing_target": True, "min_rows": 2, "val_fraction": 0, "leave_out": ["people"]}
    weight, words = np.arange(10.0, 19.0), ["train"] * 4 + ["test", "train", "train", "train", "test"]
    tasks = Tasks.from_frame(LACK, weight=weight, split=words, group=[*"opqrstuvw"], **settings)
    assert tasks.pools["samples"].weight.tolist() == [10, 11, 13, 14, 16]
    assert tasks.pools["samples"].group.tolist() == [0, 1, 2, 3, 4]
    assert tasks.sizes("test").tolist() == [0, 1]
    same = Tasks.from_frame(LACK, weight="people", split=words, **settings | {"leave_out": []})
    assert same.pools["samples"].weight.equal(tasks.pools["samples"].weight)
    given = Tasks.from_frame(LACK, weight=torch.from_numpy(weight), **ALL | settings)
    assert given.pools["samples"].weight.tolist() == [10, 11, 13, 14, 16]


@pytest.mark.filterwarnings("ignore")
def test_errors_count_rows_as_the_table_does():
    with raises("range", "column 'x'", "row 6 (site 'b')"):
        Tasks.from_frame({**LACK, "x": [0] * 6 + [np.inf, 0, 0]}, drop_missing_target=True, **ALL)
    by_site = {"a": {"x": [1, 2, 3], "y": [0, None, 1]}, "b": {"x": [1, 2, np.inf], "y": [None, 0, 1]}}
    with raises("range", "column 'x'", "row 2 (site 'b')"):
        Tasks.from_frame(by_site, drop_missing_target=True, **ALL)


def test_a_site_of_its_own_leaves_out_rows():
    class Alone:
        def all_gather_object(self, value):
            return [value]

    own = {"x": [*range(8)], "y": [0, 1, None, 1, 0, 1, 0, 1]}
    with warns("quality", "drop_missing_target", "1 of 8 rows"):
        tasks = tasks_of_site(Alone(), "north", own, drop_missing_target=True, **ALL)
    assert tasks.sizes("train").tolist() == [7]


def test_rows_of_which_no_event_is_known():
    table = {
        "site": ["a", "b"] * 8,
        "x": [7 * k % 16 for k in range(16)],
        "y": range(1, 17),
        "seen": [1] * 4 + [0, 0, None, *[1] * 9],
    }
    with raises("value", "column 'seen'", "row 6", "drop_missing_target=True"):
        Tasks.from_frame(table, event="seen", loss="cox", **ALL)
    with warns("quality", "drop_missing_target", "1 of 16 rows", "1 without a known event"):
        tasks = Tasks.from_frame(table, event="seen", loss="cox", drop_missing_target=True, **ALL)
    assert tasks.sizes("train").tolist() == [7, 8]
