"""Which metrics go with which losses and targets."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any

from torch import Tensor

from graphcollab.errors import ConflictError
from graphcollab.naming import setting


class _Metrics(UserDict[str, Any]):
    """The metrics that have a name, which `graphcollab.metrics` lists when one is first looked for."""

    def __init__(self) -> None:
        pass

    @property
    def data(self) -> Any:  # type: ignore[override]
        return import_module("graphcollab.metrics.as_metric").METRICS


METRICS = _Metrics()
AMOUNTS = ("mse", "poisson")
"""Losses of which models predict amounts."""


def refuse_misfit(metric: str, loss: Any, targets: Tensor, has: str = "") -> None:
    """Refuse a named metric that does not fit loss and targets [N, ...]; ``has`` says how many classes a column has.

    A user's own loss goes with any metric that targets allow, unless its function ``refuse_metric`` raises.
    """
    known = METRICS.get(metric)
    of_classes, only = getattr(known, "of_classes", None), getattr(known, "only_with", "")
    if (refuse := getattr(loss, "refuse_metric", None)) is not None:
        refuse(metric)
    if only and isinstance(loss, str) and loss != only:
        raise ConflictError(
            "metric",
            f"{setting(metric=metric)} goes with {setting(loss=only)} alone, and {setting(loss=loss)} is given: "
            "change one of them",
        )
    if known is not None and loss == "cox" and only != loss:
        raise ConflictError(
            "metric",
            f"{setting(loss=loss)} orders samples by their risk, which {setting(metric=metric)} does not judge: use "
            f"{setting(metric='concordance')}",
        )
    if of_classes is False and loss in ("cross_entropy", "bce"):
        raise ConflictError(
            "metric",
            f"{setting(metric=metric)} is of predicted amounts, and with {setting(loss=loss)} classes are predicted: "
            f"use {_or(of_classes=True)}, or {setting(loss='mse')} if targets are amounts",
        )
    if of_classes and (targets.is_floating_point() or loss in AMOUNTS):
        odd = targets[(targets != 0) & (targets != 1)]
        if len(odd) and loss in ("cross_entropy", "bce"):
            raise ConflictError(
                "loss",
                f"targets are amounts, such as {odd[0].item():g}, and {setting(loss=loss)} and "
                f"{setting(metric=metric)} are of classes: give {setting(loss='mse')}, and as metric "
                f"{_or(of_classes=False)}",
            )
        if len(odd):
            raise ConflictError(
                "metric",
                f"{setting(metric=metric)} is of classes, and targets are amounts, such as {odd[0].item():g}: use "
                f"{_or(of_classes=False)}",
            )
        if loss in AMOUNTS and metric != "auc":  # which asks only for an order
            raise ConflictError(
                "metric",
                f"{setting(metric=metric)} reads outputs as scores of classes, and {setting(loss=loss)} makes them "
                f"amounts: use {setting(loss='cross_entropy')} with an output per class, {setting(loss='bce')} with "
                f"one output for targets of 0 and 1, or {setting(metric='auc')} or one of amounts, "
                f"{_or(of_classes=False)}",
            )
    if metric == "auc":
        known = targets[targets != getattr(loss, "ignore_index", -100)]
        if known.numel() and int(known.max()) > 1:
            has = has or f"targets go to {int(known.max())}"
            raise ConflictError(
                "metric", f"{setting(metric='auc')} is of two classes, and {has}: use {_or(of_classes=True, but='auc')}"
            )


def _or(of_classes: bool, but: str = "") -> str:
    fits = {name: one for name, one in METRICS.items() if one.of_classes is of_classes and not one.only_with}
    *some, last = [repr(name) for name in fits if name != but]
    return f"{', '.join(some)} or {last}"
