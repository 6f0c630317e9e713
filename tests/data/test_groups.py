"""Rows that belong together, such as the visits of one patient, are never divided between splits."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from graphcollab import Tasks, benefit, run
from graphcollab.analysis import resplit
from graphcollab.analysis.resplit import HALVES, halve_tests
from graphcollab.data import Preparation
from graphcollab.data.samples import Pool
from graphcollab.methods import l2c
from tests.raising import raises, warns

VISITS = 6
PATIENTS = {"a": 10, "b": 15}  # both sites call them 0, 1, 2, ...


def table():
    """A row for every visit: the input is the row's place, so that no two are alike."""
    site = np.repeat(list(PATIENTS), [VISITS * many for many in PATIENTS.values()])
    patient = np.concatenate([np.repeat(np.arange(many), VISITS) for many in PATIENTS.values()])
    order = np.random.default_rng(0).permutation(len(site))
    return {"x": np.arange(len(site)) + 0.5, "site": site[order], "patient": patient[order], "y": patient[order] % 2}


def of_arrays(**settings):
    columns = table()
    x, y = torch.tensor(columns["x"]).float()[:, None], torch.tensor(columns["y"])
    return Tasks.from_arrays(x, y, columns["site"], group=columns["patient"], **settings)


def patients(tasks, name, node):
    """Who is in a split of a node, with the number of rows of each."""
    split = tasks.splits[name]
    who = table()["patient"][split.of(node).numpy()]
    return dict(zip(*(one.tolist() for one in np.unique(who, return_counts=True)), strict=True))


def require_whole(tasks, sizes):
    for node, many in enumerate(PATIENTS.values()):
        found = [patients(tasks, name, node) for name in ("train", "val", "test")]
        assert all(rows == VISITS for one in found for rows in one.values())
        assert [len(one) for one in found] == sizes[node]
        assert sorted(who for one in found for who in one) == list(range(many))


def test_whole_groups_are_drawn():
    """Of 10 patients a fifth are 2, and of the other 8 a fifth, rounded, are 2; of 15 they are 3, and of 12 2."""
    sizes = [[6, 2, 2], [10, 2, 3]]
    require_whole(of_arrays(seed=3), sizes)
    require_whole(of_arrays(seed=3, stratify=False), sizes)
    assert patients(of_arrays(seed=3), "test", 0) != patients(of_arrays(seed=4), "test", 0)


def test_of_every_class_there_are_groups_in_every_split():
    for seed in range(5):
        for node in (0, 1):
            for name in ("train", "val", "test"):
                assert {who % 2 for who in patients(of_arrays(seed=seed), name, node)} == {0, 1}


def test_a_column_of_a_table_is_named_and_not_predicted_from():
    tasks = Tasks.from_frame(table(), group="patient", seed=3)
    assert tasks.preparation.features == ("x",)
    for name in ("train", "val", "test"):
        assert torch.equal(tasks.splits[name].index, of_arrays(seed=3).splits[name].index)
    own = [f"{site}{who}" for site, who in zip(table()["site"], table()["patient"], strict=True)]
    named = Tasks.from_frame({**table(), "patient": own}, group="patient", seed=3)
    assert [len(one) for one in (named.splits["test"].index, named.splits["val"].index)] == [5 * VISITS, 4 * VISITS]


def test_groups_stay_together_where_rows_are_dealt_anew():
    dealt = [resplit(of_arrays(), seed) for seed in range(4)]
    for one in dealt:
        require_whole(one, [[6, 2, 2], [10, 2, 3]])
    assert len({tuple(patients(one, "test", 1)) for one in dealt}) > 1
    halved = halve_tests(dealt[0], 1)
    both = [patients(halved, name, 1) for name in HALVES]
    assert not set(both[0]) & set(both[1])
    assert {**both[0], **both[1]} == patients(dealt[0], "test", 1)


def test_samples_of_pools_without_groups_are_by_themselves():
    one = Pool(torch.zeros(3, 1), torch.zeros(3), group=torch.tensor([4, 4, 0]))
    joined = Pool.joined([one, replace(one, group=None), one])
    assert joined.group.tolist()[:3] == joined.group.tolist()[6:] == [4, 4, 0]
    assert len(joined.group.unique()) == 5


def net():
    return nn.Linear(1, 2)


def test_benefit_does_not_deal_anew_what_the_user_has_separated():
    part = np.where(table()["patient"] < 4, "test", "train")
    columns = {name: values for name, values in table().items() if name != "patient"}
    settings = {"methods": {}, "repeats": 3, "rounds": 1, "lrs": [0.1]}
    with raises("conflict", "tasks", "'patient'"):
        benefit(Tasks.from_frame(columns, split=part), net, **settings)
    pair = torch.zeros(9, 1), torch.arange(9) % 2
    with raises("conflict", "tasks"):
        benefit(Tasks.from_samples([pair, pair], test=[pair, pair]), net, **settings)
    # groups keep them apart: 32 % of 10, and of 15, are 3 and 5
    found = benefit(of_arrays(split=part), net, **settings)
    assert found.test.tolist() == [3 * VISITS, 5 * VISITS]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group": ["p"] * 149}, ("shape", "group", "150", "149")),
        ({"group": ["p"] * 149 + [None]}, ("missing", "group", "149")),
        ({"group": ["p"] * 150},
         ("too-few", "node 'a'", "'b'")),
        ({"group": "patient", "split": ["train", "test"] * 75}, ("conflict", "group", "'train'")),
        ({"group": "patent"}, ("unknown", "column 'patent'", "'patient'")),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(change, message):
    with raises(*message):
        Tasks.from_frame(table(), **{"leave_out": ["patient"] * (change["group"] != "patient"), **change})


def test_a_site_of_one_patient_is_left_out_as_advised():
    pandas = pytest.importorskip("pandas")
    rows = table()
    frame = pandas.DataFrame({**rows, "patient": np.where(rows["site"] == "b", 0, rows["patient"])})
    with raises("too-few", "node 'b'", "1"):
        Tasks.from_frame(frame, group="patient")
    kept = frame.groupby("site").filter(lambda rows: rows["patient"].nunique() >= 3)
    assert Tasks.from_frame(kept, group="patient").names == ("a",)
    none = Tasks.from_frame(frame, group="patient", val_fraction=0, test_fraction=0)
    with raises("empty", "split 'val'", "0"):
        run(l2c(), none, nn.Linear(1, 2), rounds=1)


@pytest.mark.parametrize("refit", [False, True])
def test_newcomers_of_a_run_with_groups_have_some_too(refit):
    old = Tasks.from_frame(table(), group="patient")
    assert Preparation.from_json(json.loads(json.dumps(old.preparation.to_json()))).group == "patient"
    new = Tasks.from_frame(table(), preparation=old.preparation, refit=refit, seed=3)
    assert new.preparation.group == "patient"
    same = Tasks.from_frame(table(), preparation=old.preparation, refit=refit, seed=3, group="patient")
    for name, split in new.splits.items():
        assert torch.equal(split.index, same.splits[name].index)
    others = {name: column for name, column in table().items() if name != "patient"}
    with warns("quality", "column 'patient'"):
        alone = Tasks.from_frame(others, preparation=old.preparation, refit=refit)
    assert alone.pools["samples"].group is None
    assert alone.preparation.group is None
    named = Tasks.from_frame(others, preparation=old.preparation, refit=refit, group=table()["patient"])
    assert named.pools["samples"].group is not None


def persons_of_several_sites():
    """A person's rows are at two of three sites that follow each other, the last at the third and the first."""
    person = np.repeat(np.arange(24), 6)
    site = (person % 3 + np.tile([0, 0, 0, 1, 1, 1], 24)) % 3
    x = np.random.default_rng(0).normal(size=len(person))
    return {"x": x, "site": np.array(["a", "b", "c"])[site], "person": [f"p{who}" for who in person], "y": person % 2}


def who_is_in(tasks, name):
    """The persons of every node in a split."""
    person = np.array(persons_of_several_sites()["person"])
    return [{*person[tasks.splits[name].of(node).numpy()]} for node in range(tasks.num_nodes)]


@pytest.mark.parametrize("seed", range(5))
def test_persons_of_several_sites_are_in_one_split(seed):
    """Of a site's 16 persons a fifth, 3 (or 4), are to be tested on; as many sites have them, one more or less are."""
    tasks = Tasks.from_frame(persons_of_several_sites(), group="person", seed=seed)
    for dealt in (tasks, resplit(tasks, seed)):
        found = {name: who_is_in(dealt, name) for name in ("train", "val", "test")}
        everywhere = [set().union(*found[name]) for name in found]
        assert sum(map(len, everywhere)) == len(set().union(*everywhere)) == 24
        for name in ("val", "test"):
            assert all(2 <= len(one) <= 5 for one in found[name])
    first, second = (who_is_in(halve_tests(tasks, seed), name) for name in HALVES)
    assert not set().union(*first) & set().union(*second)


def test_numbers_that_begin_anew_are_of_one_site():
    """Site a has persons 1 to 10 and b 1 to 15, but for 3: as if the names were other ones."""
    rows = {name: column for name, column in table().items() if name != "patient"}
    numbers, site = table()["patient"] + 1, table()["site"]
    numbers = np.where(numbers == 3, 4, numbers)
    apart = Tasks.from_frame({**rows, "person": [*map("{}{}".format, site, numbers)]}, group="person")
    assert len(apart.pools["samples"].group.unique()) == 9 + 14
    same = Tasks.from_frame({**rows, "person": numbers}, group="person")
    assert len(same.pools["samples"].group.unique()) == 9 + 14
    for names in (10 * numbers, [*map(str, numbers)]):
        linked = Tasks.from_frame({**rows, "person": names}, group="person")
        assert len(linked.pools["samples"].group.unique()) == 14


def test_small_sites_are_counted_in_groups():
    rows = table()
    rows["patient"] = np.where(rows["site"] == "b", rows["patient"] % 2, rows["patient"])
    with raises("too-few", "node 'b'", "min_rows=3"):
        Tasks.from_frame(rows, group="patient")
    with warns("quality", "min_rows", "fewer than 3 groups: 'b' 2"):
        assert Tasks.from_frame(rows, group="patient", min_rows=3).names == ("a",)
