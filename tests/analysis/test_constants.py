from __future__ import annotations

from dataclasses import replace
from math import log

import pytest
import torch

from graphcollab import Tasks
from graphcollab.analysis.constants import constants
from graphcollab.analysis.metrics.scores import as_metrics

NAMES = ["accuracy", "brier", "log_loss", "auc"]


def tasks(train, val, test, weight=None, **about):
    """A site with these targets; inputs say nothing."""
    parts = [{"x": torch.zeros(len(some), 2), "y": torch.tensor(some)} for some in (train, val, test)]
    if weight is not None:
        parts = [{**part, "weight": torch.tensor(some)} for part, some in zip(parts, weight, strict=True)]
    return Tasks.from_samples(parts[:1], val=parts[1:2], test=parts[2:], **about)


def constants_of(given, names, shape):
    loss, scores = constants(given, as_metrics(names, None), ["test"], shape)
    return float(loss[0]), dict(zip(names, scores[:, 0, 0].tolist(), strict=True))


@pytest.mark.parametrize(("loss", "shape"), [("cross_entropy", (2,)), ("bce", (1,)), ("bce", ())])
def test_class_frequencies_by_hand(loss, shape):
    """Of 7 training samples one is of class 1: (1 + 1/2) / (7 + 1) = 3/16."""
    kind = int if loss == "cross_entropy" else float
    targets = [[kind(y) for y in some] for some in ([0, 0, 1, 0, 0, 0, 0], [1, 0], [0, 1, 0, 0])]
    if shape == (1,):
        targets = [[[y] for y in some] for some in targets]
    loss, found = constants_of(tasks(*targets, loss=loss), NAMES, shape)
    assert loss == pytest.approx(-(log(3 / 16) + log(13 / 16)) / 2)
    expected = {
        "accuracy": 3 / 4,
        "brier": (3 * (3 / 16) ** 2 + (13 / 16) ** 2) / 4,
        "log_loss": -(log(3 / 16) + 3 * log(13 / 16)) / 4,
        "auc": 0.5,
    }
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_class_without_training_samples_has_a_finite_loss():
    """Of three classes 4, 1 and 0 samples: (4.5, 1.5, 0.5) / 6.5."""
    loss, found = constants_of(tasks([0, 0, 1, 0, 0], [2], [2, 0]), ["log_loss"], (3,))
    assert loss == pytest.approx(-log(0.5 / 6.5))
    assert found["log_loss"] == pytest.approx(-(log(0.5 / 6.5) + log(4.5 / 6.5)) / 2, rel=1e-6)


def test_weights_count_by_their_ratios():
    """Class 1 weighs 6 of 8, so it is as 3 of 4 samples: (3 + 1/2) / (4 + 1) = 0.7."""
    weight = [[0.5, 0.5, 1.0, 6.0], [1.0, 3.0], [2.0, 1.0]]
    loss, found = constants_of(tasks([0, 0, 0, 1], [1, 0], [1, 0], weight), ["accuracy", "brier"], (2,))
    assert loss == pytest.approx(-(log(0.7) + 3 * log(0.3)) / 4)
    assert found == pytest.approx({"accuracy": 2 / 3, "brier": (2 * 0.3**2 + 0.7**2) / 3}, rel=1e-6)


def test_of_amounts_it_is_the_mean_and_of_other_losses_there_is_none():
    amounts = tasks([[1.0], [3.0]], [[4.0], [2.0]], [[5.0]], loss="mse", metric="mse")
    assert constants_of(amounts, ["mse"], (1,)) == (2.0, {"mse": 9.0})
    unknown = replace(amounts, loss=lambda outputs, y: (outputs - y).abs().mean())
    assert constants(unknown, as_metrics("mse", None), ["test"], (1,)) is None
