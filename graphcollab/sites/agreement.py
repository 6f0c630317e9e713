"""Validation of received statistics of the sites' samples, and of facts that must agree at all sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from graphcollab._base.checks import issue
from graphcollab._base.errors import (
    DuplicateError,
    EmptyError,
    InvalidValueError,
    MismatchError,
    TooManyError,
    VersionError,
)
from graphcollab._base.naming import few
from graphcollab.data._values import LARGEST_FLOAT, without
from graphcollab.data.statistics import common_kind, differing

FEW = 6  # sums of fewer values are not disclosed: those of five whole numbers can have a unique solution
_MOST_ROWS, _MOST_CLASSES = 10**7, 10**6  # per site; 8 bytes are allocated per row, and one per class
_MOST_NAMES, _LONGEST = 1000, 1000  # per column; characters of each
_FAR = 100  # a column this many deviations away, or this many times larger or smaller, has another unit


@dataclass(frozen=True)
class Received:
    """One value per site, in the order of ``sites``; ``rows`` [K] are the row counts that sites report."""

    sites: Sequence[str]
    values: Sequence[Mapping[str, Any]]
    rows: Sequence[int]

    def counts(self, part: str, name: str = "", most: Sequence[int] | None = None) -> np.ndarray:
        """Return whole numbers [K] from 0 to ``most``, by default a fixed bound that limits memory."""
        most = [_MOST_ROWS] * len(self.sites) if most is None else most
        for site, value, bound in zip(self.sites, self._values(part, name), most, strict=True):
            if type(value) is not int or not 0 <= value <= bound:
                _refuse(site, value, part, name, f"a whole number from 0 to {bound} is due")
        return np.array(self._values(part, name), np.int64)

    def sums(self, part: str, name: str, known: np.ndarray) -> np.ndarray:
        """Return sums [K] over ``known`` values each; 0 for fewer than `FEW`, whose sums are never disclosed."""
        low, high = (-LARGEST_FLOAT, LARGEST_FLOAT) if part == "sums" else (0.0, (2 * LARGEST_FLOAT) ** 2)
        for site, value, many in zip(self.sites, self._values(part, name), known.tolist(), strict=True):
            if many < FEW and value is not None:
                _refuse(site, value, part, name, f"of fewer than {FEW} values no sums are told")
            if many >= FEW and not (type(value) is float and many * low <= value <= many * high):
                _refuse(site, value, part, name, f"of {many} values it is from {many * low:g} to {many * high:g}")
        return np.array([value or 0.0 for value in self._values(part, name)])

    def words(self, name: str) -> list[list[str]]:
        """Return the distinct words in a column at every site, [K] lists."""
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
        """Return a mask of the classes at every site, [K, C]."""
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
        """Warn of sites whose values differ greatly in scale from most sites, or, of two, from ``here``; all [K]."""
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
                "false, and all sites' values are standardized by it; ask that site, or leave the column out",
            )

    def _values(self, part: str, name: str) -> list[Any]:
        return [one.get(part) if not name else one[part].get(name) for one in self.values]


def require_facts(sites: Sequence[str], told: Sequence[Mapping[str, Any]], own: Mapping[str, Any]) -> None:
    """Check that the facts of all sites are plausible: of the same kinds as ``own``, and within the row limit."""
    require_parts(sites, told, own)
    Received(sites, told, ()).counts("rows")
    for site, facts in zip(sites, told, strict=True):
        for part, value in facts.items():
            inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            if not all(isinstance(one, str | int) for one in inner):
                _refuse(site, value, part, "", "names or whole numbers are due")


def require_parts(sites: Sequence[str], told: Sequence[Mapping[str, Any]], own: Mapping[str, Any]) -> None:
    """Check that the values of all sites have the parts of ``own``, of the same kinds."""
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


_ALIKE = {
    "inputs": "inputs of different shapes, {}: bring them to one shape first",
    "input_type": "inputs of different types, {}: make them the same",
    "targets": "targets of different shapes, {}: bring them to one shape first",
    "target_type": "targets of different types, {}: make them class labels (whole numbers) at all sites, or amounts",
    "target": "targets of different kinds, {}: make them the same at all sites",
    "classes": "different classes=, {}: name the same ones in the same order at all of them",
    "tokenizer": "different tokenizers, with the checksums {}: give the same one at all of them",
    "weighted": "weights at some only, {}: give weights at all sites, such as ones, or at none",
}
"""Messages about facts that differ."""

_KINDS = {"site": (str, int), "of": (str,), "settings": (dict,), "failed": (str, type(None))}
"""Types of the entries that every site sends about itself."""

Readers = Sequence[Mapping[str, Any]]


def require_agreed(told: Readers, own: Mapping[str, Any]) -> None:
    """Check the first value of every site; a ValueError, identical at all sites, names them and the difference."""
    if not all(isinstance(one, Mapping) for one in told):
        raise MismatchError("sites", "a site tells something that is no description of its samples")
    if which := _differing(told, [one.get("version") for one in told]):
        raise VersionError(
            "graphcollab", f"sites have different versions of graphcollab, {which}: install the same one at all of them"
        )
    for one in told:
        if any(type(one.get(part)) not in kinds for part, kinds in _KINDS.items()):
            raise MismatchError(
                f"site {one.get('site')!r}",
                f"site {one.get('site')!r} tells something that is no description of its samples",
            )
    names = [str(one["site"]) for one in told]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DuplicateError(
            f"site {twice!r}", f"two sites are called {twice!r}: names tell sites apart and must differ"
        )
    if which := _differing(told, [one["of"] for one in told]):
        raise MismatchError("data", f"sites give different kinds of data, {which}: give the same kind at all of them")
    _require_same_settings(told)
    require_done(told, names)
    require_parts(names, told, {"facts": {}})
    require_facts(names, [one["facts"] for one in told], own)
    empty = [one["site"] for one in told if not one["facts"]["rows"]]
    if empty:
        have = "site {} has" if len(empty) == 1 else "sites {} have"
        message = f"{have.format(few([*map(repr, empty)]))} no rows: leave such sites out"
        raise EmptyError(f"site {empty[0]!r}", message)
    facts: list[Mapping[str, Any]] = [one["facts"] for one in told]
    if "columns" in facts[0]:
        _require_columns(told)
        for name in facts[0]["columns"]:
            common_kind(name, [(one["site"], one["facts"]["columns"][name]) for one in told])
    for name, words in _ALIKE.items():
        if which := _differing(told, [one.get(name) for one in facts]):
            raise MismatchError(name, f"sites have {words.format(which)}")


def require_done(told: Readers, names: Sequence[str]) -> None:
    """Check that no site has failed; a ValueError names the first that has. Its own message stays at that site."""
    for name, one in zip(names, told, strict=True):
        if one["failed"] is not None:
            raise InvalidValueError(f"site {name!r}", f"site {name!r} {one['failed']}; its message stays there")


def _require_same_settings(told: Readers) -> None:
    settings = [one["settings"] for one in told]
    names = dict.fromkeys(name for one in settings for name in one)
    differing = {name: _differing(told, [one.get(name) for one in settings]) for name in names}
    said = [f"{name}= is {which}" for name, which in differing.items() if which]
    if said:
        raise MismatchError("settings", f"sites have different settings: {few(said)}. Give the same at all of them")


def _require_columns(told: Readers) -> None:
    columns = {one["site"]: one["facts"]["columns"] for one in told}
    names = dict.fromkeys(name for known in columns.values() for name in known)
    every = {name: [site for site, known in columns.items() if name in known] for name in names}
    partly = {name: have for name, have in every.items() if len(have) < len(columns)}
    for name, have in partly.items():
        lack = [site for site in columns if site not in have]
        instead = [repr(other) for other, where in partly.items() if sorted(where) == sorted(lack)]
        renamed = f", where there is {few(instead)} instead: if they are the same, rename one; else" if instead else ":"
        raise MismatchError(
            f"column {name!r}",
            f"column {name!r} is at {few([*map(repr, have)])} and not at {few([*map(repr, lack)])}{renamed} add it "
            f"there, with missing values where nothing is known, or {without(name)} where it is",
        )


def _differing(told: Readers, values: Sequence[Any]) -> str:
    return differing(zip([one.get("site") for one in told], values, strict=True))
