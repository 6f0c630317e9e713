"""Sites that write the classes or categories of a column differently: the same answer however their tables come."""

from __future__ import annotations

import warnings

import pytest

from graphcollab import Tasks
from graphcollab.data.quality_of_values import of_codings
from graphcollab.sites import tasks_of_site
from tests.data.rooms import at_sites, results_of
from tests.raising import raises

AGE = [40.0 + k % 17 for k in range(40)]
ILL = [*"uvvu"] * 10
KINDS = ("numbers at 'A'", "text at 'B'")


def one_frame(tables, **settings):
    rows = {name: [value for table in tables.values() for value in table[name]] for name in tables["A"]}
    return Tasks.from_frame({"site": [site for site in tables for _ in AGE], **rows}, **settings)


def between(tables, **settings):
    found, _ = at_sites(
        lambda door, k: tasks_of_site(door, [*tables][k], [*tables.values()][k], **settings), len(tables)
    )
    return results_of(found)[0]


ROUTES = {"frame": one_frame, "dict": Tasks.from_frame, "sites": between}


def preparation_and_warnings(make, tables, **settings):
    """Return what is made, and the texts of the warnings of it."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        tasks = make(tables, **settings)
    return tasks.preparation, {str(one.message) for one in found}


def tables_of(target=ILL, other=None, **columns):
    """Return the tables of two sites, whose columns are given as pairs."""
    first, second = ({name: [*pair[k]] * (40 // len(pair[k])) for name, pair in columns.items()} for k in range(2))
    return {
        "A": {"age": AGE, **first, "y": target},
        "B": {"age": AGE, **second, "y": target if other is None else other},
    }


@pytest.mark.parametrize("first", [[0, 1], [False, True]], ids=str)
@pytest.mark.parametrize("route", ROUTES)
def test_numbers_at_one_site_and_words_at_another_are_refused(route, first):
    facts = {"frame": ["'no'"], "sites": ["text at 'B'"], "dict": KINDS}[route]
    with raises("mismatch", "target" if route == "sites" else "column 'y'", *facts):
        ROUTES[route](tables_of(first * 20, ["no", "yes"] * 20))
    with raises("mismatch", "column 's'"):
        ROUTES[route](tables_of(s=(first, ["no", "yes"])))


def test_the_side_that_has_text_is_named():
    tables = tables_of()
    tables["B"]["age"] = [*map(str, AGE)]
    with raises("mismatch", "column 'age'", *KINDS):
        Tasks.from_frame(tables)


def test_kinds_may_differ_where_it_is_said_that_these_are_categories_or_where_it_does_not_matter():
    tables = tables_of(s=([1, 2], ["1", "3a"]), visit=([7, 8, 9, 6], [*"xyzw"]))
    some = Tasks.from_frame(tables, categorical=["s"], group="visit")
    assert some.preparation.features == ("age", "s = 1", "s = 2", "s = 3a")
    inputs = some.preparation.apply({name: {**table, "s": ["1", "2"] * 20} for name, table in tables.items()})
    assert inputs[:, 1:].sum(0).tolist() == [40.0, 40.0, 0.0]


CODINGS = {
    "words": (["0", "1"], ["no", "yes"], ("0", "1", "no", "yes"), "'0', '1' at 'A' and 'no', 'yes' at 'B'"),
    "languages": (["ja", "nein"], ["yes", "no"], ("ja", "nein", "no", "yes"), "'ja', 'nein' at 'A' and 'no', 'yes'"),
    "from 1": ([1, 2], [0, 1], (0, 1, 2), "'1', '2' at 'A' and '0', '1' at 'B'"),
}


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("route", ROUTES)
def test_sites_of_which_none_has_the_classes_of_another_are_warned_of(route, coding):
    first, second, classes, says = CODINGS[coding]
    preparation, texts = preparation_and_warnings(ROUTES[route], tables_of(first * 20, second * 20))
    assert preparation.classes == classes
    (text,) = texts
    assert text.startswith(f"the target 'y' has {says}")
    assert "and no site has both among its training rows: if they mean the same, write them alike at all" in text


@pytest.mark.parametrize("route", ROUTES)
def test_inputs_are_warned_of_together(route):
    codes = {
        "smoker": (["no", "yes"], ["nein", "ja"]),
        "ward": (["a", "b"], ["c", "d"]),
        "stage": (["x", "y"], ["y", "z"]),
        "sex": ("fm", "fm"),
    }
    _, texts = preparation_and_warnings(ROUTES[route], tables_of(**codes))
    text = next(one for one in texts if "write them alike" in one)
    assert "'smoker' has 'no', 'yes' at 'A' and 'ja', 'nein' at 'B'; column 'ward' has 'a', 'b' at 'A'" in text
    assert "sex" not in text
    assert "stage" not in text


def test_classes_counted_from_another_number():
    _, texts = preparation_and_warnings(Tasks.from_frame, tables_of([0, 1, 2, 2] * 10, [1, 2, 3, 3] * 10))
    assert [one[:26] for one in texts] == ["the target 'y' has '0', '1"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([0, 1] * 20, [1] * 40),  # a class is rare at B
        ([0] * 40, [1] * 40),  # cases of one site, controls of another
        ([*"abcde"] * 8, [*"bcdef"] * 8),  # each lacks a diagnosis
        ([*"abcdefgh"] * 5, [*"ijklmnop"] * 5),  # too many for so few rows
    ],
)
def test_sites_may_lack_classes(first, second):
    assert preparation_and_warnings(Tasks.from_frame, tables_of(first, second))[1] == set()


def test_a_site_that_has_all_classes_shows_that_they_are_coded_alike():
    tables = tables_of([0, 1] * 20, [1, 2] * 20)
    assert preparation_and_warnings(Tasks.from_frame, {**tables, "C": {"age": AGE, "y": [0, 1, 2, 1] * 10}})[1] == set()


def test_a_site_with_values_of_both_shows_that_they_are_coded_alike_though_it_lacks_some():
    """Crawford has one-family houses and townhouses, but no two-family ones: no site's values are a set above it."""
    kinds = {"A": ["one", "two"] * 20, "B": ["town", "end"] * 20, "C": ["one", "town"] * 20}
    tables = {site: {"age": AGE, "kind": kind, "y": ILL} for site, kind in kinds.items()}
    assert not [one for one in preparation_and_warnings(Tasks.from_frame, tables)[1] if "write them alike" in one]


@pytest.mark.parametrize(("many", "told"), [(10, 1), (11, 0)])
def test_more_than_ten_values_are_names_and_no_coding(many, told):
    """Streets of one precinct are not those of another."""
    streets = [["a", "b"], [f"street {k}" for k in range(many)]]
    assert len(of_codings(["1", "2"], [100, 100], {"street": streets}, "y")) == told
