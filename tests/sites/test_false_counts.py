"""What a site says of its samples is refused if it cannot be, and warned of if it is far from what others say."""

from __future__ import annotations

import warnings
from functools import cache
from itertools import chain, combinations_with_replacement
from typing import Any

import numpy as np
import pytest
import torch

from graphcollab import site
from graphcollab.methods import local
from graphcollab.sites import connected
from graphcollab.sites.connection import Connection
from graphcollab.sites.hall import Hall
from tests.raising import raises, warns

AGES = [20 + k % 13 for k in range(40)]


def liar(change):
    """A connection that tells something else of its samples than what is so."""

    class Liar(Connection):
        def tell(self, what: str, value: Any = None, *args: Any, **kwargs: Any) -> Any:
            if isinstance(value, dict) and "about" in value and value["failed"] is None:
                value = change(value)
            return super().tell(what, value, *args, **kwargs)

    return Liar


def outcome_beside_liar(change, names="abcd", act=lambda here: here.tasks()):
    """What honest sites find or raise, and are warned of, where the last one lies."""

    def play(connection):
        honest = connection.name != names[-1]
        if not honest:
            connection.__class__ = liar(change)
        table = {"age": AGES, "sex": ["f", "m"] * 20, "ill": [0, 1] * 20}
        with connected(connection):
            try:
                return act(site(connection.name, table, target="ill"))
            except Exception as error:
                connection.leave(error)
                return error

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = Hall(tuple(names), poll=0.3).play(play)
    return [found[name] for name in names[:-1]], {str(one.message) for one in said}


def falsify(about, **parts):
    """Change parts of what is told about something; a part is a value, or a dict with which one is mixed."""

    def change(value):
        if value["about"] != about:
            return value
        mixed = {key: {**value[key], **one} if isinstance(one, dict) else one for key, one in parts.items()}
        return {**value, **mixed}

    return change


def without(about, part):
    return lambda value: {k: one for k, one in value.items() if (value["about"], k) != (about, part)}


FALSE = {
    "labels": (falsify("sizes", labels=10**9), "value", "1000000000 as labels"),
    "training samples": (falsify("sizes", samples={"train": 10**12}), "value", "1000000000000 as samples of 'train'"),
    "test samples": (falsify("sizes", samples={"test": 10**12}), "value", "1000000000000 as samples of 'test'"),
    "more samples than rows": (falsify("sizes", samples={"train": 41}), "value", "41 as samples of 'train'"),
    "class not there": (falsify("sizes", classes=[0, 2]), "value", "[0, 2] as its classes"),
    "class twice": (falsify("sizes", classes=[0, 0]), "value", "[0, 0] as its classes"),
    "classes missing": (falsify("sizes", classes=None), "value", "None as classes"),
    "rows": (falsify("agreement", facts={"rows": 10**12}), "value", "1000000000000 as rows"),
    "rows that are none": (falsify("agreement", facts={"rows": "all"}), "value", "'all' as rows"),
    "facts missing": (falsify("agreement", facts=None), "value", "None as facts"),
    "lists of lists": (falsify("agreement", facts={"text": [["age"]]}), "value", "[['age']] as text"),
    "another's name": (falsify("agreement", site="a"), "mismatch"),
    "no description": (lambda value: [value], "mismatch"),
    "settings missing": (without("agreement", "settings"), "mismatch"),
    "other rows": (falsify("counts", rows=41), "value", "41 as rows"),
    "known": (falsify("counts", known={"age": 10**12}), "value", "1000000000000 as known of 'age'"),
    "known above rows": (falsify("counts", known={"age": 41}), "value", "41 as known of 'age'"),
    "known missing": (without("counts", "known"), "value", "None as known"),
    "column missing": (falsify("counts", sums={"age": None}), "value", "None as sums of 'age'"),
    "sum": (falsify("counts", sums={"age": 1e308}), "value", "1e+308 as sums of 'age'"),
    "sum too many": (falsify("counts", known={"age": 3}), "value", "1034.0 as sums of 'age'"),
    "negative squares": (falsify("counts", squares={"age": -1e9}), "value", "-1000000000.0 as squares of 'age'"),
    "infinite squares": (falsify("counts", squares={"age": float("inf")}), "value", "inf as squares of 'age'"),
    "names": (falsify("counts", names={"sex": [f"{k}" for k in range(100_000)]}), "too-many", "100000 names"),
    "long names": (falsify("counts", names={"sex": ["f" * 10**6]}), "too-many", "longest of 1000000"),
}  # fmt: skip


@pytest.mark.parametrize("what", FALSE)
def test_what_cannot_be_is_refused_by_the_name_of_its_site(what):
    change, code, *facts = FALSE[what]
    found, _ = outcome_beside_liar(change)
    assert len({str(one) for one in found}) == 1
    with raises(code, "site 'd'", *facts) as raised:
        raise found[0]
    assert not [name for name in "abc" if f"'{name}'" in str(raised.value)]


@pytest.mark.parametrize("what", ["labels", "training samples", "class not there"])
def test_samples_that_are_no_table_are_looked_at_too(what):
    change, code, *facts = FALSE[what]

    def play(connection):
        if connection.name == "d":
            connection.__class__ = liar(change)
        with connected(connection):
            try:
                return site(connection.name, (torch.zeros(40, 2), torch.arange(40) % 2)).tasks()
            except ValueError as error:
                return error

    with raises(code, "site 'd'", *facts):
        raise Hall(tuple("abcd"), poll=0.3).play(play)["a"]


@pytest.mark.parametrize("listeners", [5, [[]], {"a": 1}])
def test_listeners_that_are_none_are_named(listeners):
    class Liar(Connection):
        def tell(self, what: str, value: Any = None, *args: Any, **kwargs: Any) -> Any:
            return super().tell(what, listeners if what == "who may hear this site" else value, *args, **kwargs)

    def play(connection):
        if connection.name == "b":
            connection.__class__ = Liar
        with connected(connection):
            here = site(connection.name, {"age": AGES, "ill": [0, 1] * 20}, target="ill")
            with raises("format", "listeners", "b ") as raised:
                here.run(local(), lambda tasks: torch.nn.Linear(*tasks.input_shape, 2), rounds=1)
            connection.leave(raised.value)

    Hall(("a", "b"), poll=0.3).play(play)


@pytest.mark.parametrize(
    "parts",
    [
        {"sums": {"age": -1e18}},
        {"squares": {"age": 1e18}},
        {"sums": {"age": 0.03 * 40}, "squares": {"age": 0.0}},
        {"sums": {"age": 1000.0 * sum(AGES)}, "squares": {"age": 1e8}},
    ],
    ids=["sum", "squares", "small", "another unit"],
)
@pytest.mark.parametrize("names", ["ab", "abcd"])
def test_a_column_of_quite_another_size_is_warned_of_by_the_name_of_its_site(parts, names):
    _, said = outcome_beside_liar(falsify("counts", **parts), names)
    (text,) = (one for one in said if f"of site {names[-1]!r} has mean" in one)
    assert text.startswith("column 'age' of site ")
    assert not [one for one in said if "of site 'a' has mean" in one] or names == "ab"  # where the liar sees it so


def test_sites_that_differ_as_sites_do_are_not_warned_of():
    ages = {"a": AGES, "b": [one + 40 for one in AGES], "c": [0.0] * 40, "d": [one * 3 for one in AGES]}

    def play(connection):
        with connected(connection):
            return site(connection.name, {"age": ages[connection.name], "ill": [0, 1] * 20}, target="ill").tasks()

    assert Hall(tuple(ages), poll=0.3).play(play)["a"].num_nodes == 4  # warnings are errors


def test_a_site_of_ten_rows_takes_part_and_one_of_five_tells_no_sums():
    ages = {"a": AGES, "b": AGES[:10], "c": AGES[:5]}

    def play(connection):
        rows = ages[connection.name]
        table = {"age": rows, "ill": [k % 2 for k in range(len(rows))]}
        with connected(connection):
            return site(connection.name, table, target="ill").tasks()

    with warns("quality", "columns", "'age'", "6", "'c'"):
        found = Hall(tuple(ages), poll=0.3).play(play)
    both = np.array(AGES + AGES[:10], float)
    (age,) = found["c"].preparation.columns
    assert (age.mean[0], age.deviation[0]) == (pytest.approx(both.mean()), pytest.approx(both.std()))
    assert age.indicator is False


def test_no_site_has_enough_values():
    rare = {"rare": [1.0] * 5 + [None] * 35, "age": AGES, "ill": [0, 1] * 20}

    def play(connection):
        with connected(connection):
            try:
                return site(connection.name, rare, target="ill").tasks()
            except ValueError as error:
                return error

    with warns("quality", "columns", "'rare'", "6"):
        found = Hall(("a", "b"), poll=0.3).play(play)
    assert str(found["a"]) == str(found["b"])
    assert str(found["a"]).startswith("no site has 6 values of column 'rare', and of fewer no sums are told")


@cache
def all_but_two(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sums, sums of squares and largest values of all multisets of ages without their two largest."""
    every = combinations_with_replacement(range(20, 95), rows - 2)
    rest = np.fromiter(chain.from_iterable(every), np.int64).reshape(-1, rows - 2)
    return rest.sum(1), (rest**2).sum(1), rest[:, -1]


def solutions(ages: np.ndarray) -> int:
    """How many multisets of ages from 20 to 94 have the same count, sum and sum of squares, all of them counted."""
    sums, squares, least = all_but_two(len(ages))
    total, square = ages.sum() - sums, (ages**2).sum() - squares  # of the two largest, which follow
    root = np.sqrt(np.maximum(2 * square - total**2, 0)).round().astype(np.int64)
    low, high = (total - root) // 2, (total + root) // 2
    return int(((low + high == total) & (low**2 + high**2 == square) & (low >= least) & (high <= 94)).sum())


@pytest.mark.parametrize(
    ("rows", "unique", "median", "fewest"),
    [(3, 0.54, 1, 1), (4, 0.035, 8, 2), (5, 0.002, 80, 15), pytest.param(6, 0, 840, 130, marks=pytest.mark.slow)],
)
def test_from_how_many_rows_sums_of_ages_identify_nobody(rows, unique, median, fewest):
    """The table of docs/threat_model.md: of how many sets of ages one is typical, and of how few one in twenty."""
    rng = np.random.default_rng(0)
    found = np.array([solutions(rng.integers(20, 95, rows)) for _ in range({3: 500, 4: 500, 5: 200, 6: 100}[rows])])
    assert (found == 1).mean() == pytest.approx(unique, abs=0.02)
    assert np.median(found) == pytest.approx(median, rel=0.15)
    assert np.quantile(found, 0.05) == pytest.approx(fewest, rel=0.4)
    assert rows < 6 or found.min() > 1
