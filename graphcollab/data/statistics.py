"""`Statistics`: what builders of tasks share about samples; by default, all samples are in this process."""

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
    """Additive statistics of columns over the rows to fit, [k] each, and lists [k] of category names.

    ``squares`` are squared deviations from the site mean. They omit columns whose values are all in this process, since
    deviations from the common mean are more precise. ``counted`` are the numbers of values in ``sums``, 0 for sites
    that do not share them.
    """

    rows: np.ndarray
    known: Mapping[str, np.ndarray]
    sums: Mapping[str, np.ndarray]
    squares: Mapping[str, np.ndarray]
    names: Mapping[str, Sequence[Sequence[str]]]
    counted: Mapping[str, np.ndarray]


class Statistics:
    """Statistics over all samples, with all samples in this process.

    If some are in other processes, a subclass reduces the statistics over these. A builder calls `agree`, `pool` and
    `union` in this order, each at most once. The result of ``then`` depends on common facts alone, so an error in it is
    the same in all processes.
    """

    alone = True
    """Whether all samples are in this process."""
    complete = True
    """Whether something is known about all samples in other processes."""

    def agree(self, facts: Mapping[str, Any], then: Callable[[Sequence[Mapping[str, Any]]], T]) -> T:
        """Check that samples are compatible, given local facts, and return ``then`` of the facts of all processes."""
        return then([facts])

    def pool(self, counts: Counts, then: Callable[[Counts], T]) -> T:
        """Sum the counts of local rows over all processes and return ``then`` of the result."""
        return then(replace(counts, squares={}))

    def union(self, tasks: Any, may_train: Split) -> Any:
        """Return the `Tasks` of all nodes, given those of local nodes and the samples that may be used for training."""
        return tasks


HERE = Statistics()
"""The default of builders: all samples are in this process."""


def common_kind(name: str, kinds: Iterable[tuple[object, str]], target: bool = False) -> str:
    """Return the common kind of a column at sites where it is not empty, from pairs (site, kind), or raise."""
    some = [(site, kind) for site, kind in kinds if kind != NOTHING]
    if which := differing(some):
        raise MismatchError(
            f"column {name!r}",
            f"column {name!r} holds values of different kinds, {which}: write it alike at all sites"
            + ("" if target else f", name it in categorical=[{name!r}] at all of them, or {without(name)}"),
        )
    return some[0][1] if some else NOTHING


def differing(values: Iterable[tuple[object, Any]]) -> str:
    """Describe which sites have which values, from pairs (site, value); "" if all have the same."""
    sites: dict[str, list[str]] = {}
    for site, value in values:
        shown = value if isinstance(value, str) else json.dumps(value)
        sites.setdefault(shown, []).append(repr(site))
    if len(sites) < 2:
        return ""
    return " and ".join(f"{value} at {few(where)}" for value, where in sites.items())
