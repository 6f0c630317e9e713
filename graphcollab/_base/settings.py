"""Validation of settings against their annotations."""

from __future__ import annotations

import collections.abc
import contextlib
import copyreg
import dataclasses
import functools
import inspect
import math
import numbers
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, ParamSpec, TypeAlias, TypeVar

import numpy as np

from graphcollab._base.errors import InvalidTypeError, InvalidValueError, UnknownError
from graphcollab._base.naming import close
from graphcollab._base.ranges import MOST as MOST, Known as Known, Real as Real, bounds_of, describe, is_in, literals_of

P = ParamSpec("P")
R = TypeVar("R")


class SettingError(InvalidValueError):
    """The setting ``subject`` has a ``value`` other than ``what`` is required; ``hint`` adds advice."""

    def __init__(self, subject: str, what: str, value: object, hint: str = "") -> None:
        shown = repr(value)
        shown = shown if len(shown) <= 80 else f"{shown[:60]}… (a {type(value).__name__})"
        super().__init__(subject, f"{subject} must be {what}, got {shown}" + f"; {hint}".rstrip() * bool(hint))

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self), str(self)), vars(self)  # type: ignore[attr-defined]


Count: TypeAlias = Annotated[int, range(1, MOST)]  #: A whole number of at least 1.
Natural: TypeAlias = Annotated[int, range(MOST)]  #: A whole number of at least 0.
Seed: TypeAlias = Annotated[int, range(-MOST, MOST)]  #: A whole number, possibly negative.
Finite: TypeAlias = Annotated[float, Real()]  #: Any finite number.
Positive: TypeAlias = Annotated[float, Real(above=0)]  #: A finite number above 0.
NonNegative: TypeAlias = Annotated[float, Real(least=0)]  #: A finite number of at least 0.
Share: TypeAlias = Annotated[float, Real(above=0, most=1)]  #: A nonzero share: above 0 and at most 1.
Fraction: TypeAlias = Annotated[float, Real(least=0, most=1)]  #: A share from 0 to 1, both included.
Momentum: TypeAlias = Annotated[float, Real(least=0, below=1)]  #: At least 0 and below 1.
Buffers: TypeAlias = Literal["keep", "average"]
"""Whether buffers (running statistics) stay at their node or are averaged with the models."""
Incomplete: TypeAlias = Literal["refuse", "average"]
"""What a server does if connected nodes may not all hear each other."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function check its arguments against their annotations before it runs.

    A `SettingError` names an argument that violates its annotation; for an unknown argument, an `InvalidTypeError`
    suggests the nearest.
    """
    signature = inspect.signature(function)
    known = signature.parameters
    several = {one.name: one.kind for one in known.values() if one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL)}
    further = next((name for name, kind in several.items() if kind is inspect.Parameter.VAR_KEYWORD), "")

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        hints = _hints(function)
        takes = [name for name in {**known, **hints} if name not in (*several, "self", "cls", "return")]
        anything = further and typing.get_origin(hints.get(further)) is not typing.Unpack
        for name in () if anything else [name for name in kwargs if name not in takes]:
            raise InvalidTypeError(name, unknown_argument(function.__name__, name, takes))
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidTypeError(
                f"{function.__name__}()",
                f"{function.__name__}(): {error}; give its arguments by name: {', '.join(takes)}",
            ) from None
        for given in (bound.arguments, bound.arguments.get(further, {})):
            for name, value in given.items():
                if name in hints and name not in several:
                    given[name] = check_setting(name, hints[name], value)
        return function(*bound.args, **bound.kwargs)

    return wrapper


def settings_of(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a `checked` function, given or default, checked as in a call."""
    known, hints = inspect.signature(function).parameters, _hints(function)
    takes = [name for name in {**known, **hints} if name not in ("self", "cls", "return", "kwargs")]
    for name in given:
        if name not in takes:
            raise InvalidTypeError(name, unknown_argument(function.__name__, name, takes))
    defaults = {name: one.default for name, one in known.items() if one.default is not one.empty}
    return defaults | {name: check_setting(name, hints[name], value) for name, value in given.items()}


def unknown_argument(function: str, name: str, takes: Iterable[str]) -> str:
    """Return a message about an unknown argument that suggests the nearest, or lists all that the function takes."""
    hint = close(name, takes := list(takes), 1).rstrip() or f"it takes {', '.join(takes)}"
    return f"{function}() has no argument {name!r}; {hint}"


def check_settings(settings: Any) -> None:
    """Check the fields of a frozen dataclass against their annotations, as `check_setting` does."""
    kind: Any = type(settings)
    hints = _hints(kind)
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        object.__setattr__(settings, field.name, check_setting(field.name, hints[field.name], value))


def check_setting(name: str, annotation: Any, value: Any) -> Any:
    """Return a value that matches an annotation; NumPy numbers and tensors of one number become Python numbers.

    Annotations are types, ``float`` with a `Real` or ``int`` with a ``range``, ``Literal``, ``str`` with `Known` names,
    unions and collections of these. A `SettingError` refuses other values, with the type's ``come_by``, if any, as
    hint.
    """
    for one in (_plain(value), value):  # unconverted if a tensor is required
        if _holds(annotation, one):
            return one
    hint = close(value, _literals(annotation), 1) if isinstance(value, str) else ""
    if inspect.isfunction(value) and value.__name__.isidentifier():
        hint = f"if what it returns is meant, call it: {value.__name__}()"
    raise SettingError(name, describe(annotation), value, hint or getattr(annotation, "come_by", ""))


def _literals(annotation: Any) -> list[str]:
    args = typing.get_args(annotation)
    if literals := literals_of(annotation):
        return [one for one in literals if isinstance(one, str)]
    return [one for kind in args if typing.get_args(kind) for one in _literals(kind)]


_PLAIN = {bool, float, int, str, type(None)}


def _plain(value: Any) -> Any:
    """Return numbers of any kind as Python numbers, also inside tuples and mappings; anything else unchanged."""
    if type(value) is tuple:
        return value if set(map(type, value)) <= _PLAIN else tuple(map(_plain, value))
    if type(value) is dict:
        return {_plain(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # an array or a tensor without axes
        one = value.item()
        return one if isinstance(one, int | float) else value
    if not isinstance(value, int | float) and isinstance(value, numbers.Real):  # for example a Fraction
        with contextlib.suppress(OverflowError):
            return float(value)
    return value


def look_up(kind: str, name: str, known: Mapping[str, R], also: str = "") -> R:
    """Look up a name; an `UnknownError` suggests the nearest and lists all known names and ``also``."""
    if name not in known:
        near = close(str(name).replace("-", "_"), known, 1)
        raise UnknownError(kind, f"unknown {kind} {name!r}; {near}Known: {', '.join(known)}{also}")
    return known[name]


@functools.cache
def _hints(of: Callable[..., Any]) -> Mapping[str, Any]:
    hints = typing.get_type_hints(of, include_extras=True)
    for hint in list(hints.values()):  # also the entries of **kwargs: Unpack[...]
        if typing.get_origin(hint) is typing.Unpack:
            hints = {**_hints(typing.get_args(hint)[0]), **hints}
    return {name: hint for name, hint in hints.items() if typing.get_origin(hint) is not ClassVar}


def _holds(annotation: Any, value: Any) -> bool:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    bounds = bounds_of(annotation)
    if bounds is not None:
        return is_in(bounds, value)
    if literals := literals_of(annotation):
        if isinstance(value, str):  # members of a StrEnum are strings
            return value in [one for one in literals if isinstance(one, str)]
        return any(type(value) is type(one) and value == one for one in literals)
    if origin is Annotated:
        return _holds(args[0], value)
    if origin in (typing.Union, types.UnionType):
        return any(_holds(one, value) for one in args)
    if origin is collections.abc.Callable or annotation is Callable:
        return callable(value)
    if origin is tuple and args[1:] == (...,):
        return isinstance(value, tuple) and _all_hold(args[0], value)
    if origin is tuple:
        return isinstance(value, tuple) and len(args) == len(value) and all(map(_holds, args, value))
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        return isinstance(value, origin) and all(_holds(args[0], k) and _holds(args[1], v) for k, v in value.items())
    if origin is collections.abc.Iterable and isinstance(value, collections.abc.Iterator):
        return True  # checking its entries would consume them
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        countable = isinstance(value, origin) and not isinstance(value, str | bytes) and getattr(value, "ndim", 1) > 0
        return countable and _all_hold(args[0], value)
    if origin is type:
        return isinstance(value, type) and issubclass(value, args)
    kind = origin or annotation  # Dataset for Dataset[Any]
    return kind is Any or not isinstance(kind, type) or isinstance(value, kind)  # type variables are not classes


def _all_hold(annotation: Any, values: Iterable[Any]) -> bool:
    if annotation in (str, object):
        return all(issubclass(kind, annotation) for kind in set(map(type, values)))
    if annotation is float and set(map(type, values)) == {float}:
        return all(map(math.isfinite, values))
    return all(_holds(annotation, one) for one in values)
