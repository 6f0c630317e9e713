"""Nodes by name or position, and names in messages."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable, Sequence
from typing import TypeAlias

__all__ = ["Node", "few", "find_node", "find_nodes"]

Node: TypeAlias = int | str
"""A node, by its position among all, counted from 0, or by its name."""

SHOWN = 8  # names in a message at most


def find_node(node: Node, names: Sequence[str], what: str = "node") -> int:
    """Return a node's position.

    Raises:
        KeyError: If there is no node of that name; the message has the names most like it.
        IndexError: If the position is not from 0 to K - 1.
        TypeError: If it is neither a name nor a position.

    Example:
        >>> find_node("south", ["north", "south"])
        1
        >>> find_node("sout", ["north", "south"])
        Traceback (most recent call last):
        KeyError: "there is no node 'sout'; did you mean 'south'? The nodes are north, south"
    """
    if isinstance(node, str):
        if node in names:
            return names.index(node)
        near = difflib.get_close_matches(node.lower(), [name.lower() for name in names], n=3)
        close = [name for low in dict.fromkeys(near) for name in names if name.lower() == low]
        hint = f"did you mean {' or '.join(map(repr, close[:3]))}? The" if close else "the"
        raise KeyError(f"there is no {what} {node!r}; {hint} {what}s are {few(names)}")
    try:
        position = operator.index(node)
    except TypeError:
        position = None
    if position is None or isinstance(node, bool):
        raise TypeError(f"a {what} is given by its name or its position, got {node!r} (a {type(node).__name__})")
    if not 0 <= position < len(names):
        raise IndexError(f"there is no {what} {position}; the {len(names)} {what}s are counted from 0: {few(names)}")
    return position


def find_nodes(nodes: Iterable[Node], names: Sequence[str]) -> list[int]:
    """Return the positions of several nodes; see `find_node`."""
    place = {name: k for k, name in enumerate(names)}
    return [place[node] if isinstance(node, str) and node in place else find_node(node, names) for node in nodes]


def few(names: Sequence[str]) -> str:
    """List names, or the first of many.

    Example:
        >>> few(["a", "b"]), few([str(k) for k in range(100)])
        ('a, b', '0, 1, 2, 3, 4, 5, 6, 7, … (100 in all)')
    """
    shown = ", ".join(map(str, names[:SHOWN]))
    return shown if len(names) <= SHOWN else f"{shown}, … ({len(names)} in all)"
