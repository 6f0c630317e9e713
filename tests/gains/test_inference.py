from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from graphcollab.gains import corrected_differences, holm


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
    sure = corrected_differences(torch.tensor([2.0, 2.0, 2.0]), torch.tensor(0.5))
    assert float(sure.p_value) == 0.0


def test_holm_by_hand():
    """Sorted 0.01, 0.02, 0.03, 0.4: times 4, 3, 2, 1, and never less than one before."""
    adjusted = holm(torch.tensor([[0.03, 0.01], [0.4, 0.02]], dtype=torch.float64))
    assert adjusted.flatten().tolist() == pytest.approx([0.06, 0.04, 0.4, 0.06])
    some = holm(torch.tensor([0.04, math.nan, 0.03], dtype=torch.float64))
    assert some.tolist() == pytest.approx([0.06, math.nan, 0.06], nan_ok=True)
    assert holm(torch.tensor([0.9, 0.8])).tolist() == [1.0, 1.0]
    assert holm(torch.tensor([math.nan])).isnan().all()
