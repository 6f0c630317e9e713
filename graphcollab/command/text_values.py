"""Values of settings as text has them: on a command line, or in a file of settings."""

from __future__ import annotations

import collections.abc
import re
import types
import typing
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from graphcollab._ranges import literals_of
from graphcollab.settings import SettingError, check_setting

__all__ = ["as_words", "check_value", "choices", "element", "parse", "parse_several", "plain", "writable"]

NONE = "none"
TRUTHS = {"true": True, "false": False}
_RANGE = re.compile(r"(\d+)-(\d+)")
_MOST = 100_000  # numbers that a range may stand for
_COMMA = ","


def _kinds(annotation: Any) -> list[Any]:
    """Return what a union allows, one by one; words in an `Annotated` around a union or a collection are left out."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated and args[0] not in (int, float) and not literals_of(annotation):
        return _kinds(args[0])
    if origin in (typing.Union, types.UnionType):
        return [kind for one in args for kind in _kinds(one)]
    return [annotation]


def _is_plain(kind: Any) -> bool:
    """Tell whether values of a kind can be written as one word."""
    if typing.get_origin(kind) is Annotated:
        return True  # numbers and names
    return kind in (str, int, float, bool, Path, Any) or typing.get_origin(kind) is Literal


def element(annotation: Any) -> Any:
    """Return what an annotation allows several of, or None.

    Example:
        >>> element(Sequence[str] | None), element(str)
        (<class 'str'>, None)
    """
    for kind in _kinds(annotation):
        origin, args = typing.get_origin(kind), typing.get_args(kind)
        many = isinstance(origin, type) and issubclass(origin, collections.abc.Iterable)
        if many and not issubclass(origin, collections.abc.Mapping) and args[1:] in ((), (...,)):
            plain = [one for one in _kinds(args[0]) if _is_plain(one)]
            if plain:
                return args[0]
    return None


def writable(annotation: Any) -> bool:
    """Tell whether values can be written as words."""
    return element(annotation) is not None or any(map(_is_plain, _kinds(annotation)))


def plain(annotation: Any) -> Any:
    """Return an annotation without what cannot be written as words."""
    kept = [kind for kind in _kinds(annotation) if kind is type(None) or _is_plain(kind) or element(kind) is not None]
    return typing.Union[tuple(kept)] if len(kept) < len(_kinds(annotation)) else annotation  # noqa: UP007 # of a list


def as_words(value: Any) -> str:
    """Return a value as it is written on a line.

    Example:
        >>> as_words(None), as_words(True), as_words((32, 16)), as_words("sgd")
        ('none', 'true', '32,16', 'sgd')
    """
    if isinstance(value, tuple | list):
        return _COMMA.join(map(as_words, value)) or NONE
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def choices(annotation: Any) -> list[str]:
    """Return the words that an annotation names, of one value or of several.

    Example:
        >>> choices(Literal["sums", "per_site"])
        ['sums', 'per_site']
    """
    kinds = _kinds(annotation)
    many = element(annotation)
    kinds += _kinds(many) if many is not None else []
    named = [one for kind in kinds for one in literals_of(kind)]
    return [one for one in named if isinstance(one, str)]


def parse(name: str, annotation: Any, text: str) -> Any:
    """Return the value that a word stands for, by what an annotation says; a `SettingError` calls it by its name.

    Example:
        >>> parse("rounds", int, "3"), parse("patience", int | None, "none"), parse("node", str, "3")
        (3, None, '3')
    """
    if annotation is Any:
        return text
    given: list[Any] = [None] if text.lower() == NONE else []
    given += [TRUTHS[text.lower()]] if text.lower() in TRUTHS else []
    for kind in (int, float):
        with suppress(ValueError):
            given.append(kind(text))
    for value in (*given, text):
        with suppress(SettingError):
            return check_setting(name, annotation, value)
    return check_setting(name, annotation, given[0] if given else text)  # which says what is wrong


def parse_several(name: str, annotation: Any, words: Iterable[str]) -> tuple[Any, ...]:
    """Return the values that words stand for, each of which may list several with commas between them.

    Of whole numbers ``0-4`` stands for 0, 1, 2, 3, 4. ``none`` alone stands for no values.

    Example:
        >>> parse_several("seeds", int, ["0-2", "7,9"]), parse_several("metrics", str, ["none"])
        ((0, 1, 2, 7, 9), ())
    """
    listed = [one.strip() for word in words for one in word.split(_COMMA) if one.strip()]
    if [one.lower() for one in listed] == [NONE]:
        return ()
    found: list[Any] = []
    for one in listed:
        try:
            found.append(parse(name, annotation, one))
        except SettingError:
            span = _RANGE.fullmatch(one)
            if span is None or not 0 <= int(span[2]) - int(span[1]) < _MOST:
                raise
            found += [check_setting(name, annotation, k) for k in range(int(span[1]), int(span[2]) + 1)]
    return tuple(found)


def check_value(name: str, annotation: Any, value: Any) -> Any:
    """Return the value that a file of settings has, where text stands for what the file has no form for (``none``)."""
    many = element(annotation)
    if many is not None and isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(check_value(name, many, one) for one in value)
    if isinstance(value, str):
        return parse_several(name, many, [value]) if many is not None else parse(name, annotation, value)
    return value if annotation is Any else check_setting(name, annotation, value)
