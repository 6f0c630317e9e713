from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from graphcollab.report import budget_table
from graphcollab.train import Comparison, Trial
from tests.raising import raises


def cells(table: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in table.split("\n\n")[0].splitlines()[2:]}


def trial(method: str, seed: int, values: list[float], messages: tuple[float, ...], **kept: Any) -> Trial:
    """Return a trial of four nodes: all pairs send 12 messages a round."""
    kept = {"per_node": (0.0,) * 4, "sent": tuple(1000.0 * m / 4 for m in messages), **kept}
    return Trial(method, seed, {}, 0.0, {"mean": values[-1]}, ([1, 2, 3], values), messages=messages, **kept)


@pytest.fixture
def comparison() -> Comparison:
    chosen = {
        "local": [trial("local", s, [0.25, 0.5, 0.5 + s / 8], (0.0, 0.0, 0.0)) for s in (0, 1)],
        "dpsgd": [trial("dpsgd", s, [0.25, 0.5, 0.75], (12.0, 24.0, 36.0)) for s in (0, 1)],
        "mapl": [trial("mapl", s, [0.25, 0.5 + s / 4, 0.875], (12.0, 16.0 + 2 * s, 20.0 + 4 * s)) for s in (0, 1)],
    }
    return Comparison([], chosen, True)


def test_by_hand(comparison: Comparison) -> None:
    table = budget_table(comparison, 18)
    names = ["mean test accuracy (%)", "messages", "of all pairs (%)", "sent", "within 18 messages (%)", "in round"]
    header = table.splitlines()[0]
    assert [header.index(name) for name in names] == sorted(header.index(name) for name in names)
    found = cells(table)
    # of (50, 62.5) the standard deviation is 12.5 / sqrt 2
    assert found["local"] == ["56.25", "±", "8.84", "0", "0.0", "0", "B", "56.25", "±", "8.84", "3"]
    assert found["dpsgd"] == ["75.00", "±", "0.00", "36", "100.0", "36.0", "kB", "25.00", "±", "0.00", "1"]
    # (20 + 24) / 2 of 36 messages; within 18 both seeds are in round 2: (50, 75), deviation 25 / sqrt 2
    assert found["mapl"] == ["87.50", "±", "0.00", "22", "61.1", "22.0", "kB", "62.50", "±", "17.68", "2"]


def test_messages_that_prepared_tables_are_not_of_pairs(comparison: Comparison) -> None:
    """8 messages before the first round: then 36 of the 36 that all pairs send in three rounds, and none."""
    chosen = {
        name: [replace(t, messages=tuple(8 + m for m in t.messages), prepared=8) for t in trials]
        for name, trials in comparison.chosen.items()
    }
    found = cells(budget_table(replace(comparison, chosen=chosen)))
    assert found["local"][3:5] == ["8", "0.0"]
    assert found["dpsgd"][3:5] == ["44", "100.0"]


def test_seeds_may_spend_it_at_different_rounds(comparison: Comparison) -> None:
    """16 messages in round 2 are within 17, 18 are not: (50, 25) in rounds 2 and 1."""
    assert cells(budget_table(comparison, 17))["mapl"][-4:] == ["37.50", "±", "17.68", "1.5"]


def test_a_budget_of_bytes(comparison: Comparison) -> None:
    table = budget_table(comparison, 16_000, "bytes")
    assert "within 16.0 kB (%)" in table.splitlines()[0]
    assert cells(table)["dpsgd"][-4:] == ["25.00", "±", "0.00", "1"]
    assert cells(table)["mapl"][-1] == "1.5"  # 16 and 18 kB in round 2


def test_spent_before_the_first_evaluation(comparison: Comparison) -> None:
    found = cells(budget_table(comparison, 11))
    assert found["dpsgd"][-2:] == found["mapl"][-2:] == ["–", "–"]
    assert found["local"][-1] == "3"


def test_without_a_budget(comparison: Comparison) -> None:
    header = budget_table(comparison).splitlines()[0]
    assert header.endswith("of all pairs (%)     sent")
    _, note = budget_table(comparison, 18).split("\n\n")
    assert note == "± is the standard deviation over 2 seeds"


def test_the_numbers_of_the_paper() -> None:
    """20 nodes, 400 rounds: 20 · 19 · 400 = 152,000 messages, of which MAPL needs 34 % less."""
    nodes, rounds = (0.0,) * 20, list(range(1, 401))
    every = tuple(380.0 * r for r in rounds)
    fewer = tuple(101_000.0 * r / 400 for r in rounds)
    chosen = {
        name: [Trial(name, 0, {}, 0.0, {"mean": 0.5}, (rounds, [r / 1000 for r in rounds]), nodes, messages=sent)]
        for name, sent in (("all", every), ("mapl", fewer))
    }
    found = cells(budget_table(Comparison([], chosen, True), 65_000))
    assert found["all"] == ["50.00", "152,000", "100.0", "–", "17.10", "171"]  # 171 · 380 = 64,980
    assert found["mapl"] == ["50.00", "101,000", "66.4", "–", "25.70", "257"]  # 257 · 252.5 = 64,892.5


def test_errors_are_not_in_percent(comparison: Comparison) -> None:
    errors = replace(comparison, metric="mse", higher_is_better=False)
    table = budget_table(errors, 18)
    assert table.split()[:5] == ["method", "mean", "test", "mse", "messages"]
    assert cells(table)["dpsgd"][0] == "0.7500"


def test_what_was_not_kept_is_left_open_or_refused(comparison: Comparison) -> None:
    bare = [replace(t, messages=(), sent=()) for t in comparison.chosen["mapl"]]
    found = replace(comparison, chosen={"mapl": bare})
    assert cells(budget_table(found))["mapl"] == ["87.50", "±", "0.00", "–", "–", "–"]
    with raises("missing", "method 'mapl'"):
        budget_table(found, 18)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1,), ("value", "budget")),
        ((float("nan"),), ("value", "budget")),
        ((5, "floats"), ("value", "unit", "'messages'", "'bytes'", "'floats'")),
        ((None, "floats"), ("value", "unit", "'messages'", "'bytes'", "'floats'")),
    ],
)
def test_refusals(comparison: Comparison, arguments: tuple[Any, ...], message: tuple[str, ...]) -> None:
    with raises(*message):
        budget_table(comparison, *arguments)
