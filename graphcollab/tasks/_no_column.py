"""What is said of a column that a table has not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphcollab.naming import close, few

__all__ = ["no_column", "wrong_separator"]

_LONG = 40  # letters of a column's name in a message at most


def no_column(name: str, names: Iterable[str], given: str = "") -> str:
    """Say that there is no column of a name, what the columns are, and by what it was ``given``.

    Example:
        >>> no_column("il", ["site", "ill"], "target='il'")
        "there is no column 'il' (target='il'); did you mean 'ill'? The columns are 'site', 'ill'"
    """
    names, told = list(names), f"there is no column {name!r}{given and f' ({given})'}"
    if misread := wrong_separator(names):
        return f"{told}: {misread}"
    hint = f"; {near}The" if (near := close(name, names)) else ": the"
    return f"{told}{hint} columns are {few([*map(repr, names)])}"


def wrong_separator(names: Sequence[str]) -> str:
    """Say so where a table's only column is named by a whole line of a file; else nothing.

    Example:
        >>> print(wrong_separator(["age;sex"]))
        the table has one column only, 'age;sex', as where a file is read with the wrong separator: read it with \
sep=';', or give the path of the file, for which the separator is found
    """
    separator = next((one for one in "\t;," if len(names) == 1 and one in names[0]), None)
    if separator is None:
        return ""
    only = names[0] if len(names[0]) <= _LONG else f"{names[0][:_LONG]}…"
    return (
        f"the table has one column only, {only!r}, as where a file is read with the wrong separator: read it with "
        f"sep={separator!r}, or give the path of the file, for which the separator is found"
    )
