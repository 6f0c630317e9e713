from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import torch

from graphcollab.analysis.metrics.bootstrap import bootstrap, percentile_interval
from graphcollab.analysis.metrics.classification import accuracy, auc
from graphcollab.analysis.metrics.errors import mae


def test_means_spread_as_the_binomial_distribution_says() -> None:
    outputs = torch.tensor([1.0] * 30 + [-1.0] * 20)
    found = bootstrap(accuracy, outputs, torch.ones(50), resamples=20_000)
    assert float(found.mean()) == pytest.approx(0.6, abs=0.002)
    assert float(found.std()) == pytest.approx(math.sqrt(0.6 * 0.4 / 50), rel=0.03)
    low, high = percentile_interval(found).tolist()
    assert (low, high) == pytest.approx((0.46, 0.74), abs=0.021)


def test_by_hand_on_two_samples() -> None:
    # errors 0 and 4: the mean of two draws is 0, 2 or 4 with chances 1/4, 1/2, 1/4
    found = bootstrap(mae, torch.tensor([0.0, 4.0]), torch.zeros(2), resamples=4000)
    assert [round(float((found == v).double().mean()), 1) for v in (0.0, 2.0, 4.0)] == pytest.approx(
        [0.25, 0.5, 0.25], abs=0.051
    )
    assert set(found.tolist()) == {0.0, 2.0, 4.0}


def test_the_same_samples_are_drawn_for_two_models() -> None:
    targets = torch.randn(20, generator=torch.Generator().manual_seed(0))
    outputs = torch.zeros(20)
    one, other = bootstrap(mae, outputs, targets), bootstrap(mae, outputs + 100, targets)
    # both 50 and 100 are above all targets, so errors differ by 50 in every resample
    signed = bootstrap(mae, outputs + 50, targets)
    assert torch.allclose(other - signed, torch.full_like(one, 50.0))
    assert not torch.equal(one, bootstrap(mae, outputs, targets, seed=1))
    assert not torch.equal(one, bootstrap(mae, outputs, targets, node_id=1))


def test_resamples_do_not_depend_on_how_many_are_judged_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs, targets = torch.randn(2, 30, generator=torch.Generator().manual_seed(1))
    whole = bootstrap(mae, outputs, targets, resamples=100)
    monkeypatch.setattr(sys.modules["graphcollab.analysis.metrics.bootstrap"], "LARGE", 90)
    assert torch.equal(whole, bootstrap(mae, outputs, targets, resamples=100))


def test_resamples_of_one_class_have_no_area() -> None:
    found = bootstrap(auc, torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0, 1, 1]), resamples=5000)
    # all three draws are positive with chance 8/27, or all negative with 1/27
    assert float(found.isnan().double().mean()) == pytest.approx(9 / 27, abs=0.02)
    assert found[~found.isnan()].unique().tolist() == [1.0]
    assert percentile_interval(found).tolist() == [1.0, 1.0]
    assert percentile_interval(torch.tensor([1.0, math.nan, math.nan])).isnan().all()


def test_percentiles_are_numpys() -> None:
    values = torch.randn(3, 200, generator=torch.Generator().manual_seed(2))
    wanted = np.quantile(values.double().numpy(), [0.05, 0.95], axis=1).T
    assert np.allclose(percentile_interval(values, 0.9).numpy(), wanted)


def test_no_samples() -> None:
    assert bootstrap(mae, torch.zeros(0), torch.zeros(0), resamples=3).isnan().tolist() == [True] * 3


def test_whole_groups_by_hand() -> None:
    # errors 0 and 4 of one group, 1 of the other: 2 if the first is drawn twice, 5/3 of both, 1
    found = bootstrap(mae, torch.tensor([0.0, 1.0, 4.0]), torch.zeros(3), resamples=4000, group=torch.tensor([7, 2, 7]))
    values, many = found.unique(return_counts=True)
    assert values.tolist() == pytest.approx([1, 5 / 3, 2])
    assert (many / 4000).tolist() == pytest.approx([0.25, 0.5, 0.25], abs=0.03)
    alone = {"outputs": torch.tensor([0.0, 1.0]), "targets": torch.zeros(2), "weight": torch.tensor([1.0, 3.0])}
    assert bootstrap(mae, **alone).equal(bootstrap(mae, **alone, group=torch.arange(2)))
