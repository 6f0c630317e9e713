"""What the targets of a table are: classes or amounts."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphcollab.errors import AmbiguousError, ConflictError, MissingError
from graphcollab.tasks._sites import Sites
from graphcollab.tasks._values import DROP, is_number, numbers_of
from graphcollab.tasks._words import looks_like_numbers, refuse_no_categories

__all__ = ["are_amounts", "refuse_many", "refuse_missing"]

_MANY_CLASSES, _MOST_CLASSES = 10, 50  # of whole numbers: one is warned above the first, and asked above the second


def refuse_missing(sites: Sites, values: np.ndarray, target: str) -> None:
    """Refuse rows without a target."""
    text = values.dtype.kind == "O"
    lacks = np.fromiter((one is None for one in values.tolist()), bool, len(values)) if text else np.isnan(values)
    if lacks.any():
        others = int(lacks.sum()) - 1
        more = (
            f", and {others} more of the {len(values)} rows {'has' if others == 1 else 'have'} none" if others else ""
        )
        raise MissingError(
            f"column {target!r}",
            f"{sites.at(int(lacks.argmax()))} has no target in column {target!r}{more}: drop rows without a target",
        )


def are_amounts(sites: Sites, values: np.ndarray, target: str, loss: Any) -> tuple[bool, int]:
    """Tell whether targets are real values, and no classes; and of how many whole numbers nobody has said so."""
    if loss == "mse":
        _refuse_words(sites, values, target)
        return True, 0
    if loss in ("cross_entropy", "bce"):
        _refuse_fractions(sites, values, target, loss)
        return False, 0
    if values.dtype.kind == "O":
        if not all(one.lstrip("+-").isdecimal() for one in values.tolist()):
            cure = "if they are classes, say so by loss='cross_entropy'"
            refuse_no_categories(target, values, sites.at, cure, DROP)
        return False, 0
    whole = bool((np.isfinite(values) & (values == np.round(values))).all())
    return not whole, len(np.unique(values)) if whole else 0


def _refuse_fractions(sites: Sites, values: np.ndarray, target: str, loss: str) -> None:
    """Refuse targets that are fractions, of which most differ, where they are to be classes."""
    if values.dtype.kind != "f" or len(np.unique(values)) <= max(_MANY_CLASSES, len(values) / 2):
        return
    if len(fractions := (values != np.round(values)).nonzero()[0]):
        row = int(fractions[0])
        raise ConflictError(
            "loss",
            f"targets in column {target!r} are amounts, such as {values[row]:g} in {sites.at(row)}, and loss={loss!r} "
            "is for classes: leave it out, or give loss='mse'",
        )


def refuse_many(target: str, different: int) -> None:
    """Refuse targets of so many different whole numbers that nobody knows whether they are classes."""
    if different > _MOST_CLASSES:
        raise AmbiguousError(
            f"column {target!r}",
            f"column {target!r} has {different} different whole numbers: say whether they are amounts, loss='mse', or "
            "classes, loss='cross_entropy'",
        )


def _refuse_words(sites: Sites, values: np.ndarray, target: str) -> None:
    """Refuse targets that are words where they are to be amounts."""
    if values.dtype.kind != "O":
        return
    cure = "if they are classes, leave loss='mse' out, which is for amounts"
    if (odd := looks_like_numbers(values)) is not None:
        if is_number(values[odd]):
            numbers_of(target, values, sites.at, DROP)  # refuses numbers in quotes
        refuse_no_categories(target, values, sites.at, cure, DROP)
    raise ConflictError(
        "loss",
        f"targets in column {target!r} are words, such as {values[0]!r} in {sites.at(0)}, and loss='mse' is for "
        "amounts: leave it out to predict classes, or make them numbers",
    )
