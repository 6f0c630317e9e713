from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphcollab.analysis.metrics import METRICS, Metric, as_metric
from graphcollab.analysis.metrics.classification import accuracy, auc
from graphcollab.analysis.metrics.errors import mse
from tests.raising import raises


def worst_error(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs - targets).abs().max())


@pytest.mark.parametrize("name", METRICS)
def test_names(name: str) -> None:
    assert as_metric(name).name == name


def test_known_metrics() -> None:
    assert as_metric("accuracy") is accuracy
    assert as_metric("auc") is auc
    assert as_metric(mse) is mse


@pytest.mark.parametrize(("name", "nearest"), [("Accuracy", "accuracy"), ("rmsee", "rmse"), ("roc_auc", "auc")])
def test_the_nearest_name_is_suggested(name: str, nearest: str) -> None:
    with raises("unknown", "metric", repr(name), f"did you mean {nearest!r}"):
        as_metric(name)


def test_a_function_sees_each_node_without_padding() -> None:
    def own(outputs: Tensor, targets: Tensor) -> float:
        return worst_error(outputs, targets)

    own.higher_is_better = False  # type: ignore[attr-defined]
    metric = as_metric(own)
    assert (metric.name, metric.higher_is_better) == ("own", False)
    outputs = torch.tensor([[1.0, -3.0, 99.0], [2.0, 99.0, 99.0], [99.0, 99.0, 99.0]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0]]).bool()
    values = metric(outputs, torch.zeros(3, 3), mask)
    assert values.dtype == torch.float64
    assert values[:2].tolist() == [3.0, 2.0]
    assert bool(values[2].isnan())


def test_a_function_must_return_a_number() -> None:
    metric = Metric.per_node("both", True, lambda outputs, targets: outputs)
    with raises("type", "metric 'both'", kind=TypeError):
        metric(torch.zeros(1, 2), torch.zeros(1, 2))


def test_what_is_wrong_is_said() -> None:
    with raises("missing", "higher_is_better"):
        as_metric(worst_error)
    with raises("value", "metric"):
        as_metric(3)  # type: ignore[arg-type]
