from __future__ import annotations

from dataclasses import replace

import pytest

from graphcollab.report import time_to_table
from graphcollab.train import Comparison, Trial
from tests.raising import raises


def trial(method: str, seed: int, values: list[float], pace: float = 1.0, **kept: tuple[float, ...]) -> Trial:
    seconds = tuple(pace * t for t in (1.0, 2.0, 3.0))
    kept = {"seconds": seconds, "sent": (1000.0, 2000.0, 3000.0), **kept}
    return Trial(method, seed, {}, 0.0, {}, ([100, 200, 300], values), **kept)


@pytest.fixture
def comparison() -> Comparison:
    chosen = {
        "local": [trial("local", 0, [0.1, 0.2, 0.3]), trial("local", 1, [0.1, 0.2, 0.4])],
        "ditto": [trial("ditto", 0, [0.1, 0.5, 0.7]), trial("ditto", 1, [0.1, 0.5, 0.5])],
        "cobo": [trial("cobo", 0, [0.6, 0.5, 0.9], 3.0), trial("cobo", 1, [0.1, 0.75, 0.5])],
    }
    return Comparison([], chosen, True)


def test_means_over_the_seeds_that_reached_it(comparison: Comparison) -> None:
    header, _, local, ditto, cobo = time_to_table(comparison, 0.6).splitlines()
    assert header.startswith("mean test accuracy 60 %  ")
    assert local.split() == ["local", "not", "reached", "–", "–", "0", "of", "2"]
    assert ditto.split() == ["ditto", "300", "3.0", "3.0", "kB", "1", "of", "2"]
    # rounds 100 and 200, seconds 3 and 2, bytes 1000 and 2000; that cobo fell back does not count
    assert cobo.split() == ["cobo", "150", "2.5", "1.5", "kB", "2", "of", "2"]


def test_errors_are_reached_from_above(comparison: Comparison) -> None:
    errors = replace(comparison, metric="mse", higher_is_better=False)
    header, _, local, _, cobo = time_to_table(errors, 0.25).splitlines()
    assert header.startswith("mean test mse 0.25 ")
    assert local.split()[1:3] == ["100", "1.0"]
    assert cobo.split()[1:] == ["100", "1.0", "1.0", "kB", "1", "of", "2"]


def test_what_was_not_kept_is_left_open(comparison: Comparison) -> None:
    bare = [replace(t, seconds=(), sent=()) for t in comparison.chosen["cobo"]]
    line = time_to_table(replace(comparison, chosen={"cobo": bare}), 0.6).splitlines()[-1]
    assert line.split() == ["cobo", "150", "–", "–", "2", "of", "2"]


def test_a_target_in_percent_is_refused(comparison: Comparison) -> None:
    with raises("range", "target", "0", "1", "60"):
        time_to_table(comparison, 60)
