"""Text that hardly holds categories, such as dates and identifiers, and names that look alike."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from graphcollab.errors import AmbiguousError, UnsupportedError
from graphcollab.tasks._values import LACKING, dates, is_number, without

__all__ = ["if_categories", "looks_like_numbers", "plain", "refuse_no_categories", "spelled_alike", "visibly"]

_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})([T ].*)?")
_GROUPED = r"\d{1,3}(?:[.,' \u00a0\u202f]\d{3})+|\d+"  # digits, also in groups of three
_SPACES = "[ \u00a0\u202f]"
_SYMBOLS = f"{_SPACES}*(?:[%‰€$£]|°[CF]?)"
_UNITS = (  # after a space: "30s" may be people in their thirties
    f"{_SPACES}+(?:EUR|USD|GBP|[kmµu]?g|[mdc]?l|[kcm]?m|h|min|m?s|years?|days?|mmHg|bpm|[mµu]?g/[md]?l|[mµu]mol/l)"
)
_LIKE_NUMBER = re.compile(rf"[+−-]?(?:{_GROUPED})(?:[.,]\d+)?(?:{_SYMBOLS}|{_UNITS})?", re.ASCII | re.IGNORECASE)
_WITH_COMMA = re.compile(r"[+−-]?\d+,\d+", re.ASCII)
_LONE, _DECIMAL, _WHOLE = 2, 3, 10  # words beside numbers, and different numbers: with decimals, and at all
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
    rows = Counter(values.tolist())
    rows.pop(None, None)
    known, days = rows.total(), {word for word in rows if _DATE.fullmatch(word)}
    if known and 2 * sum(rows[word] for word in days) > known:
        first = _first(values, days)
        told = f"column {name!r} {dates(f'{at(first)} has {values[first]!r}')}"
        told += f", or {without(name)}" * (lacking == LACKING)
        raise UnsupportedError(f"column {name!r}", f"{told}; {cure}")
    odd = None if declared else looks_like_numbers(values)
    if odd is not None:
        if is_number(values[odd]):  # so are all
            raise AmbiguousError(
                f"column {name!r}",
                f"column {name!r} holds numbers as text, such as {values[odd]!r} ({at(odd)}): make it numbers (in "
                f"pandas by pandas.to_numeric, in a CSV file without leading zeros); {cure}",
            )
        raise AmbiguousError(
            f"column {name!r}",
            f"{at(odd)} has {values[odd]!r} in column {name!r}, which otherwise looks like numbers: "
            f"{_correct(values[odd])}, or {lacking}; {cure}",
        )
    if len(rows) > _FEW and 2 * len(rows) > known:
        lone = f"{without(name)}, or " if lacking == LACKING else ""
        raise AmbiguousError(
            f"column {name!r}",
            f"column {name!r} has {len(rows)} different values in {known} rows, such as {next(iter(rows))!r}, as "
            f"where it names single rows: {lone}group its values first; {cure}",
        )


def if_categories(name: str) -> str:
    """Return the advice for a column whose values are categories after all."""
    return f"if they are categories, name it in categorical=[{name!r}]"


def looks_like_numbers(values: np.ndarray) -> int | None:
    """Return the row that keeps a column of text from being numbers, if most of its values look like some.

    So do those with units, and with separators of thousands: "12 %", "1.234,5". One or two words beside many different
    numbers may be in most rows. A row with a word comes before those with numbers in need of another spelling.
    """
    rows = Counter(values.tolist())
    rows.pop(None, None)
    text = {word for word in rows if not is_number(word)}
    odd = {word for word in text if not _LIKE_NUMBER.fullmatch(word)}
    numbers = rows.keys() - odd
    many = _DECIMAL if any(set(".,") & set(word) for word in numbers) else _WHOLE
    lone = len(odd) <= _LONE and len(numbers) >= many
    most = 2 * sum(rows[word] for word in odd) < rows.total()
    return _first(values, odd or text or set(rows)) if rows and (most or lone) else None


def _correct(word: str) -> str:
    """Say how to write a word in a column of numbers."""
    if _WITH_COMMA.fullmatch(word):
        return "write decimals with a point, or read the file with decimal commas, in pandas by decimal=','"
    if word.startswith("−"):
        return "write the minus of numbers as a hyphen, '-'"
    return "write numbers without units and separators of thousands" if _LIKE_NUMBER.fullmatch(word) else "correct it"


def _first(values: np.ndarray, words: Collection[str]) -> int:
    """Return the first row of a column that has one of the words."""
    return next(k for k, one in enumerate(values.tolist()) if one in words)


def spelled_alike(names: Iterable[str]) -> list[str]:
    """Return which names differ only by case, spaces or signs that nobody sees, as text."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(plain(name), []).append(name)
    return [" and ".join(visibly(same)) for same in alike.values() if len(same) > 1]


def plain(name: str) -> str:
    """Return what names have in common that differ only by case or spaces, or in codes of the same letters."""
    return " ".join(_seen(name).split()).casefold()


def visibly(names: Sequence[str]) -> list[str]:
    """Quote names, with codes for letters where they look alike."""
    alike = len({*map(_seen, names)}) < len(names)
    return [ascii(name) if alike else repr(name) for name in names]


def _seen(name: str) -> str:
    """Return a name in composed letters, without what takes no space."""
    if name.isascii():
        return name
    return unicodedata.normalize("NFC", "".join(one for one in name if unicodedata.category(one) != "Cf"))
