"""What a table hardly means: dates and identifiers as categories, and two spellings of one name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np

from graphcollab.checks import warn
from graphcollab.tasks._columns import dates
from graphcollab.tasks._csv import is_number, without

__all__ = ["LACKING", "looks_like_numbers", "plain", "refuse_no_categories", "warn_of_numbering", "warn_of_spellings"]

LACKING = "leave it empty where unknown"
"""What to do with an input that is not known."""
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})([T ].*)?")
_GROUPED = r"\d{1,3}(?:[.,' \u00a0\u202f]\d{3})+|\d+"  # digits, also in groups of three
_SPACES = "[ \u00a0\u202f]"
_SYMBOLS = f"{_SPACES}*(?:[%‰€$£]|°[CF]?)"
_UNITS = (  # after a space: "30s" may be people in their thirties
    f"{_SPACES}+(?:EUR|USD|GBP|[kmµu]?g|[mdc]?l|[kcm]?m|h|min|m?s|years?|days?|mmHg|bpm|[mµu]?g/[md]?l|[mµu]mol/l)"
)
_LIKE_NUMBER = re.compile(rf"[+-]?(?:{_GROUPED})(?:[.,]\d+)?(?:{_SYMBOLS}|{_UNITS})?", re.ASCII | re.IGNORECASE)
_SHOWN = 3
_ID = re.compile(r"(^|[^a-zA-Z])(?i:id)$|[a-z](Id|ID)$")
_MANY = 100  # rows from which on ages are not all different
_FEW = 10  # different values that may be categories however few rows there are


def refuse_no_categories(
    name: str,
    values: np.ndarray,
    at: Callable[[int], str],
    cure: str,
    lacking: str = LACKING,
    declared: bool = False,
) -> None:
    """Refuse a column of text [N] whose values are hardly categories: mostly dates or numbers, or nearly all different.

    A ValueError names the column, a row by ``at``, and the ``cure`` if they are categories after all. Numbers may be
    categories where a frame has ``declared`` them to be.
    """
    known = [k for k, one in enumerate(values.tolist()) if one is not None]
    days = [k for k in known if _DATE.fullmatch(values[k])]
    if known and 2 * len(days) > len(known):
        raise ValueError(f"{dates(name, f'{at(days[0])} has {values[days[0]]!r}')}; {cure}")
    odd = None if declared else looks_like_numbers(values)
    if odd is not None:
        like = _LIKE_NUMBER.fullmatch(values[odd]) and not is_number(values[odd])
        correct = "write numbers without units and separators of thousands" if like else "correct it"
        if is_number(values[odd]):  # so are all
            raise ValueError(
                f"column {name!r} holds numbers as text, such as {values[odd]!r} ({at(odd)}): make it numbers (in "
                f"pandas by pandas.to_numeric, in a CSV file without leading zeros); {cure}"
            )
        raise ValueError(
            f"{at(odd)} has {values[odd]!r} in column {name!r}, which otherwise looks like numbers: {correct}, or "
            f"{lacking}; {cure}"
        )
    different = len(set(values[known].tolist()))
    if different > _FEW and 2 * different > len(known):
        lone = f"{without(name)}, or " if lacking == LACKING else ""
        raise ValueError(
            f"column {name!r} has {different} different values in {len(known)} rows, such as {values[known[0]]!r}, as "
            f"where it names single rows: {lone}group its values first; {cure}"
        )


def looks_like_numbers(values: np.ndarray) -> int | None:
    """Return the row that keeps a column of text from being numbers, if most of its values look like some.

    So do those with units, and with separators of thousands: "12 %", "1.234,5".
    """
    known = [k for k, one in enumerate(values.tolist()) if one is not None]
    text = [k for k in known if not is_number(values[k])]
    odd = [k for k in text if not _LIKE_NUMBER.fullmatch(values[k])]
    return (text or known)[0] if known and 2 * len(odd) < len(known) else None


def warn_of_numbering(name: str, values: np.ndarray, owner: np.ndarray) -> None:
    """Warn of a column of whole numbers [N] that seems to number rows, or those of every site by ``owner`` [N]."""
    if values.dtype.kind == "b" or not np.isfinite(values).all() or (values != np.round(values)).any():
        return
    named = len(values) > _FEW and _ID.search(name) and len(np.unique([owner, values], axis=1).T) == len(values)
    dense = len(values) >= _MANY and np.ptp(values) < 2 * len(values) and len(np.unique(values)) == len(values)
    if named or dense:
        warn(
            f"column {name!r} seems to number the rows, such as {values[0]:.0f} and {values[1]:.0f}, and is used as an "
            f"input: {without(name)} if it says nothing",
            UserWarning,
        )


def warn_of_spellings(what: str, names: Iterable[str]) -> None:
    """Warn of names that differ only by case or spaces, and are told apart all the same."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(plain(name), []).append(name)
    several = [" and ".join(map(repr, same)) for same in alike.values() if len(same) > 1]
    if several:
        more = f", … ({len(several)} in all)" if len(several) > _SHOWN else ""
        warn(
            f"{what} has both {', '.join(several[:_SHOWN])}{more}, which are told apart: if they are the same, write "
            "them alike",
            UserWarning,
        )


def plain(name: str) -> str:
    """Return what names have in common that differ only by case or spaces."""
    return " ".join(name.split()).casefold()
