"""What a page's answer says of differences, given how many seeds there are."""

from __future__ import annotations

import pytest
from scipy import stats

from graphcollab.report.page.sections import answer
from graphcollab.train import Comparison
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
    ("gains", "code", "numbers"),
    [
        ([0.1], "open", {"seeds": 1}),
        ([0.1, 0.11], "open", {"seeds": 2}),
        (SURE, "evidence", {"better": ["l2c"], "worse": []}),
        (UNSURE, "no-evidence", {"better": [], "worse": []}),
        ([-gain for gain in SURE], "no-evidence", {"better": [], "worse": ["l2c"]}),
    ],
)
def test_evidence_takes_seeds(gains, code, numbers):
    said, _, difference = answer(compared(l2c=gains), "local", None)
    assert (said.code, said.subject, said.numbers) == (code, "local", numbers)
    assert (difference.code, difference.subject) == ("difference", "l2c")
    assert difference.numbers["mean"] == pytest.approx(100 * sum(gains) / len(gains))
    if len(gains) > 2:
        assert difference.numbers["p"] == pytest.approx(stats.ttest_1samp(gains, 0).pvalue)


def test_one_of_many_comparisons_needs_more():
    gains = [0.1, 0.01, 0.12, 0.02, 0.12]
    said, _, difference = answer(compared(l2c=gains, cobo=UNSURE, ditto=[0.0] * 5), "local", None)
    p_value = stats.ttest_1samp(gains, 0).pvalue
    assert p_value < 0.05 < 3 * p_value
    assert said.code == "no-evidence"
    assert difference.numbers["p"] == pytest.approx(3 * p_value)
    assert difference.numbers["comparisons"] == 3


def test_evidence_need_not_be_of_the_best_mean():
    said, best, difference = answer(compared(l2c=[0.3, -0.2, 0.6, -0.1, 0.4], cobo=SURE), "local", None)
    assert (said.code, said.numbers["better"]) == ("evidence", ["cobo"])
    assert (best.subject, difference.subject) == ("l2c", "cobo")  # of which there is evidence
    assert difference.numbers["mean"] == pytest.approx(11.0)


def test_local_training_may_be_the_best():
    said, best, difference = answer(compared(l2c=[-0.2, -0.1, 0.1, -0.2, -0.1]), "local", None)
    assert said.code == "no-evidence"
    assert (best.subject, difference.subject) == ("local", "l2c")
    assert difference.numbers["mean"] == pytest.approx(-10.0)


def test_without_a_reference_it_says_what_is_lacking():
    found = answer(Comparison([], {"l2c": [trial("l2c", 0, 0.5, 0.4, {})]}, True), None, None)
    assert [one.code for one in found] == ["best-mean", "no-reference"]
