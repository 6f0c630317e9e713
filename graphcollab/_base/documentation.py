"""Shared documentation of arguments that several functions have in common."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from graphcollab._base.errors import InvalidTypeError
from graphcollab._base.settings import checked

P = ParamSpec("P")
R = TypeVar("R")


def entries(of: Callable[..., Any]) -> dict[str, str]:
    """Return the ``Args`` entries of a docstring by argument name."""
    listed = re.search(r"\nArgs:\n(.*?)(?:\n\n|\Z)", f"\n{inspect.getdoc(of) or ''}", re.S)
    found = re.findall(r"^    (\w+): (.*(?:\n {8,}.*)*)", listed[1] if listed else "", re.M)
    return {name: re.sub(r"\n {8}", "\n", text) for name, text in found}


def of_sites(text: str) -> str:
    """Return a text with "node" replaced by "site", for readers whose graph nodes are sites."""
    return re.sub(r"\b([Nn])ode(s?)\b", lambda found: f"{'S' if found[1] == 'N' else 's'}ite{found[2]}", text)


def documented(function: Callable[..., Any], shared: Mapping[str, str]) -> str | None:
    """Return a docstring that lists all arguments in signature order, filling in missing entries from ``shared``.

    Raises a TypeError that names an argument documented in neither.
    """
    if not function.__doc__:  # python -OO
        return None
    headed = r"\n\n(?=(?:Args|Returns|Shapes|Raises|Example):\n)"
    about, *sections = re.split(headed, inspect.cleandoc(function.__doc__))
    known, listed = {**shared, **entries(function)}, ["Args:"]
    for name in inspect.signature(function).parameters:
        if name not in known:
            raise InvalidTypeError(
                name, f"{function.__name__} does not say what its argument {name} means: add it to Args"
            )
        listed.append(f"    {name}: " + known[name].replace("\n", "\n        "))
    return "\n\n".join([about, "\n".join(listed), *(one for one in sections if not one.startswith("Args:"))]) + "\n"


def checked_with(shared: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that checks a function's arguments and adds the shared entries to its docstring."""

    def make(function: Callable[P, R]) -> Callable[P, R]:
        wrapper = checked(function)
        wrapper.__doc__ = documented(function, shared)
        return wrapper

    return make
