"""`Statistics`: what builders of tasks share about samples; by default all samples are here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from graphcollab._base.errors import MismatchError
from graphcollab._base.naming import few
from graphcollab.data._values import NOTHING, without
from graphcollab.data.samples import Split

T = TypeVar("T")


@dataclass(frozen=True)
class Counts:
    """Additive facts of columns over the rows to which they are fitted, [k] each, and names of categories, [k] lists.

    ``squares`` are deviations from the mean of the site, of no column whose values are all here, as deviations from the
    common mean have more digits; ``counted`` are the values that ``sums`` are of, 0 where a site does not share them.
    """

    rows: np.ndarray
    known: Mapping[str, np.ndarray]
    sums: Mapping[str, np.ndarray]
    squares: Mapping[str, np.ndarray]
    names: Mapping[str, Sequence[Sequence[str]]]
    counted: Mapping[str, np.ndarray]


class Statistics:
    """Statistics over all samples, which are all here.

    Where some are elsewhere, a subclass reduces them over whoever has some. A builder calls `agree`, `pool` and `union`
    in this order, each once at most. What ``then`` computes follows from common facts alone, so an error in it is the
    same for all.
    """

    alone = True
    """Whether all samples are here."""
    complete = True
    """Whether no samples are elsewhere of which nothing is known."""

    def agree(self, facts: Mapping[str, Any], then: Callable[[Sequence[Mapping[str, Any]]], T]) -> T:
        """Check that samples go together, given facts about those here, and return what follows from all facts."""
        return then([facts])

    def pool(self, counts: Counts, then: Callable[[Counts], T]) -> T:
        """Add up the counts of the rows here and return what follows from those of all rows."""
        return then(replace(counts, squares={}))

    def union(self, tasks: Any, may_train: Split) -> Any:
        """Return the `Tasks` of all nodes, given those of the nodes here and their samples that may be for training."""
        return tasks


HERE = Statistics()
"""The default of builders: all samples are here."""


def common_kind(name: str, kinds: Iterable[tuple[object, str]], target: bool = False) -> str:
    """Return the kind that a column has at all sites where it is not empty, given pairs (site, kind), or raise."""
    some = [(site, kind) for site, kind in kinds if kind != NOTHING]
    if which := differing(some):
        raise MismatchError(
            f"column {name!r}",
            f"column {name!r} holds values of different kinds, {which}: write it alike at all sites"
            + ("" if target else f", name it in categorical=[{name!r}] at all of them, or {without(name)}"),
        )
    return some[0][1] if some else NOTHING


def differing(values: Iterable[tuple[object, Any]]) -> str:
    """Return as text which sites have which values, given pairs (site, value); "" where all have the same."""
    sites: dict[str, list[str]] = {}
    for site, value in values:
        shown = value if isinstance(value, str) else json.dumps(value)
        sites.setdefault(shown, []).append(repr(site))
    if len(sites) < 2:
        return ""
    return " and ".join(f"{value} at {few(where)}" for value, where in sites.items())
