"""The losses that have a name: what they predict, and the metric and the constant that belong to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

LossName: TypeAlias = Literal["cross_entropy", "mse", "bce", "poisson", "cox"]
Kind: TypeAlias = Literal["classes", "binary", "values", "rates"]


@dataclass(frozen=True)
class NamedLoss:
    """What a loss means; its function is in `graphcollab.engine`.

    Args:
        predicts: ``"classes"``, ``"amounts"``, ``"counts"``, or ``"times"`` until an event.
        outputs: Logits of ``"classes"``, an output for each, or ``"binary"`` ones, ``"values"``, or logarithms of
            ``"rates"``.
        metric: The default metric.
        constant: The best constant prediction, in words.
        needs: The targets that it needs, in words, if not all are valid.
    """

    predicts: Literal["classes", "amounts", "counts", "times"]
    outputs: Kind
    metric: str
    constant: str
    needs: str = ""


_FREQUENCIES, _MEAN = "the class frequencies", "the mean of the targets"
LOSSES: Mapping[str, NamedLoss] = {
    "cross_entropy": NamedLoss("classes", "classes", "accuracy", _FREQUENCIES),
    "mse": NamedLoss("amounts", "values", "mae", _MEAN),
    "bce": NamedLoss("classes", "binary", "accuracy", _FREQUENCIES),
    "poisson": NamedLoss("counts", "rates", "poisson_deviance", _MEAN, "counts, whole numbers from 0 on"),
    "cox": NamedLoss("times", "values", "concordance", "one risk for all", "times from 0 on"),
}


def predicted_by(loss: Any) -> str:
    """Return what a loss predicts (`NamedLoss.predicts`), "" if it is user-defined."""
    return LOSSES[loss].predicts if isinstance(loss, str) and loss in LOSSES else ""


def constant_of(loss: Any) -> str:
    """Return the best constant prediction in words, "" if the loss is user-defined."""
    return LOSSES[loss].constant if isinstance(loss, str) and loss in LOSSES else ""
