"""Temperature and threshold beside what scikit-learn and a search find."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss

from graphcollab.analysis.calibration import balanced_threshold, fit_temperature


def margins_and_classes(scale: float, seed: int = 0):
    """Margins that are too large by a factor, and classes."""
    draw = np.random.default_rng(seed)
    margin = draw.normal(size=400)
    return scale * margin, draw.random(400) < 1 / (1 + np.exp(-margin))


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0])
def test_a_temperature_is_the_inverse_slope_of_a_logistic_regression(scale):
    margin, truth = margins_and_classes(scale)
    slope = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10).fit(margin[:, None], truth).coef_[0, 0]
    logits, labels = torch.from_numpy(margin), torch.from_numpy(truth)
    assert fit_temperature(logits[:, None], labels.float()) == pytest.approx(1 / slope, rel=1e-4)
    two = torch.stack([torch.zeros(400).double(), logits], 1)
    assert fit_temperature(two.float(), labels.long()) == pytest.approx(1 / slope, rel=1e-3)


def test_a_temperature_of_three_classes_has_the_least_log_loss():
    draw = np.random.default_rng(1)
    logits = draw.normal(size=(300, 3))
    truth = np.array([draw.choice(3, p=np.exp(one) / np.exp(one).sum()) for one in logits])
    found = fit_temperature(torch.from_numpy(4 * logits), torch.from_numpy(truth))

    def loss(temperature: float) -> float:
        shares = np.exp(4 * logits / temperature)
        return float(log_loss(truth, shares / shares.sum(1, keepdims=True)))

    assert loss(found) <= min(map(loss, np.linspace(1, 12, 400))) + 1e-9
    assert 2.5 < found < 6  # 4 but for chance


def test_temperatures_of_classes_that_are_told_apart_stay_within_bounds():
    apart = torch.tensor([-1.0, -2.0, 3.0, 1.0])
    assert fit_temperature(apart, torch.tensor([0.0, 0, 1, 1])) == pytest.approx(1 / 20, rel=1e-3)
    assert fit_temperature(-apart, torch.tensor([0.0, 0, 1, 1])) == pytest.approx(20, rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_a_threshold_has_the_greatest_balanced_accuracy(seed):
    margin, truth = margins_and_classes(1.0, seed)
    chance = np.round(1 / (1 + np.exp(2 - margin)), 2)  # ties
    found = balanced_threshold(torch.from_numpy(chance), torch.from_numpy(truth))
    best = max(balanced_accuracy_score(truth, chance > bar) for bar in np.arange(0.005, 1, 0.01))
    assert balanced_accuracy_score(truth, chance > found) == pytest.approx(best)


def test_a_threshold_of_nothing_to_choose_from_is_a_half():
    assert balanced_threshold(torch.tensor([0.2, 0.2]), torch.tensor([True, False])) == 0.5
    assert balanced_threshold(torch.tensor([0.2, 0.6]), torch.tensor([True, True])) == 0.5
    assert balanced_threshold(torch.tensor([0.1, 0.3]), torch.tensor([False, True])) == pytest.approx(0.2)
