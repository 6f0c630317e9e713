"""What annotations of settings allow, in words."""

from __future__ import annotations

import collections.abc
import re
import types
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from graphcollab._ranges import MOST, bounds_of, literals_of

__all__ = ["describe"]


def describe(annotation: Any) -> str:
    """Say in words what an annotation allows."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    bounds = bounds_of(annotation)
    if isinstance(bounds, range):
        low = "" if bounds.start == -MOST else f" of at least {bounds.start}"
        return f"a whole number{low}" if bounds.stop == MOST else f"a whole number{low} and at most {bounds.stop - 1}"
    if bounds is not None:
        return str(bounds)
    if annotation is Any:
        return "anything"
    if literals := literals_of(annotation):
        return _joined("or", map(repr, literals))
    if origin is Annotated:
        return next((one for one in args[1:] if isinstance(one, str)), None) or describe(args[0])
    if origin in (typing.Union, types.UnionType):
        literals = [repr(one) for kind in args for one in literals_of(kind)]
        others = [describe(one) for one in args if not literals_of(one)]
        return _either(dict.fromkeys([*literals, *others]))
    if origin is collections.abc.Callable or annotation is Callable:
        return "a function"
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        return f"a mapping of {_many(args[0])} to {_many(args[1])}"
    if origin is tuple and args[1:] != (...,):
        return f"a tuple of {_joined('and', map(describe, args))}"
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        return f"a {'tuple' if origin is tuple else 'sequence'} of {_many(args[0])}"
    if origin is type:
        return f"a class such as {_joined('and', [one.__name__ for one in args])}"
    words = {bool: "True or False", str: "a string", type(None): "None"}
    if annotation in words:
        return words[annotation]
    name = getattr(annotation, "__name__", str(annotation))
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _many(annotation: Any) -> str:
    """Say what a collection holds."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return _either(dict.fromkeys(map(_many, typing.get_args(annotation))))
    one = describe(annotation)
    if one == "True or False":
        return "True and False"
    if typing.get_origin(annotation) is Annotated and bounds_of(annotation) is None:  # in words of its own
        return one
    return re.sub(r"^an? ((?:finite |positive |whole )*)(\w+)", r"\1\2s", one).replace("classs", "classes")


def _either(listed: Iterable[str]) -> str:
    """List what may be given; nothing at all last, set off where what is before it is long."""
    *others, last = list(listed)
    if last == "None" and any("," in one for one in others):
        return f"{_joined('or', others)}, or None"
    return _joined("or", [*others, last])


def _joined(word: str, listed: Iterable[str]) -> str:
    *first, last = list(listed)
    return f"{', '.join(first)} {word} {last}" if first else last
