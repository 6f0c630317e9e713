"""What sites tell of their columns is the same for every split, and in every job."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from graphcollab import site
from graphcollab.methods import fedavg, local
from graphcollab.sites import connected, told_by_site
from graphcollab.sites.connection import Connection
from graphcollab.sites.hall import Hall
from tests.raising import raises

NAMES = ("a", "b")
AGES = {"a": [*range(30, 60)], "b": [*range(50, 80)]}
TOLD = ("counts", "sizes")


def table(name: str, rows: slice = slice(None), **more: list[Any]) -> dict[str, list[Any]]:
    """A site's patients, some of them."""
    every = {"age": AGES[name], "pressure": [100.5 + k % 7 for k in range(30)], "ill": [0, 1] * 15, **more}
    return {column: values[rows] for column, values in every.items()}


class Spied(Connection):
    """A connection that keeps what its site tells of samples."""

    def tell(self, what: str, value: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(value, dict) and value.get("about") in TOLD:
            self.__dict__.setdefault("heard", []).append(json.dumps(value))
        return super().tell(what, value, *args, **kwargs)


def job(act, tables=None, own=None, **settings):
    """What each site finds or raises, and what it has told; ``own`` are settings of site a."""

    def play(connection):
        connection.__class__ = Spied
        rows = (tables or {}).get(connection.name) or table(connection.name)
        mine = {"target": "ill", **settings, **(own or {} if connection.name == "a" else {})}
        with connected(connection):
            try:
                found = act(site(connection.name, rows, **mine))
            except ValueError as error:
                connection.leave(error)
                found = error
        return found, connection.__dict__.get("heard", [])

    done = Hall(NAMES, poll=0.3).play(play)
    return {name: one[0] for name, one in done.items()}, {name: one[1] for name, one in done.items()}


def linear(tasks):
    return nn.Linear(*tasks.input_shape, 2)


@pytest.mark.parametrize("many", ["compare", "benefit"])
def test_further_splits_tell_nothing_more_of_columns(many):
    if many == "compare":
        act = lambda here: here.compare({"local": local}, linear, seeds=range(4), rounds=1)  # noqa: E731
    else:
        act = lambda here: here.benefit(linear, rounds=1, repeats=3, methods={}, lrs=[0.1], evaluations=1)  # noqa: E731
    _, heard = job(act)
    for told in heard.values():
        assert len(told) >= 2 * 3, told
        assert len({one for one in told if '"counts"' in one}) == 1
        assert len({one for one in told if '"sizes"' in one}) == 1


def test_sums_over_many_draws_solve_no_row():
    """24 rows, 26 draws: from sums of training rows all values came out; which rows train follows from the seed."""
    rng = np.random.default_rng(0)
    secret = {"load": rng.integers(100, 9999, 24).tolist(), "y": rng.normal(50, 9, 24).tolist()}
    told = [told_by_site("a", secret, seed=seed)[1] for seed in range(26)]
    assert all(one == told[0] for one in told)
    assert told[0]["sums"]["load"] == sum(secret["load"])
    assert told[0]["rows"] == 24


@pytest.mark.parametrize("stratify", [False, True])
def test_which_classes_a_draw_trains_on_is_not_told(stratify):
    """Of a class of one row, that would tell in a few draws which row it is."""
    lone = [0] * 10 + [1] * 9 + [2]
    for data in ((np.zeros((20, 2), np.float32), np.array(lone)), {"x": [*range(20)], "y": lone}):
        told = [told_by_site("a", data, seed=seed, stratify=stratify)[-1] for seed in range(8)]
        assert all(one == told[0] for one in told)
        assert told[0]["classes"] == [0, 1, 2]


def test_a_column_of_splits_keeps_rows_out_of_sums():
    words = ["train"] * 20 + ["test"] * 10
    told = {seed: told_by_site("a", table("a", part=words), target="ill", split="part", seed=seed) for seed in (0, 1)}
    assert told[0][1] == told[1][1]
    assert told[0][1]["sums"]["age"] == sum(AGES["a"][:20])


@pytest.fixture
def told_path(tmp_path):
    return tmp_path / "told.json"


def prepare(here):
    return here.tasks().preparation


def test_the_same_rows_may_be_told_again_in_any_order(told_path):
    first, before = job(prepare, own={"ledger": told_path})
    rows = random.Random(0).sample(range(30), 30)
    shuffled = {column: [values[k] for k in rows] for column, values in table("a").items()}
    again, after = job(prepare, {"a": shuffled}, {"ledger": told_path})
    assert first["a"].columns == again["a"].columns
    assert before["a"][0] == after["a"][0]
    assert json.loads(told_path.read_text())["columns"]["age"][0]["sums"] == sum(AGES["a"])


@pytest.mark.parametrize(("rows", "words"), [(slice(29), "29, 1 fewer"), (slice(1, 30), "29, 1 fewer")])
def test_sums_of_other_rows_are_refused_where_the_data_are(told_path, rows, words):
    job(prepare, own={"ledger": told_path})
    before = told_path.read_bytes()
    found, told = job(prepare, {"a": table("a", rows)}, {"ledger": told_path})
    assert str(found["b"]) == str(found["a"])
    assert re.fullmatch(r"site 'a' has failed with a \w+Error( \(\w+\))?; its message stays there", str(found["a"]))
    cause = str(found["a"].__cause__)
    assert cause.startswith("columns 'age', 'pressure', 'ill': other sites were told counts and sums of 30 rows")
    assert words in cause
    assert "tell_changes=True" in cause
    assert told["a"] == []
    assert told_path.read_bytes() == before


def test_a_value_that_was_corrected_is_another_row(told_path):
    job(prepare, own={"ledger": told_path})
    ages = [*AGES["a"][:-1], 90]
    found, _ = job(prepare, {"a": table("a", age=ages)}, {"ledger": told_path})
    assert str(found["a"].__cause__).startswith("column 'age': other sites were told counts and sums of 30 rows")
    assert "and now there are 30, not all the same" in str(found["a"].__cause__)


def test_the_owner_may_let_others_compute_the_difference(told_path):
    job(prepare, own={"ledger": told_path})
    fewer = {"a": table("a", slice(29))}
    found, told = job(prepare, fewer, {"ledger": told_path, "tell_changes": True})
    assert json.loads(told["a"][0])["sums"]["age"] == sum(AGES["a"][:29])
    assert found["a"] == found["b"]
    for rows in (fewer, None):  # both have been told now
        assert job(prepare, rows, {"ledger": told_path})[1]["a"]


def test_what_was_prepared_before_fits_other_rows_without_sums(told_path):
    first, _ = job(prepare, own={"ledger": told_path})
    known = first["a"]
    found, told = job(prepare, {"a": table("a", slice(25))}, {"ledger": told_path}, preparation=known)
    assert [json.loads(one)["about"] for one in told["a"]] == ["sizes"]
    assert found["a"].columns == known.columns


def test_other_columns_of_the_same_rows_may_be_told(told_path):
    job(prepare, own={"ledger": told_path}, columns=["age"])
    _, told = job(prepare, own={"ledger": told_path}, columns=["age", "pressure"])
    assert told["a"]
    fewer = {"a": table("a", slice(28))}
    found, _ = job(prepare, fewer, {"ledger": told_path}, columns=["pressure"])
    assert str(found["a"].__cause__).startswith("columns 'pressure', 'ill'")


def test_a_rehearsal_reads_and_does_not_write(told_path):
    def rehearse(rows):
        return site("a", rows, target="ill", dry_run=["b"], ledger=told_path).run(fedavg(), linear, rounds=1)

    rehearse(table("a"))
    assert not told_path.exists()
    job(prepare, own={"ledger": told_path})
    before = told_path.read_bytes()
    rehearse(table("a"))
    with raises("value", "site 'a'") as told:
        rehearse(table("a", slice(29)))
    assert "30 rows" in str(told.value.__notes__)
    assert told_path.read_bytes() == before


def test_a_ledger_is_of_one_site(told_path):
    job(prepare, own={"ledger": told_path})
    told_path.write_text(told_path.read_text().replace('"site": "a"', '"site": "z"'))
    found, _ = job(prepare, own={"ledger": told_path})
    assert "is the ledger of site 'z', and not of 'a'" in str(found["a"].__cause__)
    told_path.write_text("{}")
    found, _ = job(prepare, own={"ledger": told_path})
    assert "is no ledger of what a site has told" in str(found["a"].__cause__)


def test_a_script_that_is_started_by_flare_keeps_it_beside_itself(tmp_path):
    def play(connection):
        connection.folder = tmp_path
        with connected(connection):
            return site(connection.name, table(connection.name), target="ill").tasks()

    Hall(NAMES, poll=0.3).play(play)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.told.json", "b.told.json"]
    assert torch.equal(*(Hall(NAMES, poll=0.3).play(play)[name].classes for name in NAMES))
