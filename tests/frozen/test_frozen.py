"""Tables become what they became when it was recorded, and saved models say of new rows what they said."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.frozen.outcomes import moved
from tests.frozen.record import plays, recorded, texts, without_texts

PLAYS, RECORDED = plays(), recorded()


@cache
def outcome_of(case: str, folder: Path) -> dict[str, Any]:
    place = folder / str([*PLAYS].index(case))
    place.mkdir()
    return PLAYS[case](place)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("frozen")


@pytest.mark.parametrize("case", PLAYS)
def test_tables_become_what_was_recorded(case: str, folder: Path) -> None:
    assert moved(without_texts(outcome_of(case, folder)), without_texts(RECORDED[case]), case) == []


@pytest.mark.parametrize("case", PLAYS)
def test_errors_and_warnings_say_what_was_recorded(case: str, folder: Path) -> None:
    assert moved(texts(outcome_of(case, folder)), texts(RECORDED[case]), case) == []


def test_nothing_else_is_recorded() -> None:
    assert {*RECORDED} == {*PLAYS}


def test_differences_are_seen() -> None:
    one = {"names": ["a"], "first": [1.0, 2.0], "bits": "ab"}
    assert moved(one, one, "case") == moved(one | {"first": [1.0, 2.0 + 1e-9]}, one, "case") == []
    assert moved(one | {"first": [1.0, 3.0]}, one, "case") == ["case: first moved by 0.5"]
    assert moved(one | {"bits": "ac"}, one, "case") == ["case: bits was 'ab', is 'ac'"]
    assert moved({"names": ["a"], "new": 1}, {"names": ["b"], "old": 1}, "case") == [
        "case: new is new",
        "case: old is gone",
        "case: names was ['b'], is ['a']",
    ]
