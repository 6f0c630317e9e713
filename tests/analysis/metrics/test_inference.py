from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from graphcollab.analysis.metrics import corrected_differences, paired_difference
from graphcollab.analysis.metrics.inference import holm


def test_corrected_t_test_by_hand():
    """Differences 1, 2, 3, 6: mean 3, s² = 14 / 3; a third as many test as training samples: 14 / 3 · (1/4 + 1/3)."""
    found = corrected_differences(torch.tensor([1.0, 2.0, 3.0, 6.0]), torch.tensor(1 / 3))
    error = math.sqrt(14 / 3 * 7 / 12)
    assert (float(found.mean), float(found.error)) == pytest.approx((3.0, error))
    assert float(found.p_value) == pytest.approx(2 * stats.t.sf(3 / error, 3))
    half = stats.t.ppf(0.975, 3) * error
    assert (float(found.low), float(found.high)) == pytest.approx((3 - half, 3 + half))
    bar = (stats.t.ppf(1 - 0.01 / 2, 3) + stats.t.ppf(0.8, 3)) * error
    assert float(found.detectable(0.01)) == pytest.approx(bar)


def test_parted_variance_by_hand():
    """Twice as many test as training samples; s² = 14 / 3 as above.

    Halves differ by 1, 1, 2 and 2: a quarter of the mean square, 10 / 16, and a third of that, τ² = 5 / 24, is due to
    the test samples; γ² = 14 / 3 - 5 / 24 = 107 / 24. Their variances of the mean: 7 / 6 + 2 τ² + γ² / 2.
    """
    values = torch.tensor([1.0, 2.0, 3.0, 6.0], dtype=torch.float64)
    halves = torch.tensor([[1.5, 0.5], [2.5, 1.5], [2.0, 4.0], [7.0, 5.0]])
    found = corrected_differences(values, torch.tensor(2.0), halves=halves)
    assert float(found.error) == pytest.approx(math.sqrt(7 / 6 + 10 / 24 + 107 / 48))
    few = corrected_differences(values, torch.tensor(0.5), halves=halves)
    assert float(few.error) == pytest.approx(math.sqrt(14 / 3 * 0.75))
    unknown = corrected_differences(values, torch.tensor(2.0), halves=torch.full((4, 2), math.nan))
    assert float(unknown.error) == pytest.approx(math.sqrt(14 / 3 * 2.25))


@pytest.mark.parametrize("training", [20, 60])
def test_intervals_hold_what_they_promise_with_many_test_samples(training):
    """Differences are sums over training and test samples of pools of 200, drawn from populations with mean 0."""
    generator = torch.Generator().manual_seed(0)
    pools = torch.randn(800, 200, 2, generator=generator).double()
    order = torch.rand(800, 10, 200, generator=generator).argsort(2)
    drawn = pools[torch.arange(800)[:, None, None], order]
    by_training = drawn[:, :, :training, 0].mean(2)
    tests = drawn[:, :, training:, 1]
    half = (200 - training) // 2
    halves = torch.stack([tests[..., :half].mean(2), tests[..., half:].mean(2)], 2) + by_training[..., None]
    values, halves = (by_training + tests.mean(2)).T, halves.permute(1, 2, 0)
    ratio = torch.tensor((200 - training) / training)
    parted, plain = (corrected_differences(values, ratio, halves=some) for some in (halves, None))
    misses = ((parted.low > 0) | (parted.high < 0)).double().mean()
    assert 0.02 < float(misses) < 0.065  # 5 %, within what 800 pools leave open, or more careful
    by_training, by_tests = 1 / training - 1 / 200, 1 / (200 - training) - 1 / 200
    variance = (by_training + by_tests) / 10 + by_tests * ratio + by_training / ratio
    assert float(parted.error.square().mean()) == pytest.approx(float(variance), rel=0.05)
    assert float(variance) < 0.35 * float(plain.error.square().mean())


def test_without_shared_samples_it_is_the_paired_t_test():
    values = torch.tensor([0.3, -0.1, 0.5, 0.2, 0.0], dtype=torch.float64)
    found = corrected_differences(values, torch.tensor(0.0))
    assert float(found.p_value) == pytest.approx(stats.ttest_1samp(values.numpy(), 0).pvalue)


def test_what_is_not_defined_does_not_count():
    nan = math.nan
    values = torch.tensor([[1.0, nan, 0.0, nan], [2.0, nan, 0.0, 1.0], [nan, nan, 0.0, nan]])
    found = corrected_differences(values, torch.tensor(0.5))
    assert found.repeats.tolist() == [2, 0, 3, 1]
    assert found.mean.tolist() == pytest.approx([1.5, nan, 0.0, 1.0], nan_ok=True)
    assert found.p_value.isnan().tolist() == [False, True, False, True]
    assert float(found.p_value[2]) == 1.0


@pytest.mark.parametrize("value", [2.0, 0.1, 1 / 3])  # sums of the last two are rounded
def test_differences_that_are_all_the_same_are_no_evidence(value):
    """Metrics that take few values are often the same on three splits."""
    found = corrected_differences(torch.tensor([value] * 3), torch.tensor(0.5))
    assert float(found.p_value) == 1.0
    assert float(found.mean) == pytest.approx(value)
    assert found.error.isnan()
    assert found.low.isnan()
    assert found.detectable(0.05).isnan()


def test_holm_by_hand():
    """Sorted 0.01, 0.02, 0.03, 0.4: times 4, 3, 2, 1, and never less than one before."""
    adjusted = holm(torch.tensor([[0.03, 0.01], [0.4, 0.02]], dtype=torch.float64))
    assert adjusted.flatten().tolist() == pytest.approx([0.06, 0.04, 0.4, 0.06])
    some = holm(torch.tensor([0.04, math.nan, 0.03], dtype=torch.float64))
    assert some.tolist() == pytest.approx([0.06, math.nan, 0.06], nan_ok=True)
    assert holm(torch.tensor([0.9, 0.8])).tolist() == [1.0, 1.0]
    assert holm(torch.tensor([math.nan])).isnan().all()


def test_ratios_are_of_double_precision():
    error = math.sqrt(14 / 3 * (1 / 4 + 1 / 3))
    ratio = torch.tensor(1 / 3, dtype=torch.float64)
    found = corrected_differences(torch.tensor([1.0, 2.0, 3.0, 6.0]), ratio)
    assert float(found.error) == pytest.approx(error, rel=1e-14)
    paired = paired_difference([1.0, 2.0, 3.0, 6.0], [0.0] * 4, ratio=1 / 3)
    assert paired.p_value == pytest.approx(2 * stats.t.sf(3 / error, 3), rel=1e-13)
