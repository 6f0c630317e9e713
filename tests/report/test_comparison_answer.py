"""What a page's answer says of differences, given how many seeds there are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scipy import stats

from graphcollab.analysis import Comparison
from graphcollab.analysis.baseline import SKLEARN
from graphcollab.report.comparison_answer import comparison_findings as answer
from tests.raising import raises
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
    said, difference, _ = answer(compared(l2c=gains), "local")
    assert (said.code, said.subject, said.numbers) == (code, "local", numbers)
    assert (difference.code, difference.subject) == ("difference", "l2c")
    assert difference.numbers["mean"] == pytest.approx(100 * sum(gains) / len(gains))
    if len(gains) > 2:
        assert difference.numbers["p"] == pytest.approx(stats.ttest_1samp(gains, 0).pvalue)


def test_a_reference_that_is_not_there_is_refused():
    with raises("unknown", "name", "'locl'", "did you mean 'local'"):
        answer(compared(l2c=SURE), "locl")


def test_one_of_many_comparisons_needs_more():
    gains = [0.1, 0.01, 0.12, 0.02, 0.12]
    said, difference, _ = answer(compared(l2c=gains, cobo=UNSURE, ditto=[0.0] * 5), "local")
    p_value = stats.ttest_1samp(gains, 0).pvalue
    assert p_value < 0.05 < 3 * p_value
    assert said.code == "no-evidence"
    assert difference.numbers["p"] == pytest.approx(3 * p_value)
    assert difference.numbers["comparisons"] == 3


@pytest.mark.parametrize(
    ("gains", "constant", "useless", "advice"),
    [
        (SURE, [-0.2] * 5, [], "So use l2c"),
        (SURE, [0.05] * 5, ["local"], "So use l2c"),
        (SURE, [0.3] * 5, ["l2c", "local"], "So trust no model yet"),
        (UNSURE, [0.0] * 5, ["local"], "So decide nothing yet, as local"),
        ([0.0] * 5, [-0.1] * 5, [], "So stay with local"),
    ],
)
def test_models_no_better_than_constants(gains, constant, useless, advice):
    found = answer(compared(l2c=gains, constant=constant), "local")
    assert [one.numbers["methods"] for one in found if one.code == "no-better"] == [useless] * bool(useless)
    assert str(found[-1]).startswith(advice)


def test_one_method_and_a_metric_by_which_constants_win():
    """One that has nothing to be compared with is held against constants; ECE of these says nothing of models."""
    alone = answer(compared(constant=[0.1] * 5), "local")
    assert [one.code for one in alone] == ["best-mean", "no-better", "no-reference"]
    assert "lacking" not in str(alone[-1])
    calibrated = replace(compared(l2c=SURE, constant=[-0.3] * 5), metric="ece", higher_is_better=False)
    assert "no-better" not in {one.code for one in answer(calibrated, "local")}
    same = answer(compared(l2c=[0.0] * 5), "local")[1]
    assert "the same as" in str(same)


def test_simple_tools_beside_them_are_no_comparisons():
    gains = [0.1, 0.01, 0.12, 0.02, 0.12]
    tools = {name: [0.5, 0.6, 0.7, 0.6, 0.5] for name in SKLEARN}
    verdict, difference, to_do = answer(compared(l2c=gains, **tools), "local")
    assert (verdict.numbers["better"], difference.subject, to_do.subject) == (["l2c"], "l2c", "l2c")
    assert difference.numbers["p"] == pytest.approx(stats.ttest_1samp(gains, 0).pvalue)
    assert difference.numbers["comparisons"] == 1
    low, high = stats.t.interval(0.95, 4, 7.4, stats.sem([100 * one for one in gains]))
    assert difference.message == (
        "With l2c (every site mixes its neighbors' models with weights learned on its own validation data) accuracy "
        "is 7.40 points higher than with local (every site trains a model on its own data only): 95 % interval "
        f"of the difference +{low:.2f} … +{high:.2f}, p = {difference.numbers['p']:.2g}."
    )


def test_evidence_need_not_be_of_the_best_mean():
    said, difference, _ = answer(compared(l2c=[0.3, -0.2, 0.6, -0.1, 0.4], cobo=SURE), "local")
    assert (said.code, said.numbers["better"]) == ("evidence", ["cobo"])
    assert difference.subject == "cobo"  # of which there is evidence, though l2c has the best mean
    assert difference.numbers["mean"] == pytest.approx(11.0)


def test_local_training_may_be_the_best():
    said, difference, _ = answer(compared(l2c=[-0.2, -0.1, 0.1, -0.2, -0.1]), "local")
    assert said.code == "no-evidence"
    assert difference.subject == "l2c"
    assert difference.numbers["mean"] == pytest.approx(-10.0)


def test_without_a_reference_it_says_what_is_lacking():
    found = answer(Comparison([], {"l2c": [trial("l2c", 0, 0.5, 0.4, {})]}, True), None)
    assert [one.code for one in found] == ["best-mean", "no-reference"]
