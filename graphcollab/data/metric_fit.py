"""Compatibility of metrics with losses and targets."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any

from torch import Tensor

from graphcollab._base.errors import ConflictError
from graphcollab._base.naming import few, setting
from graphcollab.data.losses import predicted_by


class _Metrics(UserDict[str, Any]):
    """The named metrics, loaded from `graphcollab.analysis.metrics` on first access."""

    def __init__(self) -> None:
        pass

    @property
    def data(self) -> Any:  # type: ignore[override]
        return import_module("graphcollab.analysis.metrics.as_metric").METRICS


METRICS = _Metrics()


def refuse_misfit(metric: str, loss: Any, targets: Tensor, has: str = "") -> None:
    """Reject a named metric that does not fit loss and targets [N, ...]; ``has`` states a column's number of classes.

    A user-defined loss accepts any metric that fits the targets, unless its function ``refuse_metric`` raises.
    """
    if (refuse := getattr(loss, "refuse_metric", None)) is not None:
        refuse(metric)
    losses, named, by = METRICS[metric].losses if metric in METRICS else (), setting(metric=metric), setting(loss=loss)
    if isinstance(loss, str) and losses and loss not in losses:
        with_it = few([setting(loss=one) for one in losses], " or ")
        raise ConflictError("metric", f"{named} goes with {with_it}, got {by}: use {_fitting(loss)}, or another loss")
    if losses and METRICS[metric].of_classes and targets.is_floating_point():
        odd = targets[(targets != 0) & (targets != 1)]
        if len(odd):
            raise ConflictError(
                "loss" if predicted_by(loss) == "classes" else "metric",
                f"targets are amounts, such as {odd[0].item():g}, and {by} and {named} are of classes: use "
                f"{setting(loss='mse')}, and {_fitting('mse', but='auc')}",
            )
    if metric == "auc":
        known = targets[targets != getattr(loss, "ignore_index", -100)]
        if known.numel() and int(known.max()) > 1:
            has = has or f"targets go to {int(known.max())}"
            raise ConflictError(
                "metric", f"{named} is of two classes, and {has}: use {_fitting('cross_entropy', but='auc')}"
            )


def _fitting(loss: str, but: str = "") -> str:
    fits = [repr(name) for name, one in METRICS.items() if loss in one.losses and name != but]
    return f"metric {few(fits, ' or ')}"
