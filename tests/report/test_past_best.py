from __future__ import annotations

import pytest
import torch

from graphcollab.report import paired_table
from graphcollab.report._past_best import _was_better, past_best
from graphcollab.train import Comparison, Trial

UP_AND_DOWN = ([0.5, 0.8, 0.60], [0.5, 0.8, 0.62], [0.4, 0.8, 0.61])


def made(*curves: list[float], better: bool = True, ends: float | None = None, metric: str = "accuracy") -> Comparison:
    trials = [
        Trial("local", seed, {}, 0.0, {"mean": values[-1] if ends is None else ends}, ([5, 10, 15], values))
        for seed, values in enumerate(curves)
    ]
    return Comparison(trials, {"local": trials}, better, {}, metric)


def test_says_when_it_was_best_and_what_became_of_it():
    # on every seed the others are best after 10 rounds; the fall of 0.20, 0.18 and 0.19 is 0.19 ± 0.040 (98 %)
    assert past_best(made(*UP_AND_DOWN)) == (
        "trained past the best: local (accuracy (%) 80.00 after 10 rounds, 61.00 after 15); "
        "gains over that may be nothing else: stop in time, by patience=20"
    )


def test_errors_that_rise():
    falling = [[1 - value for value in values] for values in UP_AND_DOWN]
    said = past_best(made(*falling, better=False, metric="brier"))
    assert "local (brier 0.2 after 10 rounds, 0.39 after 15)" in said


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
    assert past_best(made(*curves)) == ""


def test_says_nothing_of_runs_that_returned_their_best():
    assert past_best(made(*UP_AND_DOWN, ends=0.8)) == ""


def test_tables_say_it():
    both = made(*UP_AND_DOWN)
    trials = {"local": both.chosen["local"], "other": both.chosen["local"]}
    twice = Comparison([*both.trials], trials, True, {}, "accuracy")
    assert "trained past the best: local (" in paired_table(twice, "local")


def test_noise_is_hardly_ever_taken_for_a_fall():
    drawn = torch.Generator().manual_seed(0)
    found = [_was_better(torch.randn(5, 60, generator=drawn).tolist()) for _ in range(300)]
    assert sum(found) / 300 < 0.05  # of 400 others 2 %
