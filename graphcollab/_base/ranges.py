"""Constraints in annotations of settings, such as ranges of numbers and known names, and their descriptions."""

from __future__ import annotations

import collections.abc
import math
import numbers
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

MOST = 2**63  #: Exclusive upper bound of whole numbers, which have 64 bits.


@dataclass(frozen=True)
class Real:
    """Range of ``Annotated[float, Real(...)]``: ``least`` and ``most`` are inclusive, ``above`` and ``below`` not."""

    least: float = -math.inf
    above: float = -math.inf
    most: float = math.inf
    below: float = math.inf
    infinite: bool = False

    def __str__(self) -> str:
        limits = {"at least": self.least, "above": self.above, "at most": self.most, "below": self.below}
        said = " and ".join(f"{words} {limit:g}" for words, limit in limits.items() if math.isfinite(limit))
        return f"a {'number, or infinity,' if self.infinite else 'finite number'} {said}".rstrip(", ")


@dataclass(frozen=True, eq=False)
class Known:
    """Requires that an ``Annotated[str, Known(...)]`` is a key of a mapping, to which keys may be added later."""

    names: Mapping[str, Any]


def literals_of(annotation: Any) -> list[Any]:
    """Return the values that an annotation lists through a ``Literal`` or `Known` names."""
    args = typing.get_args(annotation)
    if typing.get_origin(annotation) is Literal:
        return list(args)
    return [name for one in args[1:] if isinstance(one, Known) for name in one.names]


def bounds_of(annotation: Any) -> range | Real | None:
    """Return the range of numbers in an annotation, or None."""
    if annotation in (int, float):
        return range(-MOST, MOST) if annotation is int else Real()
    said = typing.get_args(annotation)[1:] if typing.get_origin(annotation) is Annotated else ()
    return next((one for one in said if isinstance(one, range | Real)), None)


def is_in(bounds: range | Real, value: Any) -> bool:
    """Return whether a value is a number within bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    if isinstance(bounds, range):
        return isinstance(value, numbers.Integral) and int(value) in bounds
    try:
        value = float(value)
    except OverflowError:  # whole numbers of more than 308 digits
        return False
    inside = bounds.least <= value <= bounds.most and (value > bounds.above or bounds.above == -math.inf)
    finite = bounds.infinite or math.isfinite(value)
    return inside and finite and (value < bounds.below or bounds.below == math.inf)


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that terminals or browsers interpret: control characters, and those that change text direction."""


def printable(text: str) -> str:
    """Return a text with control characters escaped, except newlines and tabs."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def describe(annotation: Any) -> str:
    """Describe what an annotation allows: its range, its listed values, its own text, or its type."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    bounds = bounds_of(annotation)
    if isinstance(bounds, range):
        low = "" if bounds.start == -MOST else f" of at least {bounds.start}"
        return f"a whole number{low}" if bounds.stop == MOST else f"a whole number{low} and at most {bounds.stop - 1}"
    if bounds is not None:
        return str(bounds)
    if literals := literals_of(annotation):
        return "one of " * (len(literals) > 1) + ", ".join(map(repr, literals))
    if origin is Annotated:
        return next((one for one in args[1:] if isinstance(one, str)), None) or describe(args[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(describe, args))
    if collections.abc.Callable in (origin, annotation):
        return "a function"
    if args:
        return f"{getattr(origin, '__name__', origin)}[{', '.join(map(describe, args))}]"
    words: dict[Any, str] = {type(None): "None", ...: "..."}
    return words.get(annotation) or str(getattr(annotation, "__name__", annotation))
