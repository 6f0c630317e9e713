"""Compatibility of metrics with losses and targets."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any

from torch import Tensor

from graphcollab._base.errors import ConflictError
from graphcollab._base.naming import setting
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
    known, named, by = METRICS.get(metric), setting(metric=metric), setting(loss=loss)
    predicted, mse, amounts = predicted_by(loss), setting(loss="mse"), _or(of_classes=False)
    of_classes, only = getattr(known, "of_classes", None), getattr(known, "only_with", "")
    if (refuse := getattr(loss, "refuse_metric", None)) is not None:
        refuse(metric)
    if only and isinstance(loss, str) and loss != only:
        raise ConflictError(
            "metric", f"{named} goes with {setting(loss=only)} alone, and {by} is given: change one of them"
        )
    if known is not None and predicted == "times" and only != loss:
        use = setting(metric="concordance")
        raise ConflictError("metric", f"{by} orders samples by their risk, which {named} does not judge: use {use}")
    if of_classes is False and predicted == "classes":
        raise ConflictError(
            "metric",
            f"{named} is of predicted amounts, and with {by} classes are predicted: use {_or(of_classes=True)}, or "
            f"{mse} if targets are amounts",
        )
    if of_classes and (targets.is_floating_point() or predicted in ("amounts", "counts")):
        odd = targets[(targets != 0) & (targets != 1)]
        such = f"targets are amounts, such as {odd[0].item():g}" if len(odd) else ""
        if such and predicted == "classes":
            raise ConflictError(
                "loss", f"{such}, and {by} and {named} are of classes: give {mse}, and as metric {amounts}"
            )
        if such:
            raise ConflictError("metric", f"{named} is of classes, and {such}: use {amounts}")
        if predicted in ("amounts", "counts") and metric != "auc":  # AUC needs only an order
            raise ConflictError(
                "metric",
                f"{named} reads outputs as scores of classes, and {by} makes them amounts: use "
                f"{setting(loss='cross_entropy')} with an output per class, {setting(loss='bce')} with one output for "
                f"targets of 0 and 1, or {setting(metric='auc')} or one of amounts, {amounts}",
            )
    if metric == "auc":
        known = targets[targets != getattr(loss, "ignore_index", -100)]
        if known.numel() and int(known.max()) > 1:
            has = has or f"targets go to {int(known.max())}"
            raise ConflictError(
                "metric", f"{named} is of two classes, and {has}: use {_or(of_classes=True, but='auc')}"
            )


def _or(of_classes: bool, but: str = "") -> str:
    fits = {name: one for name, one in METRICS.items() if one.of_classes is of_classes and not one.only_with}
    *some, last = [repr(name) for name in fits if name != but]
    return f"{', '.join(some)} or {last}"
