"""Values on a command line: lists with commas, ranges of whole numbers, `none`, and entries `NAME=A,B`."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, get_args

import attrs
from cyclopts import Parameter, Token, convert

from graphcollab._base.errors import ConflictError, DuplicateError, FormatError, UnknownError
from graphcollab.methods import get_method

RANGE = re.compile(r"(\d{1,5})-(\d{1,5})")
LITERALS = {"none": None, "true": True, "false": False}


def _several(kind: Any, tokens: Sequence[Token]) -> Any:
    """Convert the words of an option that takes several values; those of a settings file hold no commas."""
    pieces = [(token, _split(token.value) if token.source == "cli" else [token.value]) for token in tokens]
    words = [(token, word.strip()) for token, listed in pieces for word in listed if word.strip()]
    if [word.lower() for _, word in words] == ["none"]:
        return ()
    if int in get_args(kind):
        words = [(token, number) for token, word in words for number in _numbers(word)]
    return convert(kind, [attrs.evolve(token, value=word) for token, word in words])


SEVERAL = Parameter(converter=_several)
"""An option with several values, ``--seeds 0-2 7`` or ``--seeds 0,1,2,7``; ``none`` alone stands for no values."""


def _metric(_: Any, tokens: Sequence[Token]) -> str | None:
    from graphcollab._base.settings import look_up  # imports PyTorch, as the metrics do
    from graphcollab.analysis.metrics import METRICS

    return look_up("metric", tokens[0].value, {name: name for name in METRICS} | {"none": None})


METRIC = Parameter(converter=_metric)
"""An option that names a metric; ``none`` stands for the default."""


def _numbers(word: str) -> list[str]:
    span = RANGE.fullmatch(word)
    return [str(number) for number in range(int(span[1]), int(span[2]) + 1)] or [word] if span else [word]


def entries(option: str, words: Iterable[str], example: str) -> dict[str, list[str]]:
    """Return the values of words ``NAME=A,B`` by name; quotes enclose values with commas."""
    found: dict[str, list[str]] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not (name and equals and text):
            raise FormatError(option, f"expected NAME=VALUE, such as {example}, got {word!r}")
        found[name] = [value.strip() for value in _split(text)]
    return found


def _split(text: str) -> list[str]:
    return next(csv.reader([text], skipinitialspace=True), [])


def literal(text: str) -> object:
    """Return the number, truth value or None that a word stands for, else the word."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return LITERALS.get(text.lower(), text)


def flat(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command by option: groups of options, which are dataclasses, are unpacked."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        found |= vars(value) if is_dataclass(value) else {name: value}
    return found


ALL = "*"
Grids = dict[str, dict[str, list[Any]]]


def makers_of(names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """Return the functions of methods by name."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DuplicateError("methods", f"expected different methods, got {twice!r} several times")
    return {name: get_method(name) for name in names}


def settings_grids(names: Sequence[str], words: Sequence[str], lrs: Sequence[float] = ()) -> Grids:
    """Return values to try by method, of ``lrs`` for all and of METHOD.SETTING=A,B, where ``*`` is for all methods."""
    found: Grids = {ALL: {"lr": list(lrs)}} if lrs else {}
    for key, texts in entries("set", words, "cobo.rho=0.1").items():
        name, dot, setting = key.partition(".")
        if not (name and dot and setting):
            raise FormatError("set", f"expected METHOD.SETTING=VALUE, such as cobo.rho=0.1, got {key!r}")
        if name not in (ALL, *names):
            raise UnknownError("set", f"{name!r} is none of the methods of this command: {', '.join(names)}")
        found.setdefault(name, {})[setting.replace("-", "_")] = [literal(text) for text in texts]
    return found


def only_values(name: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the settings of a method, each of which must have one value."""
    grids = settings_grids([name], words)
    own = {**grids.get(ALL, {}), **grids.get(name, {})}
    for setting, values in own.items():
        if len(values) != 1:
            raise ConflictError("set", f"{name}.{setting} must have one value here, got {values}")
    return {setting: values[0] for setting, values in own.items()}
