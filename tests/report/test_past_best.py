from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from graphcollab.analysis import Comparison
from graphcollab.analysis.metrics import paired_difference
from graphcollab.analysis.trial import Trial
from graphcollab.report._terms import better_at_the_end_only, past_best, stopped_in_time, sure_p_value
from graphcollab.report.comparison_answer import comparison_findings as answer
from graphcollab.report.tables import paired_table

UP_AND_DOWN = ([0.5, 0.8, 0.60], [0.5, 0.8, 0.62], [0.4, 0.8, 0.61])


def comparison_of(
    *curves: list[float],
    better: bool = True,
    ends: float | None = None,
    metric: str = "accuracy",
    rounds: Sequence[int] = (5, 10, 15),
) -> Comparison:
    trials = [
        Trial("local", seed, {}, 0.0, {"mean": values[-1] if ends is None else ends}, ([*rounds], values))
        for seed, values in enumerate(curves)
    ]
    return Comparison(trials, {"local": trials}, better, {}, metric)


def test_says_when_it_was_best_and_what_became_of_it():
    # on every seed the others are best after 10 rounds; the fall of 0.20, 0.18 and 0.19 is 0.19 ± 0.040 (98 %)
    (said,) = past_best(comparison_of(*UP_AND_DOWN))
    assert (said.code, said.subject, said.numbers["rounds"]) == ("past-best", "patience", {"local": 10})
    assert "80.00 after 10 rounds, 61.00 at the end" in said.message


def test_errors_that_rise():
    falling = [[1 - value for value in values] for values in UP_AND_DOWN]
    (said,) = past_best(comparison_of(*falling, better=False, metric="brier"))
    assert said.numbers["rounds"] == {"local": 10}
    assert "0.2 after 10 rounds, 0.39 at the end" in said.message


@pytest.mark.parametrize(
    "curves",
    [
        ([0.5, 0.6, 0.80], [0.5, 0.6, 0.82], [0.4, 0.6, 0.81]),  # best at the end
        UP_AND_DOWN[:2],  # two seeds are no evidence
        ([0.5, 0.81, 0.80], [0.5, 0.70, 0.69], [0.5, 0.91, 0.90]),  # less than seeds differ by: 0.01 of 0.105
        ([0.9, 0.6, 0.80], [0.5, 0.9, 0.80], [0.5, 0.5, 0.80]),  # one seed's best is another's worst
        ([0.5, 0.8, 0.60], [0.5, 0.8, 0.62], [0.5, float("nan"), 0.61]),
    ],
)
def test_says_nothing_without_evidence(curves):
    assert past_best(comparison_of(*curves)) == []


def test_says_nothing_of_runs_that_returned_their_best():
    assert past_best(comparison_of(*UP_AND_DOWN, ends=0.8)) == []


def test_tables_say_it():
    both = comparison_of(*UP_AND_DOWN)
    trials = {"local": both.chosen["local"], "other": both.chosen["local"]}
    twice = Comparison([*both.trials], trials, True, {}, "accuracy")
    assert "past-best" in {one.code for one in paired_table(twice, "local").notes}


def test_noise_is_hardly_ever_taken_for_a_fall():
    drawn = torch.Generator().manual_seed(0)
    many = (torch.randn(5, 60, generator=drawn).double().tolist() for _ in range(300))
    found = [bool(past_best(comparison_of(*curves, rounds=range(1, 61)))) for curves in many]
    assert sum(found) / 300 < 0.05  # of 400 others 2 %


def against(*curves: list[float], better: bool = True, reference=UP_AND_DOWN) -> Comparison:
    one, other = comparison_of(*reference, better=better), comparison_of(*curves, better=better)
    trials = {
        "local": one.chosen["local"],
        "other": [replace(trial, method="other") for trial in other.chosen["local"]],
    }
    return Comparison([*trials["local"], *trials["other"]], trials, better, {}, "accuracy")


def test_a_gain_over_what_was_trained_for_too_long_is_no_evidence():
    # at the end + 0.10, 0.11, 0.10, but 0.80 had local after 10 rounds, on every seed: - 0.10, - 0.07, - 0.09
    both = against([0.5, 0.6, 0.70], [0.5, 0.6, 0.73], [0.5, 0.6, 0.71])
    assert stopped_in_time(both, "local") == (10, pytest.approx(0.8), [0.8, 0.8, 0.8])
    assert both.paired("other", "local").p_value < 0.01
    assert sure_p_value(both, "other", "local") == 1.0
    (told,) = better_at_the_end_only(both, "local", ["other"], 0.05)
    assert (told.code, told.subject) == ("better-at-end-only", "local")
    assert told.numbers == {"rounds": 10, "methods": ["other"]}
    # t of 2 degrees is 4.303, and the differences' standard deviation 0.01528: 4.303 * 0.01528 / sqrt(3) = 0.03795
    assert told.message.startswith(
        "local was better earlier: compared with it as it was after 10 rounds (accuracy (%) "
    )
    assert "80.00" in told.message
    assert "−8.67: −12.46 … −4.87" in told.message
    assert told in paired_table(both, "local").notes
    verdict, second, *_ = answer(both, "local")
    assert (verdict.code, second) == ("no-evidence", told)


def test_a_gain_over_the_best_is_evidence():
    both = against([0.5, 0.8, 0.90], [0.5, 0.8, 0.93], [0.5, 0.8, 0.91])
    assert sure_p_value(both, "other", "local") == pytest.approx(
        paired_difference([0.90, 0.93, 0.91], [0.8] * 3).p_value
    )
    assert better_at_the_end_only(both, "local", ["other"], 0.05) == []
    verdict = answer(both, "local")[0]
    assert (verdict.code, verdict.numbers) == ("evidence", {"better": ["other"], "worse": []})


def test_a_loss_of_what_was_trained_for_too_long_is_no_evidence():
    level = ([0.5, 0.70, 0.75], [0.5, 0.70, 0.78], [0.5, 0.70, 0.76])
    both = against(*UP_AND_DOWN, reference=level)
    assert both.paired("other", "local").p_value < 0.01
    assert sure_p_value(both, "other", "local") == 1.0
    assert answer(both, "local")[0].numbers["worse"] == []


def test_errors_are_better_the_smaller():
    falling = [[1 - value for value in values] for values in UP_AND_DOWN]
    other = [[1 - value for value in values] for values in ([0.5, 0.6, 0.70], [0.5, 0.6, 0.73], [0.5, 0.6, 0.71])]
    both = against(*other, better=False, reference=falling)
    assert sure_p_value(both, "other", "local") == 1.0
    assert answer(both, "local")[1].numbers["rounds"] == 10
