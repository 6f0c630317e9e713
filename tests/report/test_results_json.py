from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from graphcollab.analysis import Comparison
from graphcollab.report import results_json


def test_form_and_percent(comparison: Comparison) -> None:
    content = json.loads(results_json(comparison, "local", arguments={"out": Path("a/b")}))
    assert set(content["methods"]) == {"local", "l2c"}
    told = content["methods"]["local"]
    assert (told["failed"], told["isolated"], told["findings"]) == (0, 0, {})
    assert (
        told.items()
        >= {
            "mean": 62.5,
            "worst10": 37.5,
            "worst20": 37.5,
            "std": 10.0,
            "bytes_per_node": 1500.0,
            "seconds": 2.0,
            "per_seed": [
                {
                    "seed": seed,
                    "validation": mean,
                    "mean": mean,
                    "worst10": worst,
                    "worst20": worst,
                    "std": 10.0,
                    "bytes_per_node": 1500.0,
                    "seconds": 2.0,
                }
                for seed, mean, worst in [(0, 50.0, 25.0), (1, 75.0, 50.0)]
            ],
        }.items()
    )
    assert content["settings"]["l2c"] == [{"lr": 0.1}, {"lr": 0.3}]
    assert content["paired"]["l2c"]["mean"]["mean"] == pytest.approx(9.375)
    assert content["paired"]["l2c"]["mean"]["low"] == pytest.approx(9.375 - 12.7062 * 3.125, abs=1e-3)
    assert content["arguments"] == {"out": "a/b"}
    assert content["versions"]["torch"]


def test_what_is_not_defined_is_null(comparison: Comparison) -> None:
    one = replace(comparison, chosen={name: trials[:1] for name, trials in comparison.chosen.items()})
    content = json.loads(results_json(one, "local"), parse_constant=pytest.fail)
    assert content["paired"]["l2c"]["mean"]["low"] is None
    assert json.loads(results_json(one))["paired"] == {}


def test_other_metrics_keep_their_unit(comparison: Comparison) -> None:
    assert json.loads(results_json(replace(comparison, metric="mse")))["methods"]["local"]["mean"] == 0.625
