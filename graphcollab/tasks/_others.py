"""What sites elsewhere say of their samples: `Together`, where there are none, and `Party`, which meets them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import cumsum

from graphcollab._version import __version__
from graphcollab.checks import issue
from graphcollab.errors import EmptyError, GraphcollabError, MismatchError, TooFewError, UnsupportedError
from graphcollab.naming import few as few_names
from graphcollab.tasks._agreed import require_agreed, require_done
from graphcollab.tasks._ledger import Ledger
from graphcollab.tasks._sites import in_order, name_ids
from graphcollab.tasks._told import FEW, Told, require_parts
from graphcollab.tasks._values import without
from graphcollab.tasks.doubts import of_spellings, warn_of
from graphcollab.tasks.preparation import Preparation
from graphcollab.tasks.samples import ELSEWHERE, Pool, Split

__all__ = ["Counts", "Everyone", "Party", "Together", "others_of", "said"]


class Samples(Protocol):
    """What sites tell each other of the tasks that they made, which are a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def pools(self) -> Mapping[str, Pool]: ...

    @property
    def splits(self) -> Mapping[str, Split]: ...

    @property
    def classes(self) -> Tensor | None: ...

    @property
    def cluster(self) -> Tensor | None: ...


T = TypeVar("T", bound=Samples)


class Everyone(Protocol):
    """A meeting of sites. One that knows who speaks has their ``names``, too, in the order of what they tell."""

    def everyone(self, value: Any, /) -> list[Any]:
        """Tell a value of JSON, and return those of all sites, in one order that is the same at all of them."""


@dataclass(frozen=True)
class Counts:
    """What sites tell of the rows to which columns are fitted.

    Args:
        rows: How many there are at every site, [k].
        known: How many have a value, by column, [k] each.
        sums: Sums of these values, by column of numbers, [k] each.
        squares: Their squared deviations from the mean of the site, by column, [k] each; of none whose values are all
            here, as those from the common mean have more digits.
        names: Different values that every site has, by column of categories, [k] lists each.
        counted: How many values the sums are of, by column, [k] each: none where a site has too few to tell their sums.
    """

    rows: np.ndarray
    known: Mapping[str, np.ndarray]
    sums: Mapping[str, np.ndarray]
    squares: Mapping[str, np.ndarray]
    names: Mapping[str, Sequence[Sequence[str]]]
    counted: Mapping[str, np.ndarray]


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

    def fitted_to(self, may_train: Split, train: Split) -> Split:
        """Return the rows to which columns are fitted: those that train."""
        return train

    def add_up(self, own: Counts) -> Counts:
        """Tell what the rows say that are here, and return what those of all sites say."""
        return replace(own, squares={})

    def close(self, own: Samples, may_train: Split) -> None:
        """Tell how many samples the tasks here have, and of which classes those are that ``may_train``."""

    def joined(self, own: T) -> T:
        """Return the tasks of all sites, of which these are here."""
        return own


class Party(Together):
    """A site that keeps its samples and meets others that keep theirs.

    Where a dict by site is taken, a `Party` as its only key stands for the name of a site, and the rows are those of
    this site. What results is what all rows together would give with the same preparation, with those of other sites
    elsewhere, as `Tasks.share` would leave it. At most three values are told, each a dict of JSON with an entry
    ``"failed"``:

    1. ``"agreement"``: version, name, settings, columns and what kind of values they hold; nothing of single rows.
    2. ``"counts"``: of a table, how many rows may train and how many values are known, their sums and squared
       deviations, and the names of categories and classes; where every site has means of its own, no sums.
    3. ``"sizes"``: how many samples every split has, and of which classes those are that may train.

    Rows that may train are all but those that are kept for validation or testing by name: which of them a seed draws
    changes nothing of what is told of columns and classes, or sums over many draws would tell every row.
    A category that a single row has is told by its name, unless categories were declared.

    Args:
        name: Name of this site, text or a whole number.
        meeting: How it meets the others.
        rehearsed: Whether the others are not there, or have copies of this site's samples.
        ledger: What the site has told before. Default: nobody knows.
    """

    def __init__(self, name: object, meeting: Everyone, rehearsed: bool = False, ledger: Ledger | None = None) -> None:
        self.name, self.meeting, self.rehearsed, self.ledger = name, meeting, rehearsed, ledger
        self._rows: list[int] = []
        self._order: list[int] = []
        self._names: tuple[str, ...] = ()
        self._sizes: dict[str, Tensor] = {}
        self._classes: Tensor | None = None
        self._first: dict[str, Any] = {}

    def __str__(self) -> str:
        return str(self.name).strip()

    def name_of(self, given: Any, rows: int) -> Any:
        if not rows:
            raise EmptyError(f"site {str(self)!r}", "there are no samples", public=True)
        return [str(self)] * rows

    def begin(self, of: str, settings: Mapping[str, Any]) -> None:
        name = int(self.name) if isinstance(self.name, int | np.integer) else str(self)
        told = {key: value if key == "categories" else said(value) for key, value in settings.items()}
        self._first = {"version": __version__, "site": name, "of": of, "settings": told}

    @contextmanager
    def telling(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            why = str(error) if isinstance(error, GraphcollabError) and error.public else ""
            try:
                self._meet("failure", {}, why)
            except ValueError as told:
                if not why:
                    told.add_note(f"What is wrong here: {type(error).__name__}: {error}")
                raise told from error

    def agree(self, facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        told = self._meet("agreement", {"facts": dict(facts)})
        warn_of(of_spellings("the meeting of sites", self._names))
        return [*told.values]

    def fitted_to(self, may_train: Split, train: Split) -> Split:
        return may_train

    def add_up(self, own: Counts) -> Counts:
        few = {name: known[0] < FEW for name, known in own.known.items()}
        with self.telling():
            self._warn_of_few([name for name in own.sums if few[name] and own.known[name][0]])
            value: dict[str, Any] = {"rows": int(own.rows[0]), "known": _plain(own.known)}
            for part in ("sums", "squares"):
                value[part] = {name: None if few[name] else one for name, one in _plain(getattr(own, part)).items()}
            value["names"] = {name: [*names] for name, (names,) in own.names.items()}
            if self.ledger is not None:
                value = self.ledger.settle(value)
        told = self._meet("counts", value)
        rows = told.counts("rows", most=told.rows)
        known = {name: told.counts("known", name, rows.tolist()) for name in own.known}
        sums, squares = (
            {name: told.sums(part, name, known[name]) for name in own.sums} for part in ("sums", "squares")
        )
        counted = {name: np.where(known[name] < FEW, 0, known[name]) for name in own.sums}
        for name, many in counted.items():
            if known[name].any() and not many.any() and not self.rehearsed:
                raise TooFewError(
                    f"column {name!r}",
                    f"no site has {FEW} values of column {name!r}, and of fewer no sums are told, as these would say "
                    f"what they are: {without(name)}, or give pooled='per_site'",
                )
            told.warn_of_scale(name, many, sums[name], squares[name], self._names.index(str(self)))
        return Counts(rows, known, sums, squares, {name: told.words(name) for name in own.names}, counted)

    def close(self, own: Samples, may_train: Split) -> None:
        labels = None if own.classes is None else own.pools[may_train.pool].targets[may_train.index].unique()
        value = {
            "samples": {name: int(split.sizes[0]) for name, split in own.splits.items()},
            "classes": None if labels is None else labels.tolist(),
            "labels": 0 if own.classes is None else own.classes.shape[1],
        }
        told = self._meet("sizes", value)
        most = {"train": told.rows}
        self._sizes = {name: torch.from_numpy(told.counts("samples", name, most.get(name))) for name in own.splits}
        self._classes = None if labels is None else told.classes()

    def joined(self, own: T) -> T:
        if own.cluster is not None:
            raise UnsupportedError(
                "cluster", "cluster= cannot be given where sites keep their samples: leave it out", public=True
            )
        place, splits = self._names.index(str(self)), {}
        for name, split in own.splits.items():
            ptr = cumsum(self._sizes[name])
            index = torch.full((int(ptr[-1]),), ELSEWHERE)
            index[ptr[place] : ptr[place + 1]] = split.index
            splits[name] = Split(split.pool, index, ptr)
        return replace(own, splits=splits, names=self._names, node_id=name_ids(self._names), told=self._classes)

    def _warn_of_few(self, names: Sequence[str]) -> None:
        """Warn of columns of which the site has too few values to tell their sums."""
        if names:
            have = f"columns {few_names([*map(repr, names)])} have" if len(names) > 1 else f"column {names[0]!r} has"
            issue(
                "quality",
                "columns",
                f"{have} fewer than {FEW} values at site {str(self)!r}, whose sums would say what they are, so none "
                "are told: they are standardised by the sums of other sites alone",
            )

    def _meet(self, about: str, value: Mapping[str, Any], failed: str | None = None) -> Told:
        """Tell a value, and return those of all sites, in the order of their names; raise what any has failed by."""
        told = self.meeting.everyone({"about": about, "failed": failed, **self._first, **value})
        if self._first:
            for known, one in zip(getattr(self.meeting, "names", ()), told, strict=False):
                if not isinstance(one, Mapping) or str(one.get("site")) != known:
                    raise MismatchError(
                        f"site {known!r}", f"site {known!r} does not tell its own name first, but something else"
                    )
            require_agreed(told, value.get("facts", {}))
            self._order = in_order([one["site"] for one in told])
            self._names = tuple(str(told[k]["site"]) for k in self._order)
            self._rows = [told[k]["facts"]["rows"] for k in self._order]
            self._first = {}
        told = [told[k] for k in self._order]
        require_done(told, self._names)
        if odd := [name for name, one in zip(self._names, told, strict=True) if one["about"] != about]:
            raise MismatchError(
                f"site {odd[0]!r}",
                f"site {odd[0]!r} tells other things than {str(self)!r}: all must make the same tasks",
            )
        require_parts(self._names, told, value)
        return Told(self._names, told, self._rows)


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
