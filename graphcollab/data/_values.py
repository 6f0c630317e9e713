"""Values of a column: numbers (bool, int64, or float64 with NaN where missing), or text (objects, None where missing).

Spaces around text are ignored. Text that contains only true and false is bool, and some words mean a missing value
(`MISSING`), in frames as well as in files.
"""

from __future__ import annotations

import datetime
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from graphcollab._base.errors import AmbiguousError, MismatchError, RangeError, UnsupportedError
from graphcollab._base.naming import setting

LARGEST = 2**63 - 1  # the largest integer in an int64 column
LARGEST_FLOAT = 1e30
"""The largest number of a column: it fits into float32, and its square into float64, with room for sums."""
DROP = "drop the row where it is unknown"  # advice for an unknown target
LACKING = "leave it empty where unknown"  # advice for an unknown input
NOTHING = "no values"  # kind of a column that is empty at a site; compatible with every other kind
MISSING = {"", "?", ".", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "None", "NULL", "null"}
"""Text that means a missing value, whatever its source."""
TRUTHS = {word: word.lower() == "true" for one in ("true", "false") for word in (one, one.title(), one.upper())}
"""Words for true and false, if a column contains no other words."""
_NUMBERS, _DAYS = Real | np.bool_ | Decimal, datetime.date | datetime.time | datetime.timedelta
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE)
_UNITS = r"EUR|USD|GBP|[kmµu]?g|lb|[mdc]?l|[kcm]?m|(sq ?)?ft|h|min|m?s|years?|days?|mmHg|bpm|[mµu]?g/[md]?l|[mµu]mol/l"
_LIKE_NUMBER = re.compile(  # units of letters need a space: "30s" may be people in their thirties
    rf"[+−-]?[€$£]?(\d[\d.,'\s]*|\.\d+)(e[+-]?\d+)?(\s*([%‰€$£]|°[CF]?)|(?<=\s)({_UNITS}))?", re.IGNORECASE
)
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})([T ].*)?")
_FEW = 10  # up to so many distinct values may be categories, however few rows there are


def is_number(cell: str) -> bool:
    """Return whether text is a number, possibly infinite; `float` also accepts unintended ones such as "1_0"."""
    return _NUMBER.fullmatch(cell) is not None


def is_finite(text: str) -> bool:
    """Return whether text is a finite number."""
    return is_number(text) and bool(np.isfinite(float(text)))


def is_missing(value: Any) -> bool:
    """Return whether an object represents a missing value."""
    if isinstance(value, str):
        return value.strip() in MISSING
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def without(name: str) -> str:
    """Return the advice to exclude a column."""
    return f"leave it out by {setting(leave_out=[name])}"


def dates(what: str, lengths: bool = False) -> str:
    """Return the message for a column of dates or durations, with advice."""
    kind, since = ("lengths of time", "") if lengths else ("dates", " since the first")
    return f"holds {kind} ({what}): make them numbers, such as days{since}"


def kind_of(values: np.ndarray, categorical: bool = False) -> str:
    """Return the kind of a column's values for comparison across sites, or that it is declared categorical."""
    if categorical:
        return "categories"
    if values.dtype.kind == "O":
        return NOTHING if all(one is None for one in values.tolist()) else "text"
    return NOTHING if bool(np.isnan(values).all()) else "numbers"


def lacks(values: np.ndarray) -> np.ndarray:
    """Return a mask of missing values in a column, [N]."""
    return values == None if values.dtype.kind == "O" else np.isnan(values)  # noqa: E711  elementwise


def objects(values: Iterable[Any]) -> np.ndarray:
    """Return an object array with one entry per value; NumPy would convert numbers among text to text."""
    values = list(values)
    return np.fromiter(values, object, len(values))


def clean(name: str, values: pd.Series) -> np.ndarray:
    """Convert a column of cells to numbers or text."""
    if values.dtype.kind in "biuf":
        whole = values.dtype.kind != "f" and not values.isna().any()
        exact = np.bool_ if values.dtype.kind == "b" else np.int64
        fits = whole and bool((values <= LARGEST).all())
        return values.to_numpy(exact if fits else np.float64, na_value=np.nan)
    given = values.astype(object).tolist()  # iterating over Arrow's text is slow
    cells = objects(None if is_missing(one) else one.strip() if isinstance(one, str) else one for one in given)
    if isinstance(values.dtype, pd.CategoricalDtype):  # such as intervals of `pandas.cut`
        cells = objects(one if one is None or isinstance(one, str | _NUMBERS) else str(one) for one in cells)
    known = ~lacks(cells)
    text, number = (np.array([isinstance(one, kind) for one in cells], bool) for kind in (str, _NUMBERS))
    if text.any() and {*cells[text]} <= TRUTHS.keys() and (text | number)[known].all() and {*cells[number]} <= {0, 1}:
        cells[text] = [TRUTHS[one] for one in cells[text]]
        text, number = text & False, text | number
    if text[known].all() and (text.any() or any(isinstance(one, str) for one in given)):
        return cells
    if not number[known].all():
        _refuse_mixed(name, values, known & ~text & ~number, number)
    return _to_numbers(name, cells, values.index)


def _to_numbers(name: str, cells: np.ndarray, rows: pd.Index) -> np.ndarray:
    kinds = set(map(type, cells))
    if kinds and kinds <= {bool, np.bool_}:
        return cells.astype(bool)
    whole = kinds and all(issubclass(kind, Integral | np.bool_) for kind in kinds)
    exact = whole and all(abs(int(one)) <= LARGEST for one in cells)
    try:
        return cells.astype(np.int64 if exact else np.float64)
    except OverflowError as error:
        row = next(k for k, one in enumerate(cells) if abs(one) > sys.float_info.max)
        raise RangeError(
            f"column {name!r}", f"{_row(rows[row])} of column {name!r} holds a number that is too large to compute with"
        ) from error


def _refuse_mixed(name: str, values: pd.Series, other: np.ndarray, number: np.ndarray) -> NoReturn:
    """Reject a column of numbers and text, or with values that are neither."""
    cells, rows, subject = objects(values), [*map(_row, values.index)], f"column {name!r}"
    day = next((one for one in cells[other] if isinstance(one, _DAYS)), None)
    if day is not None:
        raise UnsupportedError(subject, f"{subject} {dates(f'such as {day}', isinstance(day, datetime.timedelta))}")
    words = [k for k, one in enumerate(cells) if isinstance(one, str)]
    digits = [k for k in words if is_number(cells[k].strip())]
    if digits and number.any():  # usually caused by a word in one of several files
        odd = sorted({*words} - {*digits}, key=lambda k: (is_missing(cells[k]), k))[:1]
        by = "".join(f", here by {cells[k]!r} in {rows[k]}" for k in odd)
        read = "".join(f", or read the files with na_values={[cells[k]]!r}" for k in odd)
        first = int(number.argmax())
        raise AmbiguousError(
            subject,
            f"{rows[digits[0]]} of {subject} holds the text {cells[digits[0]]!r}, and {rows[first]} the number "
            f"{cells[first]!r}, as where several files are read and the numbers of some become text{by}: make all of "
            f"them numbers, in pandas by pd.to_numeric(frame[{name!r}], errors='coerce'){read}, or make all of them "
            "text if they are categories",
        )
    plain = [k for k, one in enumerate(cells) if not is_missing(one) and not other[k]]
    beside = "".join(f", and other rows hold such as {cells[k]!r}" for k in plain[:1])
    k = int(other.argmax()) if other.any() else next(k for k in plain if number[k] != number[plain[0]])
    raise MismatchError(subject, f"{rows[k]} of {subject} holds {cells[k]!r}{beside}: make it numbers or text")


def _row(label: Any) -> str:
    """Describe a row by its label in the index of a table."""
    return f"site {label[0]!r}: row {label[1]}" if isinstance(label, tuple) else f"row {label}"


def factorized(values: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the distinct values as text, numbers first, by value, and the index of every row's, -1 if missing."""
    if values.dtype.kind == "O":
        known = sorted_names({one for one in values.tolist() if one is not None})
        place: dict[str | None, int] = {None: -1, **dict(zip(known, range(len(known)), strict=True))}
        return tuple(known), np.fromiter(map(place.__getitem__, values.tolist()), np.int64, len(values))
    found, codes = np.unique(values, return_inverse=True)
    present = found[~np.isnan(found)]
    codes = np.where(codes < len(present), codes, -1)
    return tuple(str(int(one)) if float(one).is_integer() else repr(float(one)) for one in present.tolist()), codes


def sorted_names(names: Iterable[str]) -> list[str]:
    """Sort text, with numbers first, by value."""

    def by_size(text: str) -> tuple[bool, float, str]:
        number = is_number(text) and float(text) == float(text)
        return not number, float(text) if number else 0.0, text

    return sorted(names, key=by_size)


def as_text(values: np.ndarray) -> np.ndarray:
    """Convert a column to text."""
    names, codes = factorized(values)
    return objects([*names, None])[codes]


def as_number(text: str) -> str:
    """Format numeric text as a column of numbers would, "2" for "2.0" and for "02"."""
    return factorized(np.array([float(text)]))[0][0] if is_finite(text) else text


def numbers_of(
    name: str, values: np.ndarray, at: Callable[[int], str] = "row {}".format, lacking: str = LACKING
) -> np.ndarray:
    """Convert a column to float64; an error names the first text, infinite or too large value, formatted by ``at``."""
    subject = f"column {name!r}"
    if values.dtype.kind == "O":
        known = [k for k, one in enumerate(values.tolist()) if one is not None]
        if known:
            row = next((k for k in known if not is_number(values[k])), known[0])
            cure = "make the column numbers, without quotes" if is_number(values[row]) else f"correct it, or {lacking}"
            raise AmbiguousError(
                subject, f"{at(row)} has the text {values[row]!r} in {subject}, where numbers are needed: {cure}"
            )
        return np.full(len(values), np.nan)
    out = values.astype(np.float64)
    bad = (np.abs(out) > LARGEST_FLOAT).nonzero()[0]
    if len(bad):
        value = float(out[bad[0]])
        said = "infinity" if np.isinf(value) else f"{value:g}, which is too large to compute with,"
        raise RangeError(subject, f"{at(int(bad[0]))} has {said} in {subject}: correct it, or {lacking}")
    return out


def refuse_no_categories(
    name: str, values: np.ndarray, at: Callable[[int], str], cure: str, target: bool = False, declared: bool = False
) -> None:
    """Reject text [N] that hardly is categorical: mostly dates, or numbers if not ``declared``, or all distinct."""
    rows = Counter(values.tolist())
    rows.pop(None, None)
    known, subject = rows.total(), f"column {name!r}"
    leave = "" if target else f"{without(name)}, or "
    days = {word for word in rows if _DATE.fullmatch(word)}
    if known and 2 * sum(rows[word] for word in days) > known:
        first = next(k for k, one in enumerate(values.tolist()) if one in days)
        told = dates(f"{at(first)} has {values[first]!r}")
        raise UnsupportedError(subject, f"{subject} {told}; {leave}{cure}")
    odd = None if declared else _odd_number(values, rows)
    if odd is not None:
        lacking = DROP if target else LACKING
        raise AmbiguousError(
            subject,
            f"{at(odd)} has {values[odd]!r} in {subject}, which looks like a column of numbers: write numbers with a "
            f"point and without units, quotes and separators of thousands, or {lacking}; {cure}",
        )
    if len(rows) > _FEW and 2 * len(rows) > known:
        raise AmbiguousError(
            subject,
            f"{subject} has {len(rows)} different values in {known} rows, such as {next(iter(rows))!r}, as where it "
            f"names single rows: {leave}group its values first; {cure}",
        )


def _odd_number(values: np.ndarray, rows: Counter[str]) -> int | None:
    """Return a row that prevents a text column from being numeric, if most rows, or all but two words, look numeric."""
    text = {word for word in rows if not is_number(word)}
    odd = {word for word in text if not _LIKE_NUMBER.fullmatch(word)}
    numbers = rows.keys() - odd
    least = 3 if any(set(".,") & set(word) for word in numbers) else _FEW
    most = 2 * sum(rows[word] for word in odd) < rows.total()
    if not most and not (len(odd) <= 2 and len(numbers) >= least):
        return None
    named = odd or text or {word for word in rows if "." in word} or rows.keys()
    return next((k for k, one in enumerate(values.tolist()) if one in named), None)
