"""Lookup of nodes by name or position, and formatting of names in messages."""

from __future__ import annotations

import difflib
import operator
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

from graphcollab._base.errors import AmbiguousError, InvalidTypeError, RangeError, UnknownError

T = TypeVar("T")


Node: TypeAlias = int | str
"""A node by name or by position, counted from 0; if all names are whole numbers, a number is always a name.

Sites named 1, 2, 3 in a column are therefore addressed as 1, 2, 3, and never by position.
"""

SAME = {
    "learning_rate": "lr",
    "step_size": "lr",
    "site": "node",
    "drop": "leave_out",
    "exclude": "leave_out",
    "features": "columns",
    "label": "target",
    "groups": "group",
}  # common synonyms of our names
SHOWN = 8  # maximum number of names in a message
LONG = 60  # maximum number of characters shown of an invalid name


def find_node(node: Node, names: Sequence[str], what: str = "node") -> int:
    """Return a node's position; if all names are whole numbers, a number is a name and never a position (`Node`).

    An UnknownError suggests the most similar names. If not all names are numbers, a number that is the name of one node
    and the position of another raises an AmbiguousError.
    """
    return find_nodes([node], names, what)[0]


def find_nodes(nodes: Iterable[Node], names: Sequence[str], what: str = "node") -> list[int]:
    """Return the positions of several nodes; see `find_node`."""
    place, are_numbers = {name: k for k, name in enumerate(names)}, numbered(names)
    return [_find(node, names, place, are_numbers, what) for node in nodes]


def _find(node: Node, names: Sequence[str], place: Mapping[str, int], are_numbers: bool, what: str) -> int:
    if isinstance(node, str):
        if node in place:
            return place[node]
        hint = f"{near}The" if (near := close(node, names)) else "the"
        raise UnknownError(what, f"there is no {what} {node!r}; {hint} {what}s are {_listed(names)}")
    if isinstance(node, bool) or not hasattr(node, "__index__"):
        shown = (repr(node).splitlines() or [""])[0][:LONG]
        raise InvalidTypeError(
            what, f"a {what} is given by its name or its position, got {shown} (a {type(node).__name__})"
        )
    position = operator.index(node)
    named = place.get(str(position), -1 if are_numbers else position)
    if named < 0 and are_numbers:
        text = f"there is no {what} {position}; the {what}s are {_listed(names)}"
        raise UnknownError(what, f"{text} (where all names are numbers, a number is a name and no position)")
    if named != position and not are_numbers:
        text = f"{position} may be the name of a {what} or a position: give a name as text, {str(position)!r}"
        raise AmbiguousError(what, text + (f" or {names[position]!r}" if 0 <= position < len(names) else ""))
    if not 0 <= named < len(names):
        raise RangeError(
            what, f"there is no {what} {position}; the {len(names)} {what}s are counted from 0: {_listed(names)}"
        )
    return named


def numbered(names: Sequence[str]) -> bool:
    """Return whether all names are whole numbers, like site names from a numeric column."""
    return all(name.removeprefix("-").isdecimal() for name in names)


def close(name: str, names: Iterable[str], most: int = 3) -> str:
    """Return a question that suggests the most similar names, ignoring case; empty if there are none.

    A known synonym comes first, then names that start with the given one, similar names, and names that end with it.
    """
    known = list(names)
    begin = [one for one in known if len(name) > 2 and one.lower().startswith(name.strip().lower())]
    near = difflib.get_close_matches(name.strip().lower(), [one.strip().lower() for one in known], n=3)
    near_ones = [one for low in dict.fromkeys(near) for one in known if one.strip().lower() == low]
    end = sorted((one for one in known if len(name) > 2 and one.lower().endswith(name.strip().lower())), key=len)
    found = list(dict.fromkeys([*(one for one in [SAME.get(name)] if one in known), *begin, *near_ones, *end]))
    return f"did you mean {' or '.join(map(repr, found[:most]))}? " if found else ""


AS_OPTIONS: ContextVar[bool] = ContextVar("as_options", default=False)
"""Whether messages are for the command line; set by the command line itself."""


def setting(**given: Any) -> str:
    """Format a setting as the reader would write it: as an argument, or quoted as a command-line option.

    A value of ``...`` leaves the value open.

    Example:
        >>> setting(leave_out=["patient no"])
        "leave_out=['patient no']"
    """
    ((name, value),) = given.items()
    if not AS_OPTIONS.get():
        return f"{name}={'...' if value is ... else repr(value)}"
    listed = [f'"{one}"' if "," in str(one) else str(one) for one in value] if isinstance(value, list) else [str(value)]
    words = listed * (value is not ... and value is not True)
    return " ".join([f"--{name.replace('_', '-')}", *map(shlex.quote, words)])


def _listed(names: Sequence[str]) -> str:
    """List names, quoted if one of them contains a comma."""
    return few([*map(repr, names)] if any("," in name for name in names) else names)


class ByName(dict[str, T]):
    """A dict by name; an unknown name raises an `UnknownError` that suggests similar names and lists the known."""

    def __missing__(self, name: str) -> T:
        hint = close(str(name), self)
        there = f"{'T' if hint else 't'}here are {few([*self]) or 'none'}"
        raise UnknownError("name", f"there is no {name!r}; {hint}{there}")


def few(names: Sequence[str], between: str = ", ") -> str:
    """List names, or the first ones and their number if there are many."""
    shown = between.join(map(str, names[:SHOWN]))
    return shown if len(names) <= SHOWN else f"{shown}{between}… ({len(names)} in all)"
