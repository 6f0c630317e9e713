"""`Received`: what sites share of their samples, checked on arrival; an error names the site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from graphcollab.checks import issue
from graphcollab.errors import InvalidValueError, MismatchError, TooManyError
from graphcollab.tasks._values import LARGEST_FLOAT

FEW = 6
"""Values of which no sums are told if there are fewer: those of five whole numbers can have one solution."""
_MOST_ROWS, _MOST_CLASSES = 10**7, 10**6  # of a site; what is allocated for it is 8 bytes a row, and one a class
_MOST_NAMES, _LONGEST = 1000, 1000  # of a column; letters of each
_FAR = 100  # as many deviations, or as many times larger or smaller, is a column of another unit


@dataclass(frozen=True)
class Received:
    """A value of each site, in the order of ``sites``; ``rows`` [K] are how many each says it has."""

    sites: Sequence[str]
    values: Sequence[Mapping[str, Any]]
    rows: Sequence[int]

    def counts(self, part: str, name: str = "", most: Sequence[int] | None = None) -> np.ndarray:
        """Return whole numbers [K], none below 0 or above ``most``: by default a fixed number, for memory's sake."""
        most = [_MOST_ROWS] * len(self.sites) if most is None else most
        for site, value, bound in zip(self.sites, self._values(part, name), most, strict=True):
            if type(value) is not int or not 0 <= value <= bound:
                _refuse(site, value, part, name, f"a whole number from 0 to {bound} is due")
        return np.array(self._values(part, name), np.int64)

    def sums(self, part: str, name: str, known: np.ndarray) -> np.ndarray:
        """Return sums [K] of as many values as are ``known``, 0 of fewer than `FEW`, of which none are told."""
        low, high = (-LARGEST_FLOAT, LARGEST_FLOAT) if part == "sums" else (0.0, (2 * LARGEST_FLOAT) ** 2)
        for site, value, many in zip(self.sites, self._values(part, name), known.tolist(), strict=True):
            if many < FEW and value is not None:
                _refuse(site, value, part, name, f"of fewer than {FEW} values no sums are told")
            if many >= FEW and not (type(value) is float and many * low <= value <= many * high):
                _refuse(site, value, part, name, f"of {many} values it is from {many * low:g} to {many * high:g}")
        return np.array([value or 0.0 for value in self._values(part, name)])

    def words(self, name: str) -> list[list[str]]:
        """Return the different words that every site has in a column, [K] lists."""
        for site, words, rows in zip(self.sites, self._values("names", name), self.rows, strict=True):
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise MismatchError(
                    f"site {site!r}",
                    f"site {site!r} does not tell the names of categories of {name!r} as a list of words",
                )
            most = min(rows, _MOST_NAMES)
            if len(words) > most or max(map(len, words), default=0) > _LONGEST:
                raise TooManyError(
                    f"site {site!r}",
                    f"site {site!r} tells {len(words)} names of categories of {name!r}, the longest of "
                    f"{max(map(len, words))} letters: at most {most} are due, of up to {_LONGEST} letters",
                )
        return self._values("names", name)

    def classes(self) -> Tensor:
        """Return which classes sites have, [K, C]."""
        labels = self.counts("labels", most=[_MOST_CLASSES] * len(self.sites))
        every = self._values("classes", "")
        for site, known, many in zip(self.sites, every, labels.tolist(), strict=True):
            whole = isinstance(known, list) and all(type(one) is int for one in known)
            if not whole or known != sorted({*known}) or (known and not 0 <= known[0] <= known[-1] < many):
                raise InvalidValueError(
                    f"site {site!r}", f"site {site!r} tells {_short(known)} as its classes, which cannot be"
                )
        out = torch.zeros(len(self.sites), int(labels.max()), dtype=torch.bool)
        for k, known in enumerate(every):
            out[k, torch.tensor(known, dtype=torch.int64)] = True
        return out

    def warn_of_scale(self, name: str, known: np.ndarray, sums: np.ndarray, squares: np.ndarray, here: int) -> None:
        """Warn of sites whose values are of quite another size than most sites', or, of two, than ``here``; [K] all."""
        where = known.nonzero()[0]
        if len(where) < 2:
            return
        mean = sums[where] / known[where]
        spread = np.sqrt(squares[where] / known[where])
        usual = np.arange(len(where)) if len(where) > 2 else np.flatnonzero(where == here)
        if not len(usual):
            return
        middle = np.median(mean[usual])
        width, size = np.median(spread[usual] + np.abs(mean[usual] - middle)), np.hypot(mean, spread)
        far = (np.maximum(np.abs(mean - middle), spread) > _FAR * width) & (width > 0)
        small = (size > 0) & (_FAR * size < np.median(size[usual]))
        for k in (far | small).nonzero()[0].tolist():
            issue(
                "quality",
                f"column {name!r}",
                f"column {name!r} of site {self.sites[where[k]]!r} has mean {mean[k]:g} and deviation {spread[k]:g}, "
                f"where mean {middle:g} and deviation {width:g} are usual: its unit differs, or what it tells is "
                "false, and all sites' values are standardised by it; ask that site, or leave the column out",
            )

    def _values(self, part: str, name: str) -> list[Any]:
        return [one.get(part) if not name else one[part].get(name) for one in self.values]


def require_facts(sites: Sequence[str], told: Sequence[Mapping[str, Any]], own: Mapping[str, Any]) -> None:
    """Check that facts of all sites can be such: of the kinds of the own ones, and of no more rows than fit."""
    require_parts(sites, told, own)
    Received(sites, told, ()).counts("rows")
    for site, facts in zip(sites, told, strict=True):
        for part, value in facts.items():
            inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            if not all(isinstance(one, str | int) for one in inner):
                _refuse(site, value, part, "", "names or whole numbers are due")


def require_parts(sites: Sequence[str], told: Sequence[Mapping[str, Any]], own: Mapping[str, Any]) -> None:
    """Check that what all sites tell has the parts, and their kinds, of what is told here."""
    for site, one in zip(sites, told, strict=True):
        for part, mine in own.items():
            if type(one.get(part)) is not type(mine):
                _refuse(site, one.get(part), part, "", f"it is {_short(mine)} elsewhere")


def _refuse(site: str, value: Any, part: str, name: str, why: str) -> NoReturn:
    of = f" of {name!r}" if name else ""
    raise InvalidValueError(
        f"site {site!r}", f"site {site!r} tells {_short(value)} as {part}{of}, which cannot be: {why}"
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
