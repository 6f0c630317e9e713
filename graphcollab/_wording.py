"""What annotations of settings allow, in words, and texts without control characters."""

from __future__ import annotations

import collections.abc
import re
import types
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from graphcollab._ranges import MOST, bounds_of, literals_of

__all__ = ["describe", "printable"]

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal or browser obeys: control characters, and those that change the direction of text."""


def printable(text: str) -> str:
    r"""Return a text with escapes for control characters; newlines and tabs stay.

    Example:
        >>> print(printable("Bern\x1b[2J, \u202egnp.exe"))
        Bern\x1b[2J, \u202egnp.exe
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def describe(annotation: Any) -> str:
    """Say in words what an annotation allows."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    bounds = bounds_of(annotation)
    if isinstance(bounds, range):
        low = "" if bounds.start == -MOST else f" of at least {bounds.start}"
        return f"a whole number{low}" if bounds.stop == MOST else f"a whole number{low} and at most {bounds.stop - 1}"
    if bounds is not None:
        return str(bounds)
    if literals := literals_of(annotation):
        return _either(map(repr, literals))
    if origin is Annotated:
        return next((one for one in args[1:] if isinstance(one, str)), None) or describe(args[0])
    if origin in (typing.Union, types.UnionType):
        literals = [repr(one) for kind in args for one in literals_of(kind)]
        return _either(dict.fromkeys([*literals, *(describe(one) for one in args if not literals_of(one))]))
    if origin is collections.abc.Callable or annotation is Callable:
        return "a function"
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        return f"a mapping of {_many(args[0])} to {_many(args[1])}"
    if origin is tuple and args[1:] != (...,):
        return f"a tuple of {' and '.join(map(describe, args))}"
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        return f"a {'tuple' if origin is tuple else 'sequence'} of {_many(args[0])}"
    if origin is type:
        return f"a subclass of {args[0].__name__}"
    words = {Any: "anything", bool: "True or False", str: "a string", type(None): "None"}
    name = getattr(annotation, "__name__", str(annotation))
    return words.get(annotation, f"{'an' if name[0] in 'AEIOU' else 'a'} {name}")


def _many(annotation: Any) -> str:
    """Say what a collection holds: the noun, which is the first word after the adjectives, in the plural."""
    return re.sub(r"^an? ((?:finite |positive |whole )*\w+)", r"\1s", describe(annotation))


def _either(listed: Iterable[str]) -> str:
    *first, last = list(listed)
    return f"{', '.join(first)} or {last}" if first else last
