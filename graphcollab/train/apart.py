"""`shown_apart`: where texts of long values differ."""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Sequence
from typing import TypeAlias

__all__ = ["shown_apart"]

LONG = 60  # characters up to which a value is shown as it is
SHOWN = 120  # characters of a value in a message at most
BEFORE = 30  # of these, before the first that differs, where a value cannot be read as Python writes it
Path: TypeAlias = tuple[str | int, ...]
_READING = threading.Lock()  # Python 3.11 counts the depth of all threads' trees as one, and raises SystemError


def shown_apart(texts: Sequence[str]) -> list[str]:
    """Return short texts instead of long ones, so that they show what differs first.

    Texts are those of Python's values: of objects with settings the first setting is named that differs, of lists and
    dicts the first entry. Where all are short they stay as they are.

    Args:
        texts: At least two, of which not all are the same.

    Example:
        >>> fit = "Fit(epochs=3, steps=None, batch_size=10, optimizer=SGD(lr=0.1, momentum=0.0))"
        >>> shown_apart([fit, fit.replace("0.1", "0.5")])
        ['optimizer.lr=0.1', 'optimizer.lr=0.5']
        >>> shown_apart(["SGD(lr=0.1)", "SGD(lr=0.5)"])
        ['SGD(lr=0.1)', 'SGD(lr=0.5)']
    """
    if max(map(len, texts)) <= LONG:
        return [*texts]
    other = next(number for number, text in enumerate(texts) if text != texts[0])
    trees = [_read(text) for text in texts]
    one, another = trees[0], trees[other]
    if one is not None and another is not None and (path := _first_path(one, another)):
        texts = [text if tree is None else _entry(tree, path) for text, tree in zip(texts, trees, strict=True)]
    pairs = enumerate(zip(texts[0], texts[other], strict=False))
    start = next((at for at, (mine, its) in pairs if mine != its), min(map(len, texts))) - BEFORE
    if start > 0 and max(map(len, texts)) > SHOWN:
        texts = ["…" + text[start:] for text in texts]
    return [text if len(text) <= SHOWN else text[:SHOWN] + "…" for text in texts]


def _read(text: str) -> ast.expr | None:
    """Return a value's text as an expression; None if it is none."""
    try:
        with _READING:
            return ast.parse(re.sub(r"<[^<>]+>", lambda found: repr(found[0]), text), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None


def _parts(tree: ast.expr) -> tuple[object, dict[str | int, ast.expr]]:
    """Return what kind of value an expression is, and its settings or entries by name or place."""
    if isinstance(tree, ast.Call):
        named = {one.arg: one.value for one in tree.keywords if one.arg is not None}
        placed: dict[str | int, ast.expr] = dict(enumerate(tree.args))
        return ast.unparse(tree.func), placed | named
    if isinstance(tree, ast.Dict) and None not in tree.keys:
        return dict, {f"{ast.unparse(key)}: ": value for key, value in zip(tree.keys, tree.values, strict=True) if key}
    if isinstance(tree, ast.List | ast.Tuple) and any(isinstance(one, ast.Call | ast.Dict) for one in tree.elts):
        return type(tree), dict(enumerate(tree.elts))
    return tree, {}


def _first_path(one: ast.expr, other: ast.expr) -> Path:
    """Return the way to the first entry in which two values differ; none if they differ as a whole."""
    (kind, parts), (other_kind, others) = _parts(one), _parts(other)
    if kind != other_kind:
        return ()
    for name in dict.fromkeys([*parts, *others]):
        if name not in parts or name not in others:
            return (name,)
        if ast.dump(parts[name]) != ast.dump(others[name]):
            return (name, *_first_path(parts[name], others[name]))
    return ()


def _entry(tree: ast.expr, path: Path) -> str:
    """Return the entry at the end of a path, with its name; an entry that is not there is said to be missing."""
    *way, last = path
    for name in way:
        parts = _parts(tree)[1]
        if name not in parts:
            return ast.unparse(tree)
        tree = parts[name]
    settings = ".".join(name for name in way if isinstance(name, str) and not name.endswith(": "))
    parts = _parts(tree)[1]
    if last not in parts and isinstance(last, str):
        return f"no {last.removesuffix(': ')}"
    value = ast.unparse(parts[last]) if last in parts else "nothing more"
    if isinstance(last, int):
        return f"{settings}={value}" if settings else value
    if last.endswith(": "):
        return f"{last}{value}"
    return f"{settings}{'.' if settings else ''}{last}={value}"
