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
    said, difference = answer(compared(l2c=gains), "local", None)
    assert (said.code, said.subject, said.numbers) == (code, "local", numbers)
    assert (difference.code, difference.subject) == ("difference", "l2c")
    assert difference.numbers["mean"] == pytest.approx(100 * sum(gains) / len(gains))
    if len(gains) > 2:
        assert difference.numbers["p"] == pytest.approx(stats.ttest_1samp(gains, 0).pvalue)


def test_one_of_many_comparisons_needs_more():
    gains = [0.1, 0.01, 0.12, 0.02, 0.12]
    said, difference = answer(compared(l2c=gains, cobo=UNSURE, ditto=[0.0] * 5), "local", None)
    p_value = stats.ttest_1samp(gains, 0).pvalue
    assert p_value < 0.05 < 3 * p_value
    assert said.code == "no-evidence"
    assert difference.numbers["p"] == pytest.approx(3 * p_value)
    assert difference.numbers["comparisons"] == 3


def test_evidence_need_not_be_of_the_best_mean():
    said, difference = answer(compared(l2c=[0.3, -0.2, 0.6, -0.1, 0.4], cobo=SURE), "local", None)
    assert (said.code, said.numbers["better"]) == ("evidence", ["cobo"])
    assert (difference.numbers["best"], difference.subject) == ("l2c", "cobo")  # of which there is evidence
    assert difference.numbers["mean"] == pytest.approx(11.0)


def test_local_training_may_be_the_best():
    said, difference = answer(compared(l2c=[-0.2, -0.1, 0.1, -0.2, -0.1]), "local", None)
    assert said.code == "no-evidence"
    assert (difference.numbers["best"], difference.subject) == ("local", "l2c")
    assert difference.numbers["mean"] == pytest.approx(-10.0)


def test_without_a_reference_it_says_what_is_lacking():
    found = answer(Comparison([], {"l2c": [trial("l2c", 0, 0.5, 0.4, {})]}, True), None, None)
    assert [one.code for one in found] == ["best-mean", "no-reference"]


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
