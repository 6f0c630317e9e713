"""`SiteStatistics`: statistics of samples that stay at the sites, reduced over all sites without sharing rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch_geometric.utils import cumsum

from graphcollab._base.checks import issue
from graphcollab._base.errors import MismatchError, TooFewError, UnsupportedError
from graphcollab._base.naming import few as few_names
from graphcollab._base.settings import settings_of
from graphcollab._base.version import __version__
from graphcollab.data import Preparation
from graphcollab.data._fit import declared_columns
from graphcollab.data._sites import in_order, name_ids
from graphcollab.data._values import without
from graphcollab.data.quality_of_values import of_spellings, warn_of
from graphcollab.data.samples import ELSEWHERE, Split
from graphcollab.data.statistics import Counts, Statistics
from graphcollab.data.tasks import Tasks
from graphcollab.sites.agreement import FEW, Received, require_agreed, require_done, require_parts
from graphcollab.sites.errors import failure
from graphcollab.sites.ledger import Ledger

T = TypeVar("T")

OF_TABLES = (
    *("node", "target", "event", "weight", "group", "val_fraction", "test_fraction", "stratify", "seed", "pooled"),
    *("standardize_target", "indicator_above", "categories", "preparation", "refit", "loss", "metric", "class_weight"),
)
"""Settings of `Tasks.from_frame` that must be the same at all sites; for other settings, their effect is compared."""
_MAY_DIFFER = {"statistics", "tokenizer"}


class Everyone(Protocol):
    """A meeting of sites. If it authenticates senders, it also has their ``names``, in the order of the values."""

    def all_gather_object(self, value: Any, /) -> list[Any]:
        """All-gather a JSON value: send it and return those of all sites, in the same order at all sites."""


class SiteStatistics(Statistics):
    """Statistics at a site that keeps its samples and meets others that keep theirs.

    The result equals that of all rows together with the same preparation, with the rows of other sites held elsewhere,
    as after `Tasks.share`. A site sends at most three values, each a JSON dict with an entry ``"failed"``:

    1. ``"agreement"``: version, name, settings, columns and the kinds of their values; nothing of single rows.
    2. ``"counts"``: for a table, the number of rows that may train and of known values, their sums and squared
       deviations, and the names of categories and classes; no sums if every site has its own means.
    3. ``"sizes"``: the number of samples in every split, and the classes of those that may train.

    Rows that may train are all rows except those reserved for validation or testing by name, whichever a seed draws;
    otherwise, sums over many draws would disclose every row. The name of a category is sent even if only a single row
    has it, unless categories are declared.

    Args:
        name: Name of this site, text or a whole number.
        meeting: The meeting with the other sites.
        rehearsed: Whether the others are absent, or have copies of this site's samples.
        ledger: Record of what the site has disclosed before. Default: nothing is recorded.
    """

    alone = False

    def __init__(self, name: object, meeting: Everyone, rehearsed: bool = False, ledger: Ledger | None = None) -> None:
        self.name, self.meeting, self.complete, self.ledger = str(name).strip(), meeting, not rehearsed, ledger
        self._site = int(name) if isinstance(name, int | np.integer) else self.name
        self._rows: list[int] = []
        self._order: list[int] = []
        self._names: tuple[str, ...] = ()
        self._first: dict[str, Any] = {}
        self._common = False  # whether an error now would be raised at all sites

    @contextmanager
    def making(self, of: str, build: Callable[..., Any], settings: Mapping[str, Any]) -> Iterator[None]:
        """Report a failure to the other sites if one occurs while ``build`` makes tasks from a kind of data."""
        self._first = {"version": __version__, "site": self._site, "of": of, "settings": _alike(of, build, settings)}
        try:
            yield
        except Exception as error:
            if self._common:
                raise
            try:
                self._meet("failure", {}, failure(error))
            except ValueError as failed:
                failed.add_note(f"What is wrong here: {type(error).__name__}: {error}")
                raise failed from error
            raise

    def agree(self, facts: Mapping[str, Any], then: Callable[[Sequence[Mapping[str, Any]]], T]) -> T:
        """Compare the settings and facts of all sites."""

        def agreed(received: Received) -> T:
            warn_of(of_spellings("the meeting of sites", self._names))
            return then([one["facts"] for one in received.values])

        return self._together("agreement", {"facts": dict(facts)}, agreed)

    def pool(self, counts: Counts, then: Callable[[Counts], T]) -> T:
        """Send the counts of this site, as far as they disclose no single value; ``then`` gets those of all."""
        return self._together("counts", self._disclosed(counts), lambda received: then(self._pooled(counts, received)))

    def union(self, tasks: Tasks, may_train: Split) -> Tasks:
        """Send the numbers of samples and the classes of this site, and return the tasks of all sites."""
        if tasks.cluster is not None:
            raise UnsupportedError("cluster", "cluster= cannot be given where sites keep their samples: leave it out")
        labels = None if tasks.classes is None else tasks.pools[may_train.pool].targets[may_train.index].unique()
        value = {
            "samples": {name: int(split.sizes[0]) for name, split in tasks.splits.items()},
            "classes": None if labels is None else labels.tolist(),
            "labels": 0 if tasks.classes is None else tasks.classes.shape[1],
        }
        made = self._together("sizes", value, lambda received: self._united(tasks, received, labels is not None))
        self._common = True  # the others have finished
        return made

    def _disclosed(self, counts: Counts) -> dict[str, Any]:
        few = {name: known[0] < FEW for name, known in counts.known.items()}
        self._warn_of_few([name for name in counts.sums if few[name] and counts.known[name][0]])
        value: dict[str, Any] = {"rows": int(counts.rows[0]), "known": _plain(counts.known)}
        for part in ("sums", "squares"):
            value[part] = {name: None if few[name] else one for name, one in _plain(getattr(counts, part)).items()}
        value["names"] = {name: [*names] for name, (names,) in counts.names.items()}
        return value if self.ledger is None else self.ledger.settle(value)

    def _pooled(self, own: Counts, received: Received) -> Counts:
        rows = received.counts("rows", most=received.rows)
        known = {name: received.counts("known", name, rows.tolist()) for name in own.known}
        sums, squares = (
            {name: received.sums(part, name, known[name]) for name in own.sums} for part in ("sums", "squares")
        )
        counted = {name: np.where(known[name] < FEW, 0, known[name]) for name in own.sums}
        for name, many in counted.items():
            if known[name].any() and not many.any() and self.complete:
                raise TooFewError(
                    f"column {name!r}",
                    f"no site has {FEW} values of column {name!r}, and of fewer no sums are told, as these would say "
                    f"what they are: {without(name)}, or give pooled='per_site'",
                )
            received.warn_of_scale(name, many, sums[name], squares[name], self._names.index(self.name))
        return Counts(rows, known, sums, squares, {name: received.words(name) for name in own.names}, counted)

    def _united(self, tasks: Tasks, received: Received, labeled: bool) -> Tasks:
        place, splits = self._names.index(self.name), {}
        for name, split in tasks.splits.items():
            most = received.rows if name == "train" else None
            ptr = cumsum(torch.from_numpy(received.counts("samples", name, most)))
            index = torch.full((int(ptr[-1]),), ELSEWHERE)
            index[ptr[place] : ptr[place + 1]] = split.index
            splits[name] = Split(split.pool, index, ptr)
        classes = received.classes() if labeled else None
        return replace(tasks, splits=splits, names=self._names, node_id=name_ids(self._names), told=classes)

    def _together(self, about: str, value: Mapping[str, Any], then: Callable[[Received], T]) -> T:
        """Send a value and return ``then`` of those of all sites; an error in it is raised at all of them."""
        self._common = True
        out = then(self._meet(about, value))
        self._common = False
        return out

    def _warn_of_few(self, names: Sequence[str]) -> None:
        if names:
            have = f"columns {few_names([*map(repr, names)])} have" if len(names) > 1 else f"column {names[0]!r} has"
            issue(
                "quality",
                "columns",
                f"{have} fewer than {FEW} values at site {self.name!r}, whose sums would say what they are, so none "
                "are told: they are standardized by the sums of other sites alone",
            )

    def _meet(self, about: str, value: Mapping[str, Any], failed: str | None = None) -> Received:
        """Send a value and return those of all sites, sorted by name; an error names the site that failed, and why."""
        told = self.meeting.all_gather_object({"about": about, "failed": failed, **self._first, **value})
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
                f"site {odd[0]!r} tells other things than {self.name!r}: all must make the same tasks",
            )
        require_parts(self._names, told, value)
        return Received(self._names, told, self._rows)


def _alike(of: str, build: Callable[..., Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a builder that must be the same at all sites, as JSON values."""
    every = settings_of(build, settings)  # raises before anything is sent
    names = OF_TABLES if of == "a table" else [name for name in every if name not in _MAY_DIFFER]
    found = {name: _said(every[name]) for name in names}
    if "categories" in found:
        columns = declared_columns(every["categories"] or {})
        found["categories"] = {name: column.categories for name, column in columns.items()}
    return found


def _said(value: Any) -> Any:
    """Return a setting as a JSON value, equal at sites with equal settings; for an array, only that there is one."""
    if isinstance(value, np.generic):
        value = value.item()
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
