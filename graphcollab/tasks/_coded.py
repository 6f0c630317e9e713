"""Numbers that hardly mean what they say: codes for what is not known, and whether an event was seen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from graphcollab.checks import issue
from graphcollab.naming import few
from graphcollab.tasks._values import is_number

__all__ = ["warn_of_codes", "warn_of_target"]

_CODES = (
    *(-9.0, 77.0, 88.0, 777.0, 888.0, 7777.0, 8888.0),
    *(sign * (10.0**digits - 1) for digits in range(2, 8) for sign in (-1, 1)),
)
_OFTEN, _OTHERS = 3, 10  # rows with such a number, and with others
_DIFFERENT, _FROM_ZERO = 20, 0.25  # values beside the 0 of a site; the least, in medians
_EVENT = re.compile(
    r"((os|pfs|dfs|rfs|surv(ival)?|vital|cens(or)?|event|death)[_ .-]?)?"
    r"(status|event|cens(or(ed|ing)?)?|death|dead|died|delta)",
    re.IGNORECASE,
)
_UNTIL = re.compile(
    r"((os|pfs|dfs|rfs|surv(ival)?|event|fu|follow[_ .-]?up)[_ .-]?)?time"
    r"|(os|pfs|dfs|rfs|surv(ival)?|fu|follow[_ .-]?up)[_ .-]?(days|weeks|months|years)|time[_ .-]?to[_ .-]?\\w+",
    re.IGNORECASE,
)


def warn_of_codes(columns: Mapping[str, tuple[np.ndarray, np.ndarray]], sites: Sequence[str]) -> None:
    """Warn of columns of which some numbers seem to say that nothing is known, given their values and sites [n]."""
    found = [f"column {name!r} has {said}" for name, (values, _) in columns.items() for said in _nines(values, _CODES)]
    found += [
        f"column {name!r} has 0 in all rows of {which}"
        for name, (values, owner) in columns.items()
        if (which := _zeros(values, owner, sites))
    ]
    if found:
        issue(
            "quality",
            "columns",
            f"{few(found)}, far from all other values there, as where a number says that nothing is known: leave such "
            "cells empty if so",
        )


def warn_of_target(target: str, values: np.ndarray, read: Mapping[str, np.ndarray]) -> None:
    """Warn of targets [N] that say that nothing is known, or whether an event was seen until a time that was read."""
    numbers, codes = values, (9.0, *_CODES)
    if values.dtype.kind == "O":  # words stand for 0 and 1
        place = {one: float(one) if is_number(one) else k % 2 for k, one in enumerate(sorted({*values.tolist()}))}
        numbers = np.array([place[one] for one in values.tolist()], np.float64)
    found = _nines(numbers, codes)
    if found:
        issue(
            "quality",
            f"column {target!r}",
            f"the target {target!r} has {few(found)}, far from all other values, as where a number says that nothing "
            "is known: drop such rows if so",
        )
    until = next((name for name, column in read.items() if _UNTIL.fullmatch(name) and column.dtype.kind in "if"), None)
    if _EVENT.fullmatch(target) and until is not None and len(np.unique(values.astype(str))) == 2:
        issue(
            "quality",
            f"column {target!r}",
            f"the target {target!r} seems to say whether an event was seen until {until!r}: rows that were censored "
            f"before it count as a class like any other, and {until!r} is used as an input. Survival times are not "
            "modelled here: predict what is known of all rows, such as who had it within a year",
        )


def _nines(values: np.ndarray, codes: Sequence[float]) -> list[str]:
    """Say which of some numbers are in how many rows, far from all others: farther than these are from each other."""
    if not len(values) or not (values.min() in codes or values.max() in codes):
        return []
    coded = np.isin(values, codes)
    others = values[~coded]
    if len(others) < _OTHERS or not (span := np.ptp(others)) > 0:
        return []
    return [
        f"{code:.0f} in {count} rows"
        for code, count in zip(*np.unique(values[coded], return_counts=True), strict=True)
        if count >= _OFTEN and max(code - others.max(), others.min() - code) > span
    ]


def _zeros(values: np.ndarray, owner: np.ndarray, sites: Sequence[str]) -> str:
    """Name the sites whose values [n] are all 0, from which all others lie far."""
    zero = values == 0
    if not zero.any():
        return ""
    rows, zeros = np.bincount(owner, minlength=len(sites)), np.bincount(owner[zero], minlength=len(sites))
    empty = ((zeros == rows) & (rows >= _OTHERS)).nonzero()[0].tolist()
    others = np.sort(np.abs(values[~zero]))
    apart = len(others) and (values.min() >= 0 or values.max() <= 0)
    if not (empty and apart and others[0] > _FROM_ZERO * np.median(others) and len(np.unique(others)) >= _DIFFERENT):
        return ""
    return f"site{'s' * (len(empty) > 1)} {few([repr(sites[k]) for k in empty])}"
