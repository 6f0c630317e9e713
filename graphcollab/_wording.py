"""What annotations of settings allow, as text, and texts without control characters."""

from __future__ import annotations

import collections.abc
import re
import types
import typing
from typing import Annotated, Any

from graphcollab._ranges import MOST, bounds_of, literals_of

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal or browser obeys: control characters, and those that change the direction of text."""


def printable(text: str) -> str:
    """Return a text with escapes for control characters; newlines and tabs stay."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def describe(annotation: Any) -> str:
    """Return what an annotation allows: its range, the values that it lists, its own words, or its type."""
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
