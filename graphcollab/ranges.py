"""Ranges of numbers: what `graphcollab.settings` reads off annotations."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Real", "Whole"]


@dataclass(frozen=True)
class Whole:
    """Says of an ``Annotated[int, Whole(least)]`` how small it may be."""

    least: int | None = None
    most: int | None = None

    def __str__(self) -> str:
        if self.least is None:
            return "a whole number"
        upto = "" if self.most is None else f" and at most {self.most}"
        return f"a whole number of at least {self.least}{upto}"

    def holds(self, value: Any) -> bool:
        """Tell whether a value is such a number."""
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        low, high = -(2**63) if self.least is None else self.least, 2**63 - 1 if self.most is None else self.most
        return whole and low <= value <= high


@dataclass(frozen=True)
class Real:
    """Says of an ``Annotated[float, Real(...)]`` in which range it must lie; it must be finite unless said otherwise.

    Args:
        least: The smallest value, allowed itself.
        above: A bound that is not allowed itself.
        most: The largest value, allowed itself.
        below: A bound that is not allowed itself.
        infinite: Whether infinity is allowed.
    """

    least: float = -math.inf
    above: float = -math.inf
    most: float = math.inf
    below: float = math.inf
    infinite: bool = False

    def __str__(self) -> str:
        finite = "number, or infinity," if self.infinite else "finite number"
        bounded = self.most < math.inf or self.below < math.inf
        if self.above == 0 and not bounded:
            return f"a positive {finite.rstrip(',')}"
        low = f"above {self.above:g}" if self.above > -math.inf else f"of at least {self.least:g}"
        high = f"at most {self.most:g}" if self.most < math.inf else f"below {self.below:g}"
        lower = self.above > -math.inf or self.least > -math.inf
        if bounded:
            return f"a number {low} and {high}" if lower else f"a {finite} {high}"
        return f"a {finite} {low}" if lower else f"a {finite.rstrip(',')}"

    def holds(self, value: Any) -> bool:
        """Tell whether a value is such a number."""
        if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
            return False
        try:
            value = float(value)
        except OverflowError:  # whole numbers of more than 308 digits
            return False
        if math.isnan(value):
            return False
        inside = self.least <= value <= self.most and (value > self.above or self.above == -math.inf)
        return inside and (value < self.below or self.below == math.inf) and (self.infinite or math.isfinite(value))
