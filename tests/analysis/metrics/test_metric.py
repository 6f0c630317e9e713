"""What every metric has in common."""

from __future__ import annotations

import dataclasses
import importlib
from pkgutil import iter_modules

import pytest
import torch

from graphcollab.analysis import metrics
from graphcollab.analysis.metrics import METRICS, Metric
from tests.analysis.metrics.fitting import fitting

every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    outputs = torch.randn(4, 10, generator=generator)
    targets = torch.randint(0, 2, (4, 10), generator=generator).float()
    targets[:, :2] = torch.tensor([0.0, 1.0])
    return outputs, targets, torch.arange(10) < torch.tensor([[10], [4], [7], [2]])


def test_every_metric_has_a_name_in_the_registry() -> None:
    modules = [importlib.import_module(f"{metrics.__name__}.{one.name}") for one in iter_modules(metrics.__path__)]
    defined = {one for module in modules for one in vars(module).values() if isinstance(one, Metric)}
    assert defined == set(METRICS.values())


@every_metric
@pytest.mark.parametrize("filling", [0.0, torch.inf, -torch.inf, torch.nan])
def test_padding_never_matters(metric: Metric, filling: float) -> None:
    outputs, targets, mask = inputs()
    outputs, targets = fitting(metric, outputs, targets)
    expected = [float(metric(outputs[r : r + 1, row], targets[r : r + 1, row])) for r, row in enumerate(mask)]
    values = metric(
        outputs.masked_fill(~mask, filling),
        targets.masked_fill(~mask.reshape(*mask.shape, *[1] * (targets.dim() - 2)), filling),
        mask,
    )
    assert values.tolist() == pytest.approx(expected)
    assert values.dtype == torch.float64


@every_metric
def test_rows_without_samples_are_nan(metric: Metric) -> None:
    outputs, targets, mask = inputs()
    outputs, targets = fitting(metric, outputs, targets)
    mask[1] = False
    assert metric(outputs, targets, mask).isnan().tolist() == [False, True, False, False]
    assert metric(outputs[:, :0], targets[:, :0]).isnan().all()


@every_metric
def test_no_gradient_is_kept(metric: Metric) -> None:
    outputs, targets, mask = inputs()
    outputs, targets = fitting(metric, outputs, targets)
    assert not metric(outputs.requires_grad_(), targets, mask).requires_grad


@every_metric
def test_metrics_are_frozen_values(metric: Metric) -> None:
    assert metric == dataclasses.replace(metric)
    with pytest.raises(dataclasses.FrozenInstanceError):
        metric.name = "other"  # type: ignore[misc]
