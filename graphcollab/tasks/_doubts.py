"""What a table hardly means: dates and identifiers as categories, and two spellings of one name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np

from graphcollab.checks import warn
from graphcollab.tasks._columns import dates, looks_like_numbers

__all__ = ["refuse_no_categories", "warn_of_spellings"]

_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})([T ].*)?")
_FEW = 10  # different values that may be categories however few rows there are


def refuse_no_categories(name: str, values: np.ndarray, at: Callable[[int], str], cure: str) -> None:
    """Refuse a column of text [N] whose values are hardly categories: mostly dates or numbers, or nearly all different.

    A ValueError names the column, a row by ``at``, and the ``cure`` if they are categories after all.
    """
    known = [k for k, one in enumerate(values.tolist()) if one is not None]
    days = [k for k in known if _DATE.fullmatch(values[k])]
    if known and 2 * len(days) > len(known):
        raise ValueError(f"{dates(name, f'{at(days[0])} has {values[days[0]]!r}')}; {cure}")
    odd = looks_like_numbers(values)
    if odd is not None:
        raise ValueError(
            f"{at(odd)} has {values[odd]!r} in column {name!r}, which otherwise looks like numbers: correct it, or "
            f"leave it empty where unknown; {cure}"
        )
    different = len(set(values[known].tolist()))
    if different > _FEW and 2 * different > len(known):
        raise ValueError(
            f"column {name!r} has {different} different values in {len(known)} rows, such as {values[known[0]]!r}, as "
            f"where it names single rows: leave it out by columns=[...], or group its values first; {cure}"
        )


def warn_of_spellings(what: str, names: Iterable[str]) -> None:
    """Warn of names that differ only by case or spaces, and are told apart all the same."""
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(" ".join(name.split()).casefold(), name)
        if other != name:
            warn(
                f"{what} has both {other!r} and {name!r}, which are told apart: if they are the same, write them alike",
                UserWarning,
            )
            return
