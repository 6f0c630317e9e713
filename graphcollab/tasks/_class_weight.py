"""What samples count in training by their class."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from graphcollab.errors import ConflictError, InvalidValueError, UnsupportedError
from graphcollab.naming import few, setting
from graphcollab.tasks.preparation import Preparation


def class_weights(
    given: Any, prepared: Preparation, labels: Tensor, weight: Tensor | None, alone: bool
) -> tuple[float, ...]:
    """Return a weight for every class, [C], given those asked for, and labels and weights of all training rows [n]."""
    classes = prepared.classes
    if given is None:
        return ()
    if not classes:
        raise ConflictError(
            "class_weight",
            f"class_weight= is for classes, and column {prepared.target.name!r} has amounts: leave it out",
        )
    if given == "balanced":
        if not alone:
            raise UnsupportedError(
                "class_weight",
                f"{setting(class_weight='balanced')} counts the rows of every class, which sites do not tell each "
                "other: give all of them the same weights, class_weight={class: weight}",
            )
        counts = torch.bincount(labels.long(), weight, minlength=len(classes)).double()
        return tuple((counts.sum() / (counts > 0).sum() / counts).where(counts > 0, 1.0).tolist())
    if unknown := [one for one in given if one not in classes]:
        raise InvalidValueError(
            "class_weight",
            f"class_weight= names {unknown[0]!r}, and the classes of {prepared.target.name!r} are "
            f"{few([*map(repr, classes)])}",
        )
    found = tuple(float(given.get(one, 1.0)) for one in classes)
    if not all(0 < one < math.inf for one in found):
        raise InvalidValueError("class_weight", f"class_weight= must be finite numbers above 0, got {given}")
    return found
