"""The methods that are asked for, with settings of their own, checked by the methods' declarations."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphcollab import methods
from graphcollab.command.declared import Setting
from graphcollab.command.text_values import check_value, choices, element, parse
from graphcollab.methods import get_method
from graphcollab.settings import SettingError, look_up

__all__ = ["ALL", "OWN", "Points", "chosen", "fixed", "method_option", "points_of"]

ALL = "*"
Points = dict[str, dict[str, list[Any]]]

OWN = Setting(
    "set",
    Sequence[str],
    text="A method's own setting, such as cobo.rho=0.1; several values are all tried, cobo.rho=0.05,0.1, and * "
    "stands for all methods, '*.batch_size=32'. In a file of settings they are tables, [set.cobo]. "
    "graphcollab show cobo lists them.",
    is_table=True,
)


def method_option(text: str, default: Sequence[str] | None = None, required: bool = False) -> Setting:
    """Return the setting by which methods are chosen."""
    known = tuple(methods.__all__)
    return Setting("methods", Sequence[str], default, text, words=known, required=required)


def chosen(names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """Return methods by name; an unknown name is refused, and the nearest is named."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"methods must differ, got {twice!r} several times: name it once")
    return {name: get_method(name) for name in names}


def points_of(names: Sequence[str], own: tuple[Sequence[str], Mapping[str, Any]], lrs: Sequence[float] = ()) -> Points:
    """Return which values of which settings to try, by method.

    Args:
        names: The methods.
        own: What was given on the command line, ``method.setting=value``, and what a file of settings has, {method:
            {setting: value}}.
        lrs: Step sizes to try with all methods.
    """
    found: Points = {ALL: {"lr": list(lrs)}} if lrs else {}
    line, tables = own
    for name, settings in tables.items():
        if not isinstance(settings, Mapping):
            raise ValueError(f"set.{name} must be a table of settings, got {settings!r}")
        for setting, value in settings.items():
            found.setdefault(name, {})[setting] = _tried(names, name, setting, value)
    for word in line:
        name, dot, rest = word.partition(".")
        setting, equals, text = rest.partition("=")
        if not (name and dot and setting and equals):
            raise ValueError(f"--set must be METHOD.SETTING=VALUE, such as cobo.rho=0.1, got {word!r}")
        found.setdefault(name, {})[setting] = _tried(names, name, setting.replace("-", "_"), text, on_line=True)
    return found


def _tried(names: Sequence[str], name: str, setting: str, value: Any, on_line: bool = False) -> list[Any]:
    """Return the values of a setting to try, if all methods that are meant take them."""
    if name != ALL:
        look_up("method", name, dict.fromkeys(names), also=" (those that are asked for)")
    tried: list[Any] = []
    for one in names if name == ALL else [name]:
        hints = typing.get_type_hints(get_method(one), include_extras=True)
        known = {key: hints[key] for key in inspect.signature(get_method(one)).parameters}
        annotation = look_up(f"setting of {one}", setting, known)
        try:
            tried = _values(f"{one}.{setting}", annotation, value, on_line)
        except SettingError as error:
            named = choices(annotation)
            raise ValueError(f"{error}" + f"; graphcollab show {one} says what it means" * (not named)) from None
    return tried


def _values(name: str, annotation: Any, value: Any, on_line: bool) -> list[Any]:
    """Return the values that one entry stands for: itself, or several to try."""
    if element(annotation) is None and isinstance(value, list):
        return [check_value(name, annotation, one) for one in value]
    if not on_line:
        return [check_value(name, annotation, value)]
    return [parse(name, annotation, one.strip()) for one in value.split(",")]


def fixed(points: Points, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the settings of every method, where one value is to be given of each."""
    for name, settings in points.items():
        for setting, values in settings.items():
            if len(values) != 1:
                raise ValueError(f"{name}.{setting} must have one value here, got {values}: only step sizes are chosen")
    every = {key: values[0] for key, values in points.get(ALL, {}).items()}
    return {name: {**every, **{key: v[0] for key, v in points.get(name, {}).items()}} for name in names}
