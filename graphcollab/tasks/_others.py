"""What sites elsewhere say of their samples: `Together`, where there are none, and `Party`, which meets them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import cumsum

from graphcollab._version import __version__
from graphcollab.checks import warn
from graphcollab.naming import few
from graphcollab.tasks._agreed import require_agreed, require_done
from graphcollab.tasks._doubts import warn_of_spellings
from graphcollab.tasks._sites import in_order, name_ids
from graphcollab.tasks._tellable import TellableError
from graphcollab.tasks.preparation import Preparation
from graphcollab.tasks.samples import ELSEWHERE, Split

if TYPE_CHECKING:
    from graphcollab.tasks.tasks import Tasks

__all__ = ["Counts", "Everyone", "Party", "Together", "others_of", "said"]


_FEW = 3  # values whose sums say little of single ones


class Everyone(Protocol):
    """A meeting of sites."""

    def everyone(self, value: Any, /) -> list[Any]:
        """Tell a value of JSON, and return those of all sites, in one order that is the same at all of them."""


@dataclass(frozen=True)
class Counts:
    """What sites tell of their training rows before anything is fitted.

    Args:
        rows: How many there are at every site, [k].
        known: How many have a value, by column, [k] each.
        sums: Sums of these values, by column of numbers, [k] each.
        names: Different values that every site has, by column of categories, [k] lists each.
    """

    rows: np.ndarray
    known: Mapping[str, np.ndarray]
    sums: Mapping[str, np.ndarray]
    names: Mapping[str, Sequence[Sequence[str]]]


class Together:
    """All samples are here, so nobody else is asked."""

    rehearsed = False
    """Whether other sites have samples that nothing is known of."""

    def name_of(self, given: Any, rows: int) -> Any:
        """Return the names of the nodes of all rows, as they were ``given``."""
        return given

    def begin(self, of: str, settings: Mapping[str, Any]) -> None:
        """Begin to make tasks ``of`` some kind of data, with settings that must be those of all sites."""

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Let other sites know, in place of what they wait for, if something fails."""
        yield

    def agree(self, facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Tell facts about the samples here, and return those of all sites."""
        return [{"facts": facts}]

    def add_up(self, own: Counts) -> Counts:
        """Tell what the training rows say that are here, and return what those of all sites say."""
        return own

    def close(self, own: Tasks, squares: Mapping[str, np.ndarray] | None = None) -> Mapping[str, np.ndarray]:
        """Tell how many samples the tasks here have, and of which classes; return sums of squares of all sites.

        Args:
            own: Tasks of the samples here; their inputs may follow from the sums.
            squares: Squared deviations by column, [k] each.
        """
        return squares or {}

    def joined(self, own: Tasks) -> Tasks:
        """Return the tasks of all sites, of which these are here."""
        return own


class Party(Together):
    """A site that keeps its samples and meets others that keep theirs.

    Where a dict by site is taken, a `Party` as its only key stands for the name of a site, and the rows are those of
    this site. What results is what all rows together would give, with those of other sites elsewhere, as `Tasks.share`
    would leave it. At most three values are told, each a dict of JSON with an entry ``"failed"``:

    1. ``"agreement"``: version, name, settings, columns and what kind of values they hold; nothing of single rows.
    2. ``"counts"``: of a table, how many training rows there are and how many values are known, their sums, and the
       names of categories and classes; where every site has means of its own, no sums.
    3. ``"sizes"``: sums of squares, how many samples every split has, and of which classes the training samples are.

    A category that a single row has is told by its name, unless categories were declared.

    Args:
        name: Name of this site, text or a whole number.
        meeting: How it meets the others.
        rehearsed: Whether the others are not there, or have copies of this site's samples.
    """

    def __init__(self, name: object, meeting: Everyone, rehearsed: bool = False) -> None:
        self.name, self.meeting, self.rehearsed = name, meeting, rehearsed
        self._order: list[int] = []
        self._names: tuple[str, ...] = ()
        self._sizes: dict[str, Tensor] = {}
        self._classes: Tensor | None = None
        self._first: dict[str, Any] = {}

    def __str__(self) -> str:
        return str(self.name).strip()

    def name_of(self, given: Any, rows: int) -> Any:
        if not rows:
            raise TellableError("there are no samples")
        return [str(self)] * rows

    def begin(self, of: str, settings: Mapping[str, Any]) -> None:
        name = int(self.name) if isinstance(self.name, int | np.integer) else str(self)
        self._first = {"version": __version__, "site": name, "of": of, "settings": dict(settings)}

    @contextmanager
    def telling(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            why = str(error) if isinstance(error, TellableError) else ""
            try:
                self._meet("failure", {}, why)
            except ValueError as told:
                if not why:
                    told.add_note(f"What is wrong here: {type(error).__name__}: {error}")
                raise told from error

    def agree(self, facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        told = self._meet("agreement", {"facts": dict(facts)})
        warn_of_spellings("the meeting of sites", self._names)
        return told

    def add_up(self, own: Counts) -> Counts:
        with self.telling():
            self._warn_of_bare(own)
        value = {
            "rows": int(own.rows[0]),
            "known": _plain(own.known),
            "sums": _plain(own.sums),
            "names": {name: [*names] for name, (names,) in own.names.items()},
        }
        told = self._meet("counts", value)
        rows = self._numbers(told, "rows", {"": own.rows})[""]
        known, sums = (self._numbers(told, part, getattr(own, part)) for part in ("known", "sums"))
        names = {name: self._words(told, name) for name in own.names}
        return Counts(rows, known, sums, names)

    def close(self, own: Tasks, squares: Mapping[str, np.ndarray] | None = None) -> Mapping[str, np.ndarray]:
        known = None if own.classes is None else own.classes[0]
        value = {
            "squares": _plain(squares or {}),
            "samples": {name: int(split.sizes[0]) for name, split in own.splits.items()},
            "classes": None if known is None else known.nonzero().flatten().tolist(),
            "labels": 0 if known is None else len(known),
        }
        told = self._meet("sizes", value)
        one = np.ones(1, np.int64)
        self._sizes = {
            name: torch.from_numpy(sizes)
            for name, sizes in self._numbers(told, "samples", dict.fromkeys(own.splits, one)).items()
        }
        if known is not None:
            most = int(self._numbers(told, "labels", {"": one})[""].max())
            self._classes = torch.zeros(len(told), most, dtype=torch.bool)
            for k, site in enumerate(told):
                known = site["classes"]
                if not isinstance(known, list) or not set(known) <= {*range(most)}:
                    raise ValueError(f"site {self._names[k]!r} tells {known!r} as its classes, which cannot be")
                self._classes[k, torch.tensor(known, dtype=torch.int64)] = True
        return self._numbers(told, "squares", squares or {})

    def joined(self, own: Tasks) -> Tasks:
        if own.cluster is not None:
            raise ValueError("cluster= cannot be given where sites keep their samples: leave it out")
        place, splits = self._names.index(str(self)), {}
        for name, split in own.splits.items():
            ptr = cumsum(self._sizes[name])
            index = torch.full((int(ptr[-1]),), ELSEWHERE)
            index[ptr[place] : ptr[place + 1]] = split.index
            splits[name] = Split(split.pool, index, ptr)
        return replace(own, splits=splits, names=self._names, node_id=name_ids(self._names), told=self._classes)

    def _warn_of_bare(self, own: Counts) -> None:
        """Warn of sums of so few values that they say nearly what these are."""
        bare = [repr(name) for name in own.sums if 0 < own.known[name][0] < _FEW]
        if bare:
            have = f"columns {few(bare)} have" if len(bare) > 1 else f"column {bare[0]} has"
            warn(
                f"{have} fewer than {_FEW} values in training rows of site {str(self)!r}, so the sums that other sites "
                "are told say nearly what these are: leave such columns out, or give pooled='per_site'",
                UserWarning,
            )

    def _meet(self, about: str, value: Mapping[str, Any], failed: str | None = None) -> list[Mapping[str, Any]]:
        """Tell a value, and return those of all sites, in the order of their names; raise what any has failed by."""
        told = self.meeting.everyone({"about": about, "failed": failed, **self._first, **value})
        if self._first:
            require_agreed(told)
            self._order = in_order([one["site"] for one in told])
            self._names = tuple(str(told[k]["site"]) for k in self._order)
            self._first = {}
        told = [told[k] for k in self._order]
        require_done(told, self._names)
        if odd := [name for name, one in zip(self._names, told, strict=True) if one["about"] != about]:
            raise ValueError(f"site {odd[0]!r} tells other things than {str(self)!r}: all must make the same tasks")
        return told

    def _numbers(
        self, told: Sequence[Mapping[str, Any]], part: str, like: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return the numbers that all sites tell of a part, [K] each, of the types that own ones have."""
        found = {}
        for name, own in like.items():
            values = [one[part] if not name else one[part].get(name) for one in told]
            whole = own.dtype.kind in "iu"
            for site, value in zip(self._names, values, strict=True):
                if type(value) is not (int if whole else float) or not math.isfinite(value) or (whole and value < 0):
                    raise ValueError(f"site {site!r} tells {value!r} as {part} of {name!r}, which cannot be")
            found[name] = np.array(values, own.dtype)
        return found

    def _words(self, told: Sequence[Mapping[str, Any]], name: str) -> list[list[str]]:
        """Return the different words that every site has in a column, [K] lists."""
        for site, one in zip(self._names, told, strict=True):
            words = one["names"].get(name)
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise ValueError(f"site {site!r} does not tell the names of categories of {name!r} as a list of words")
        return [one["names"][name] for one in told]


def others_of(given: object) -> Together:
    """Return the sites elsewhere, if what is ``given`` as the name of all rows, or as a dict by site, is a `Party`."""
    keys = [*given] if isinstance(given, Mapping) and len(given) == 1 else [given]
    return keys[0] if isinstance(keys[0], Party) else Together()


def said(value: Any) -> Any:
    """Return a setting as a value of JSON that is the same at two sites where the setting is.

    Of arrays it is said that there is one, and of functions what they are called.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Preparation):
        return hashlib.sha256(json.dumps(value.to_json(), sort_keys=True).encode()).hexdigest()[:16]
    if hasattr(value, "__len__"):
        return "one for each"
    name = getattr(value, "name", None) or getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else f"a {type(value).__name__}"


def _plain(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: values.tolist()[0] for name, values in arrays.items()}
