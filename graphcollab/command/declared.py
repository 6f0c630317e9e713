"""Settings of a command, read off the functions that take them: their annotations, defaults and documentation."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphcollab.command.text_values import check_value, choices, element, parse, parse_several, writable
from graphcollab.command.wording import PLAIN, group_of
from graphcollab.documentation import entries

__all__ = ["Setting", "in_words", "settings_of"]

GIVEN = ("seed", "graph", "progress", "checkpoint", "resume", "architecture", "owner", "frame", "refit")
"""Arguments that a command gives itself, or that mean nothing without objects of Python."""


@dataclass(frozen=True)
class Setting:
    """One setting.

    Args:
        name: Its name, as in Python.
        annotation: What it may be.
        default: What it is where nothing is given.
        text: What it means.
        owner: What takes it, by a name of the command's own.
        words: Words to choose from, where there are any; others may be allowed, too.
        required: Whether it must be given.
        is_table: Whether a file of settings has a table of it; its value is what was given on the line, and that table.
        read: Function that makes one value of these two, where there is one.
    """

    name: str
    annotation: Any
    default: Any = None
    text: str = ""
    owner: str = ""
    words: Sequence[str] = ()
    required: bool = False
    is_table: bool = False
    read: Callable[[Sequence[str], Mapping[str, Any]], Any] | None = None

    @property
    def option(self) -> str:
        """The option's name on a command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def several(self) -> bool:
        """Whether it takes several values."""
        return element(self.annotation) is not None

    @property
    def is_flag(self) -> bool:
        """Whether it is either on or off."""
        return self.annotation is bool

    @property
    def group(self) -> str:
        """Under which heading the help has it."""
        return group_of(self.name)

    def declared(self) -> dict[str, Any]:
        """Return what is said of it in the help, and which words there are to choose from."""
        default = self.default
        shown = " ".join(map(str, default)) if isinstance(default, tuple | list) else str(default)
        return {
            "name": self.name,
            "text": self.text,
            "default": None if default in (None, ()) or self.is_flag else shown,
            "several": self.several,
            "is_flag": self.is_flag,
            "words": list(self.words),
            "group": self.group,
            "required": self.required,
        }

    def of_words(self, given: Sequence[str]) -> Any:
        """Return the value that words on a command line stand for."""
        if self.several:
            return parse_several(self.name, element(self.annotation), given)
        return parse(self.name, self.annotation, given[0])

    def check(self, value: Any) -> Any:
        """Return a value that a file of settings has, if it is what it must be."""
        return check_value(self.name, self.annotation, value)


def settings_of(
    function: Callable[..., Any],
    owner: str,
    also: Sequence[Any] = (),
    only: Collection[str] | None = None,
    keep: Collection[str] = (),
) -> list[Setting]:
    """Return the settings of a function that can be written as text.

    Args:
        function: The function.
        owner: See `Setting`.
        also: Functions or classes whose documentation is told where the function's own only refers to it.
        only: Names of those that are wanted. Default: all but those that a command gives itself.
        keep: Names of those that are wanted all the same.
    """
    hints, known = typing.get_type_hints(function, include_extras=True), entries(function)
    found = []
    for name, one in inspect.signature(function).parameters.items():
        wanted = (name not in GIVEN or name in keep) if only is None else name in only
        if not wanted or one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL) or not writable(hints.get(name, object)):
            continue
        default = None if one.default is one.empty else one.default
        text = PLAIN.get(name) or in_words(_said(name, known, also))
        found.append(Setting(name, hints[name], default, text, owner, choices(hints[name])))
    return found


def _said(name: str, known: Mapping[str, str], also: Sequence[Any]) -> str:
    """Return what is said of an argument, where its own entry only refers to another from there."""
    for entry in (known, *map(entries, also)):
        text = entry.get(name, "")
        if text and not text.startswith("See "):
            return text
    return ""


def in_words(text: str) -> str:
    r"""Return a part of a docstring as a terminal shows it: without marks, on one line.

    Example:
        >>> in_words("``'sgd'``, or\nsee `Setting`.")
        "'sgd', or see Setting."
    """
    text = re.sub(r"\*\*(\w+)\*\*", r"\1", re.sub(r":\w+:`([^`]*)`", r"\1", text))
    text = re.sub(r"`([^`<]+?)\s+(<[^>]*>)`_", r"\1 \2", text)
    return re.sub(r"\s+", " ", re.sub(r"``(.*?)``", r"\1", text, flags=re.DOTALL).replace("`", "")).strip()
