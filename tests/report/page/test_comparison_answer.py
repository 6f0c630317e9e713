"""What a page's answer says of differences, given how many seeds there are."""

from __future__ import annotations

import pytest
from scipy import stats

from graphcollab.report.page.comparison_answer import _of_difference
from graphcollab.train import Comparison
from tests.report.conftest import trial


def compared(gains: list[float]) -> Comparison:
    """Return a comparison of two methods, one of which is better by so much on every seed."""
    chosen = {
        "local": [trial("local", seed, 0.5, 0.4, {}) for seed in range(len(gains))],
        "l2c": [trial("l2c", seed, 0.5 + gain, 0.4, {}) for seed, gain in enumerate(gains)],
    }
    return Comparison([one for some in chosen.values() for one in some], chosen, True, {}, "accuracy")


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        ([0.1], "how sure that is, 1 seed cannot say"),
        ([0.1, 0.11], "whether that is chance, 2 seeds are too few to say"),
        ([0.1, 0.12, 0.11, 0.1, 0.12], "which is evidence of a difference"),
        ([0.1, -0.12, 0.2, -0.1, 0.05], "which is no evidence of a difference"),
    ],
)
def test_evidence_takes_seeds(gains, said):
    text = _of_difference(compared(gains), "l2c", "local", 1)
    assert said in text
    assert f"by {100 * sum(gains) / len(gains):+.2f} points" in text
    if len(gains) > 2:
        assert f"p = {stats.ttest_1samp(gains, 0).pvalue:.2g}" in text


def test_one_of_many_comparisons_needs_more():
    text = _of_difference(compared([0.1, 0.02, 0.11, 0.05, 0.12]), "l2c", "local", 10)
    p_value = stats.ttest_1samp([0.1, 0.02, 0.11, 0.05, 0.12], 0).pvalue
    assert p_value < 0.05 < 10 * p_value
    assert f"no evidence of a difference (p = {10 * p_value:.2g}, corrected for 10 comparisons)" in text
