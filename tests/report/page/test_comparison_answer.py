"""What a page's answer says of differences, given how many seeds there are."""

from __future__ import annotations

import pytest
from scipy import stats

from graphcollab.report.page.comparison_answer import answer
from graphcollab.report.page.comparison_asked import asked
from graphcollab.train import Comparison, Trial
from tests.report.conftest import trial


def compared(**gains: list[float]) -> Comparison:
    """Return a comparison of local training and methods that are better by so much on every seed."""
    seeds = len(next(iter(gains.values())))
    chosen = {"local": [trial("local", seed, 0.5, 0.4, {}) for seed in range(seeds)]}
    for name, more in gains.items():
        chosen[name] = [trial(name, seed, 0.5 + gain, 0.4, {}) for seed, gain in enumerate(more)]
    return Comparison([one for some in chosen.values() for one in some], chosen, True, {}, "accuracy")


SURE, UNSURE = [0.1, 0.12, 0.11, 0.1, 0.12], [0.1, -0.12, 0.2, -0.1, 0.05]


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([0.1], "Whether any method does better than local is open: 1 seed is too few to tell."),
        ([0.1, 0.11], "Whether any method does better than local is open: 2 seeds are too few to tell."),
        (SURE, "There is evidence that l2c does better than local in the mean over nodes."),
        (UNSURE, "There is no evidence that any method does better than local in the mean over nodes."),
        (
            [-gain for gain in SURE],
            "There is no evidence that any method does better than local in the mean over nodes, and there is some "
            "that l2c does worse.",
        ),
    ],
)
def test_evidence_takes_seeds(gains, verdict):
    said, numbers = answer(compared(l2c=gains), "local", None)
    assert said == verdict
    assert f"differs from local by {100 * sum(gains) / len(gains):+.2f} points".replace("-", "−") in numbers
    if len(gains) > 2:
        assert f"p = {stats.ttest_1samp(gains, 0).pvalue:.2g}" in numbers


def test_one_of_many_comparisons_needs_more():
    gains = [0.1, 0.01, 0.12, 0.02, 0.12]
    said, numbers = answer(compared(l2c=gains, cobo=UNSURE, ditto=[0.0] * 5), "local", None)
    p_value = stats.ttest_1samp(gains, 0).pvalue
    assert p_value < 0.05 < 3 * p_value
    assert said.startswith("There is no evidence")
    assert f"p = {3 * p_value:.2g}, corrected for 3 comparisons" in numbers


def test_evidence_need_not_be_of_the_best_mean():
    said, numbers = answer(compared(l2c=[0.3, -0.2, 0.6, -0.1, 0.4], cobo=SURE), "local", None)
    assert said == "There is evidence that cobo does better than local in the mean over nodes."
    assert numbers.startswith("l2c has the best mean over nodes")
    assert "; cobo differs from local by +11.00 points" in numbers  # of which there is evidence


def test_local_training_may_be_the_best():
    said, numbers = answer(compared(l2c=[-0.2, -0.1, 0.1, -0.2, -0.1]), "local", None)
    assert said.startswith("There is no evidence")
    assert "local has the best mean" in numbers
    assert "the next, l2c, differs from local by −10.00 points" in numbers


def test_without_a_reference_it_says_what_is_lacking():
    assert "nothing here says" in answer(Comparison([], {"l2c": [trial("l2c", 0, 0.5, 0.4, {})]}, True), None, None)[1]


def test_it_says_what_local_training_could_choose_from():
    summary = {"mean": 0.5}
    tried = [Trial("local", s, {"lr": lr}, 0.5, summary, local_steps=300.0) for s in range(3) for lr in (0.1, 0.01)]
    others = [Trial("l2c", s, {"lr": 0.1}, 0.5, summary, local_steps=300.0) for s in range(3)]
    found = Comparison([*tried, *others], {"local": [*tried[::2][:2], tried[5]], "l2c": others}, True, {}, "accuracy")
    text = asked(found, {}, "local")
    assert (
        "Local took 300 local steps per node and chose from 2 settings by validation data (lr=0.1 on 2 of 3 seeds, "
        "lr=0.01 on 1 of 3 seeds)." in text
    )
    assert "Not on equal terms: settings tried: 2 by local; 1 by l2c." in text
