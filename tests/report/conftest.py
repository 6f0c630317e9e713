"""A comparison of two methods on two seeds, written by hand."""

from __future__ import annotations

import math

import pytest

from graphcollab.analysis import Comparison
from graphcollab.analysis.trial import COLUMNS, Trial


def trial(method: str, seed: int, mean: float, worst: float, setting: dict[str, float]) -> Trial:
    summary = {"mean": mean, "worst10": worst, "worst20": worst, "std": 0.1, "bytes_per_node": 1500.0, "seconds": 2.0}
    return Trial(method, seed, setting, mean, summary, ([1, 2], [mean / 2, mean]))


@pytest.fixture
def comparison() -> Comparison:
    chosen = {
        "local": [trial("local", 0, 0.5, 0.25, {}), trial("local", 1, 0.75, 0.5, {})],
        "l2c": [trial("l2c", 0, 0.625, 0.5, {"lr": 0.1}), trial("l2c", 1, 0.8125, 0.375, {"lr": 0.3})],
    }
    return Comparison([t for trials in chosen.values() for t in trials], chosen, True)


@pytest.fixture
def failing(comparison: Comparison) -> Comparison:
    """The same comparison, and two methods that failed: one on the second seed, one on both."""
    why = "NonFiniteLossError: node 3: loss is not finite"
    lost = dict.fromkeys(COLUMNS, math.nan)
    some = [trial("fedavg", 0, 0.5, 0.25, {}), Trial("fedavg", 1, {}, math.nan, lost, failure=why)]
    none = [Trial("cobo", seed, {}, math.nan, lost, failure=why) for seed in (0, 1)]
    chosen = {**comparison.chosen, "fedavg": some, "cobo": none}
    return Comparison([t for trials in chosen.values() for t in trials], chosen, True)
