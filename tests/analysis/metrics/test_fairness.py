from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from graphcollab.analysis.metrics.statistics import summarize
from tests.raising import raises


def test_ten_nodes() -> None:
    result = summarize([10.0, 1.0, 9.0, 2.0, 8.0, 3.0, 7.0, 4.0, 6.0, 5.0])
    assert result["mean"] == 5.5
    assert result["worst10"] == 1.0
    assert result["worst20"] == 1.5
    assert result["std"] == pytest.approx(math.sqrt(8.25))
    assert (result["nodes"], result["ignored"]) == (10, 0)


def test_the_worst_are_the_largest_where_lower_is_better() -> None:
    result = summarize(torch.arange(1.0, 31.0), higher_is_better=False)
    assert result["worst10"] == 29.0
    assert result["worst20"] == 27.5


@pytest.mark.parametrize(("nodes", "tenth", "fifth"), [(1, 1, 1), (5, 1, 1), (6, 1, 2), (11, 2, 3), (30, 3, 6)])
def test_shares_are_rounded_up_to_whole_nodes(nodes: int, tenth: int, fifth: int) -> None:
    values = np.random.default_rng(0).normal(size=nodes)
    result = summarize(torch.from_numpy(values))
    assert result["worst10"] == pytest.approx(np.sort(values)[:tenth].mean())
    assert result["worst20"] == pytest.approx(np.sort(values)[:fifth].mean())
    assert result["std"] == pytest.approx(values.std())


def test_undefined_values_are_left_out_and_counted() -> None:
    result = summarize(torch.tensor([float("nan"), 0.5, 1.0, float("nan")]))
    assert (result["mean"], result["worst10"], result["nodes"], result["ignored"]) == (0.75, 0.5, 2, 2)


@pytest.mark.parametrize("values", [[], [float("nan")]])
def test_no_values(values: list[float]) -> None:
    result = summarize(values)
    assert all(math.isnan(result[name]) for name in ("mean", "worst10", "worst20", "std"))
    assert (result["nodes"], result["ignored"]) == (0, len(values))


def test_one_dimension_only() -> None:
    with raises("shape", "values"):
        summarize(torch.zeros(2, 2))
