"""Methods by name, with the settings of their own that `--set` names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphcollab.cli.values import entries, literal
from graphcollab.errors import ConflictError, DuplicateError, FormatError, UnknownError
from graphcollab.methods import get_method

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
    for name in names if words else ():
        own = {**found.get(ALL, {}), **found.get(name, {})}
        first = {setting: values[0] for setting, values in own.items()}
        for setting, values in own.items():
            for value in values:
                get_method(name)(**{**first, setting: value})  # refuses wrong names and values
    return found


def only_values(grids: Grids, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the settings of every method, each of which must have one value."""
    for name, settings in grids.items():
        for setting, values in settings.items():
            if len(values) != 1:
                raise ConflictError("set", f"{name}.{setting} must have one value here, got {values}")
    both: Mapping[str, dict[str, list[Any]]] = {name: {**grids.get(ALL, {}), **grids.get(name, {})} for name in names}
    return {name: {key: values[0] for key, values in own.items()} for name, own in both.items()}
