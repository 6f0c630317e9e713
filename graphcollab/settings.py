"""Settings are checked when they are given, by what their annotations say."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import functools
import inspect
import math
import numbers
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, ParamSpec, TypeAlias, TypeVar

import numpy as np

from graphcollab.naming import close

__all__ = [
    "MOST",
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
    "check_setting",
    "check_settings",
    "checked",
    "look_up",
    "unknown_argument",
]

P = ParamSpec("P")
R = TypeVar("R")


class SettingError(ValueError):
    """A setting, by its name, that is not what it must be."""

    def __init__(self, name: str, what: str, value: object, hint: str = "") -> None:
        shown = repr(value)
        shown = shown if len(shown) <= 80 else f"{shown[:60]}… (a {type(value).__name__})"
        super().__init__(f"{name} must be {what}, got {shown}" + f"; {hint}".rstrip() * bool(hint))
        self.name = name


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


MOST = 2**63  #: Whole numbers are smaller than this: they have 64 bits.
Count: TypeAlias = Annotated[int, range(1, MOST)]  #: A whole number of at least 1.
Natural: TypeAlias = Annotated[int, range(MOST)]  #: A whole number of at least 0.
Seed: TypeAlias = Annotated[int, range(-MOST, MOST)]  #: A whole number, negative ones included.
Finite: TypeAlias = Annotated[float, Real()]  #: Any finite number.
Positive: TypeAlias = Annotated[float, Real(above=0)]  #: A finite number above 0.
NonNegative: TypeAlias = Annotated[float, Real(least=0)]  #: A finite number of at least 0.
Share: TypeAlias = Annotated[float, Real(above=0, most=1)]  #: Some, or all: above 0, and at most 1.
Fraction: TypeAlias = Annotated[float, Real(least=0, most=1)]  #: None, some or all: from 0 to 1.
Momentum: TypeAlias = Annotated[float, Real(least=0, below=1)]  #: From 0 to below 1.
Buffers: TypeAlias = Literal["keep", "average"]
"""Buffers (running statistics) stay with their node, or are averaged with the models."""
Incomplete: TypeAlias = Literal["refuse", "average"]
"""What a server does where connected nodes may not all hear each other."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function check its arguments against their annotations before it does anything.

    A `SettingError` names the argument that is not what its annotation says, and a TypeError, where there is no such
    argument, the nearest.

    Example:
        >>> @checked
        ... def train(*, epochs: Count = 1, buffers: Buffers = "average") -> int:
        ...     return epochs
        >>> train(epochs=0)
        Traceback (most recent call last):
        graphcollab.settings.SettingError: epochs must be a whole number of at least 1, got 0
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
            raise TypeError(unknown_argument(function.__name__, name, takes))
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.__name__}(): {error}; give its arguments by name: {', '.join(takes)}") from None
        for given in (bound.arguments, bound.arguments.get(further, {})):
            for name, value in given.items():
                if name in hints and name not in several:
                    given[name] = check_setting(name, hints[name], value)
        return function(*bound.args, **bound.kwargs)

    return wrapper


def unknown_argument(function: str, name: str, takes: Iterable[str]) -> str:
    """Say that a function has no such argument, and which was meant, or which it takes."""
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
    """Return a value that is what an annotation says; numbers of NumPy and tensors of one number become Python's.

    Annotations are types, ``float`` with a `Real` or ``int`` with a ``range``, ``Literal``, unions and collections of
    these. If the value is something else, a `SettingError` calls it by the name, and says what the type's ``come_by``
    does, if it has one: how to come by such a value.
    """
    for one in (_plain(value), value):  # as it is where a tensor is asked for
        if _holds(annotation, one):
            return one
    hint = close(value, _literals(annotation), 1) if isinstance(value, str) else ""
    if inspect.isfunction(value) and value.__name__.isidentifier():
        hint = f"if what it returns is meant, call it: {value.__name__}()"
    raise SettingError(name, describe(annotation), value, hint or getattr(annotation, "come_by", ""))


def _literals(annotation: Any) -> list[str]:
    """Return the strings that an annotation names."""
    args = typing.get_args(annotation)
    if typing.get_origin(annotation) is Literal:
        return [one for one in args if isinstance(one, str)]
    return [one for kind in args if typing.get_args(kind) for one in _literals(kind)]


_PLAIN = {bool, float, int, str, type(None)}


def _plain(value: Any) -> Any:
    """Return numbers of any kind as Python's, also inside of tuples and mappings; anything else as it is."""
    if type(value) is tuple:
        return value if set(map(type, value)) <= _PLAIN else tuple(map(_plain, value))
    if type(value) is dict:
        return {_plain(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # an array or a tensor without axes
        one = value.item()
        return one if isinstance(one, int | float) else value
    if not isinstance(value, int | float) and isinstance(value, numbers.Real):  # such as a Fraction
        with contextlib.suppress(OverflowError):
            return float(value)
    return value


def look_up(kind: str, name: str, known: Mapping[str, R], also: str = "") -> R:
    """Return what is known by a name; else a ValueError says which is like it, all that are known, and ``also``."""
    if name not in known:
        near = close(str(name).replace("-", "_"), known, 1)
        raise ValueError(f"unknown {kind} {name!r}; {near}Known: {', '.join(known)}{also}")
    return known[name]


@functools.cache
def _hints(of: Callable[..., Any]) -> Mapping[str, Any]:
    hints = typing.get_type_hints(of, include_extras=True)
    for hint in list(hints.values()):  # also the entries of **kwargs: Unpack[...]
        if typing.get_origin(hint) is typing.Unpack:
            hints = {**_hints(typing.get_args(hint)[0]), **hints}
    return {name: hint for name, hint in hints.items() if typing.get_origin(hint) is not ClassVar}


def _holds(annotation: Any, value: Any) -> bool:
    """Tell whether a value is what an annotation says."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    bounds = _bounds(annotation)
    if bounds is not None:
        return _is_in(bounds, value)
    if origin is Annotated:
        return _holds(args[0], value)
    if origin in (typing.Union, types.UnionType):
        return any(_holds(one, value) for one in args)
    if origin is Literal:
        if isinstance(value, str):  # members of a StrEnum are strings
            return value in [one for one in args if isinstance(one, str)]
        return any(type(value) is type(one) and value == one for one in args)
    if origin is collections.abc.Callable or annotation is Callable:
        return callable(value)
    if origin is tuple and args[1:] == (...,):
        return isinstance(value, tuple) and _all_hold(args[0], value)
    if origin is tuple:
        return isinstance(value, tuple) and len(args) == len(value) and all(map(_holds, args, value))
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        return isinstance(value, origin) and all(_holds(args[0], k) and _holds(args[1], v) for k, v in value.items())
    if origin is collections.abc.Iterable and isinstance(value, collections.abc.Iterator):
        return True  # a look at its entries would use them up
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        countable = isinstance(value, origin) and not isinstance(value, str | bytes) and getattr(value, "ndim", 1) > 0
        return countable and _all_hold(args[0], value)
    if origin is type:
        return isinstance(value, type) and issubclass(value, args)
    kind = origin or annotation  # of Dataset[Any], Dataset
    return kind is Any or not isinstance(kind, type) or isinstance(value, kind)  # variables of types are no classes


def _all_hold(annotation: Any, values: Iterable[Any]) -> bool:
    """Tell whether all values are what an annotation says; quickly of text and floats, of which there may be many."""
    if annotation in (str, object):
        return all(issubclass(kind, annotation) for kind in set(map(type, values)))
    if annotation is float and set(map(type, values)) == {float}:
        return all(map(math.isfinite, values))
    return all(_holds(annotation, one) for one in values)


def _bounds(annotation: Any) -> range | Real | None:
    """Return the range of numbers that an annotation gives, if it gives one."""
    if annotation in (int, float):
        return range(-MOST, MOST) if annotation is int else Real()
    said = typing.get_args(annotation)[1:] if typing.get_origin(annotation) is Annotated else ()
    return next((one for one in said if isinstance(one, range | Real)), None)


def _is_in(bounds: range | Real, value: Any) -> bool:
    """Tell whether a value is a number within bounds."""
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


def describe(annotation: Any) -> str:
    """Say in words what an annotation allows."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    bounds = _bounds(annotation)
    if isinstance(bounds, range):
        low = "" if bounds.start == -MOST else f" of at least {bounds.start}"
        return f"a whole number{low}" if bounds.stop == MOST else f"a whole number{low} and at most {bounds.stop - 1}"
    if bounds is not None:
        return str(bounds)
    if annotation is Any:
        return "anything"
    if origin is Annotated:
        return next((one for one in args[1:] if isinstance(one, str)), None) or describe(args[0])
    if origin in (typing.Union, types.UnionType):
        literals = [repr(one) for kind in args if typing.get_origin(kind) is Literal for one in typing.get_args(kind)]
        others = [describe(one) for one in args if typing.get_origin(one) is not Literal]
        return _either(dict.fromkeys([*literals, *others]))
    if origin is Literal:
        return _joined("or", map(repr, args))
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
    if typing.get_origin(annotation) is Annotated and _bounds(annotation) is None:  # in words of its own
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
