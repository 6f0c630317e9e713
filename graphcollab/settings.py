"""Settings are checked when they are given, by what their annotations say."""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import functools
import inspect
import numbers
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, ParamSpec, TypeAlias, TypeVar

import numpy as np

from graphcollab.ranges import Real, Whole

__all__ = [
    "Buffers",
    "Count",
    "Finite",
    "Fraction",
    "Incomplete",
    "Momentum",
    "Natural",
    "NonNegative",
    "Positive",
    "Real",
    "Seed",
    "SettingError",
    "Share",
    "Whole",
    "check_setting",
    "check_settings",
    "checked",
    "look_up",
]

P = ParamSpec("P")
R = TypeVar("R")


class SettingError(ValueError):
    """A setting that is not what it must be.

    Args:
        name: The argument.
        what: What it must be.
        value: What was given.
    """

    def __init__(self, name: str, what: str, value: object) -> None:
        super().__init__(f"{name} must be {what}, got {_shown(value)}")
        self.name = name


Count: TypeAlias = Annotated[int, Whole(1)]
Natural: TypeAlias = Annotated[int, Whole(0)]
Seed: TypeAlias = Annotated[int, Whole()]
"""Any whole number of 64 bits."""
Finite: TypeAlias = Annotated[float, Real()]
"""Any number but infinity and nan."""
Positive: TypeAlias = Annotated[float, Real(above=0)]
NonNegative: TypeAlias = Annotated[float, Real(least=0)]
Share: TypeAlias = Annotated[float, Real(above=0, most=1)]
"""Some, or all: (0, 1]."""
Fraction: TypeAlias = Annotated[float, Real(least=0, most=1)]
"""None, some or all: [0, 1]."""
Momentum: TypeAlias = Annotated[float, Real(least=0, below=1)]
Buffers: TypeAlias = Literal["keep", "average"]
"""Buffers (running statistics) stay with their node, or are averaged with the models."""
Incomplete: TypeAlias = Literal["refuse", "average"]
"""What a server does where connected nodes may not all hear each other."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function check its arguments against their annotations before it does anything.

    Raises:
        SettingError: If an argument is not what its annotation says; it is named.
        TypeError: If there is no such argument; the message names the nearest.

    Example:
        >>> @checked
        ... def train(*, epochs: Count = 1, buffers: Buffers = "average") -> int:
        ...     return epochs
        >>> train(epochs=0)
        Traceback (most recent call last):
        graphcollab.settings.SettingError: epochs must be a whole number of at least 1, got 0
        >>> train(buffers="kept")
        Traceback (most recent call last):
        graphcollab.settings.SettingError: buffers must be 'keep' or 'average', got 'kept'
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        known = signature.parameters
        open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
        for name in () if open_ended else kwargs.keys() - known.keys():
            nearest = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else f"; it takes {', '.join(known)}"
            raise TypeError(f"{function.__name__}() has no argument {name!r}{hint}")
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.__name__}(): {error}; give its arguments by name: {', '.join(known)}") from None
        hints = _hints(function)
        for name, value in bound.arguments.items():
            if name in hints and known[name].kind not in (
                inspect.Parameter.VAR_KEYWORD,
                inspect.Parameter.VAR_POSITIONAL,
            ):
                bound.arguments[name] = check_setting(name, hints[name], value)
        return function(*bound.args, **bound.kwargs)

    return wrapper


def check_settings(settings: Any) -> None:
    """Check the fields of a frozen dataclass against their annotations; NumPy's numbers become Python's.

    Raises:
        SettingError: If a field is not what its annotation says; it is named.
    """
    kind: Any = type(settings)
    hints = _hints(kind)
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        new = check_setting(field.name, hints[field.name], value)
        if new is not value:
            object.__setattr__(settings, field.name, new)


def check_setting(name: str, annotation: Any, value: Any) -> Any:
    """Return a value that is what an annotation says, NumPy's numbers as Python's.

    Args:
        name: What to call it in the error.
        annotation: A type, with `Whole` and `Real` as ``Annotated`` says, ``Literal``, unions, collections of these.
        value: What was given.

    Raises:
        SettingError: If it is something else.

    Example:
        >>> check_setting("lr", Positive, np.float32(0.5))
        0.5
        >>> check_setting("momentum", Annotated[float, Real(least=0, below=1)], 1)
        Traceback (most recent call last):
        graphcollab.settings.SettingError: momentum must be a number of at least 0 and below 1, got 1
    """
    if not _holds(annotation, value):
        raise SettingError(name, describe(annotation), value)
    if isinstance(value, np.generic):
        return value.item()
    other = isinstance(value, numbers.Real) and not isinstance(value, int | float)  # such as a Fraction
    return float(value) if other else value


def look_up(kind: str, name: str, known: Mapping[str, R], also: str = "") -> R:
    """Return what is known by a name.

    Args:
        kind: What has such names, for the message.
        name: The name.
        known: All of them.
        also: What the message adds to the list of known names.

    Raises:
        ValueError: There is no such name; the message says which is the nearest.
    """
    if name not in known:
        nearest = difflib.get_close_matches(str(name).lower().replace("-", "_"), known, n=1, cutoff=0.0)[0]
        raise ValueError(f"unknown {kind} {name!r}; did you mean {nearest!r}? Known: {', '.join(known)}{also}")
    return known[name]


@functools.cache
def _hints(of: Callable[..., Any]) -> Mapping[str, Any]:
    hints = typing.get_type_hints(of, include_extras=True)
    return {name: hint for name, hint in hints.items() if typing.get_origin(hint) is not ClassVar}


def _parts(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    return typing.get_origin(annotation), typing.get_args(annotation)


def _holds(annotation: Any, value: Any) -> bool:
    """Tell whether a value is what an annotation says."""
    origin, args = _parts(annotation)
    if origin is Annotated:
        ranges = [one for one in args[1:] if isinstance(one, Whole | Real)]
        return all(one.holds(value) for one in ranges) if ranges else _holds(args[0], value)
    if origin in (typing.Union, types.UnionType):
        return any(_holds(one, value) for one in args)
    if origin is Literal:
        names = [one for one in args if isinstance(one, str)]
        if isinstance(value, str):  # NumPy's strings and members of a StrEnum are strings
            return value in names
        return any(type(value) is type(one) and value == one for one in args)
    if annotation is None or annotation is type(None):
        return value is None
    if annotation in (bool, int, float):
        simple: dict[Any, Any] = {bool: bool | np.bool_, int: Whole(), float: Real()}
        kind = simple[annotation]
        return isinstance(value, kind) if annotation is bool else bool(kind.holds(value))
    if origin is collections.abc.Callable or annotation is Callable:
        return callable(value)
    if origin is tuple:
        fixed = args[:1] * len(value) if isinstance(value, tuple) and args[1:] == (...,) else args
        return isinstance(value, tuple) and len(fixed) == len(value) and all(map(_holds, fixed, value))
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        return isinstance(value, origin) and all(_holds(args[0], k) and _holds(args[1], v) for k, v in value.items())
    if origin is collections.abc.Iterable and isinstance(value, collections.abc.Iterator):
        return True  # a look at its entries would use them up
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        countable = isinstance(value, origin) and not isinstance(value, str | bytes) and getattr(value, "ndim", 1) > 0
        return countable and all(_holds(args[0], one) for one in value)
    if origin is type:
        return isinstance(value, type) and issubclass(value, args)
    if annotation is Any or not isinstance(annotation, type):
        return True  # Any is a class, variables of types are not
    if getattr(annotation, "_is_protocol", False) and not getattr(annotation, "_is_runtime_protocol", False):
        return callable(value)
    return isinstance(value, annotation)


def describe(annotation: Any) -> str:
    """Say in words what an annotation allows.

    Example:
        >>> describe(Count | None), describe(Literal["sum", "mean"]), describe(tuple[str, ...])
        ('a whole number of at least 1 or None', "'sum' or 'mean'", 'a tuple of strings')
    """
    origin, args = _parts(annotation)
    if origin is Annotated:
        return next((str(one) for one in args[1:] if isinstance(one, Whole | Real | str)), None) or describe(args[0])
    if origin in (typing.Union, types.UnionType):
        literals = [repr(one) for kind in args if typing.get_origin(kind) is Literal for one in typing.get_args(kind)]
        return _either(
            dict.fromkeys([*literals, *(describe(one) for one in args if typing.get_origin(one) is not Literal)])
        )
    if origin is Literal:
        return _either(map(repr, args))
    if origin is collections.abc.Callable or annotation is Callable:
        return "a function"
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        return f"a mapping of {_many(args[0])} to {_many(args[1])}"
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        kind = "tuple" if origin is tuple else "sequence"
        if origin is tuple and args[1:] != (...,):
            return f"a tuple of {_listed(map(describe, args))}"
        return f"a {kind} of {_many(args[0])}"
    if origin is type:
        return f"a class such as {_listed(one.__name__ for one in args)}"
    words = {bool: "True or False", int: str(Whole()), float: str(Real()), str: "a string", type(None): "None"}
    if annotation in words or annotation is None:
        return words[type(None) if annotation is None else annotation]
    name = getattr(annotation, "__name__", str(annotation))
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _many(annotation: Any) -> str:
    """Say what a collection holds."""
    one = describe(annotation)
    plural = {"a string": "strings", "True or False": "True and False"}
    words = plural.get(one, one)
    return words.replace("a whole number", "whole numbers").replace("a finite number", "finite numbers")


def _either(words: Iterable[str]) -> str:
    *first, last = list(words)
    return f"{', '.join(first)} or {last}" if first else last


def _listed(words: Iterable[str]) -> str:
    *first, last = list(words)
    return f"{', '.join(first)} and {last}" if first else last


def _shown(value: object) -> str:
    """Return a value's repr, short enough for a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… (a {type(value).__name__})"
