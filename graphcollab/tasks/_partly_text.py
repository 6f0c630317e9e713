"""What is wrong with a column of which some numbers are text."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from graphcollab.tasks._csv import MISSING, is_number

__all__ = ["partly_text"]

_WORDS = 5  # words in a message at most


def partly_text(name: str, values: Sequence[Any]) -> str:
    """Say why some numbers of a column are text, and what to do: usually a word was among those of one file of several.

    Example:
        >>> print(partly_text("age", [40.0, "51", "?"]))
        row 1 of column 'age' holds the text '51', and row 0 the number 40.0, as where several files are read and the \
numbers of some become text, here by '?' in row 2: make all of them numbers, in pandas by \
pd.to_numeric(frame['age'], errors='coerce'), or read the files with na_values=['?']
    """
    words = {row: one for row, one in enumerate(values) if isinstance(one, str)}
    said = next(row for row, one in words.items() if is_number(one.strip()))
    number = next(row for row, one in enumerate(values) if isinstance(one, Real) and one == one)
    others = {one: row for row, one in reversed(words.items()) if not is_number(one.strip())}
    known = [one for one in others if one.strip() not in MISSING]
    cause = [*known, *others][:1]
    by = f", here by {cause[0]!r} in row {others[cause[0]]}" if cause else ""
    missing = f"in pandas by pd.to_numeric(frame[{name!r}], errors='coerce')"
    missing += f", or read the files with na_values={sorted(others)[:_WORDS]!r}" * bool(others)
    cure = f"make all of them numbers, {missing}"
    if known:
        cure = f"if that says that nothing is known, {cure}; if these are categories, make all of them text"
    return (
        f"row {said} of column {name!r} holds the text {values[said]!r}, and row {number} the number "
        f"{values[number]!r}, as where several files are read and the numbers of some become text{by}: {cure}"
    )
