from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from graphcollab.analysis.metrics import paired_difference
from graphcollab.analysis.metrics.statistics import PairedDifference
from tests.raising import raises


def test_five_pairs_against_a_table_of_student_t() -> None:
    result = paired_difference([5.0, 7.0, 6.0, 9.0, 8.0], [4.0, 5.0, 3.0, 5.0, 3.0])
    # differences 1..5: mean 3, standard deviation sqrt(2.5), t(4, .975) = 2.776445
    reach = 2.776445 * math.sqrt(2.5 / 5)
    assert result.mean == 3.0
    assert result.std == pytest.approx(math.sqrt(2.5))
    assert (result.low, result.high) == (pytest.approx(3 - reach, abs=1e-5), pytest.approx(3 + reach, abs=1e-5))
    assert result.n == 5


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_against_scipy(confidence: float) -> None:
    a, b = torch.randn(2, 9, generator=torch.Generator().manual_seed(0))
    result = paired_difference(a, b, confidence)
    test = stats.ttest_rel(a.double(), b.double())
    interval = test.confidence_interval(confidence)
    assert result.p_value == pytest.approx(test.pvalue)
    assert (result.low, result.high) == (pytest.approx(interval.low), pytest.approx(interval.high))


def test_a_single_pair_has_no_interval() -> None:
    result = paired_difference([2.0], [1.5])
    assert (result.mean, result.n) == (0.5, 1)
    assert all(map(math.isnan, (result.low, result.high, result.std, result.p_value)))


def test_differences_that_are_all_equal() -> None:
    for given in ([1.0, 2.0], [1.0, 2.0, 3.0, 4.0]):
        found = paired_difference([one + 1 for one in given], given)
        assert (found.mean, found.std, found.n, found.p_value) == (1.0, 0.0, len(given), 1.0)  # no evidence
        assert math.isnan(found.low)
        assert math.isnan(found.high)
    assert paired_difference([2.0, 3.0], [2.0, 3.0]) == PairedDifference(0.0, 0.0, 0.0, 0.0, 2, 1.0)


@pytest.mark.parametrize(
    ("a", "b", "confidence", "wanted"),
    [
        ([], [], 0.95, ("shape", "values")),
        ([1.0, 2.0], [1.0], 0.95, ("shape", "values")),
        ([1.0, float("nan")], [1.0, 2.0], 0.95, ("not-finite", "values", "2.0")),
        ([1.0, 2.0], [1.0, 2.0], 1.0, ("value", "confidence", "1.0")),
    ],
)
def test_bad_inputs(a: list[float], b: list[float], confidence: float, wanted: tuple[str, ...]) -> None:
    with raises(*wanted):
        paired_difference(a, b, confidence)


def test_corrected_for_shared_samples() -> None:
    """Differences 1, 2, 3, 6: mean 3, s² = 14 / 3; half as many test as training samples: 14 / 3 · (1/4 + 1/2)."""
    found = paired_difference([1.0, 2.0, 3.0, 6.0], [0.0] * 4, ratio=0.5)
    reach = stats.t.ppf(0.975, 3) * math.sqrt(3.5)
    assert (found.low, found.high, found.ratio) == pytest.approx((3 - reach, 3 + reach, 0.5))
    assert found.p_value == pytest.approx(2 * stats.t.sf(3 / math.sqrt(3.5), 3))
    assert paired_difference([2.0, 3.0], [1.0, 2.0], ratio=0.5).p_value == 1.0
