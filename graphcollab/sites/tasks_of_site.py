"""`tasks_of_site`: the tasks of all sites, made at one that keeps its samples, by statistics over all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from torch.utils.data import Dataset

from graphcollab._base.errors import EmptyError
from graphcollab.data._pairs import to_tensors
from graphcollab.data.tasks import Tasks
from graphcollab.sites.ledger import Ledger
from graphcollab.sites.statistics import Everyone, SiteStatistics


def tasks_of_site(
    meeting: Everyone,
    site: object,
    data: Any,
    *,
    rehearsed: bool = False,
    ledger: Ledger | None = None,
    build: Callable[..., Tasks] | None = None,
    **settings: Any,
) -> Tasks:
    """Make the tasks of all sites at one of them, which gives its own samples and meets the others.

    They are the tasks that all samples together would make, with the others' elsewhere (`Tasks.share`). Means and
    deviations, categories and classes are those of all rows that may train, whatever is drawn, so other seeds disclose
    nothing more. `SiteStatistics` says what this site sends: nothing of single rows but names of categories and
    classes, some perhaps of one row. Declare categories, ``categories={"ward": ["A", "B"]}``, and no name is sent.

    What must be alike at all sites is compared first. If it differs, or a site fails, all sites raise the same
    ``ValueError``, which names the site. What a failing site's own error says stays there, as its cause.

    Args:
        meeting: How this site meets the others.
        site: Its name, text or a whole number.
        data: Its table, as `Tasks.from_frame` takes one; or a pair (inputs, targets), see `Tasks.from_arrays`; or a
            ``Dataset``, see `Tasks.from_samples`, by which pairs are read, too, where ``val`` or ``test`` are given.
        rehearsed: Whether the others are not there, or have copies of this site's samples, so that one class is no
            error.
        ledger: What this site has told of its columns before, which it tells again, or nothing.
        build: Function that makes the tasks of a dict {site: data}, such as `graphcollab.llm.text_tasks`. Default: one
            of those above.
        settings: Settings of that function; the same at all sites.

    Raises:
        ValueError: If sites differ in their versions of graphcollab, settings, columns, or kinds of samples, two have
            one name, or one has no rows or cannot use them.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from threading import Barrier
        >>> class Room:
        ...     def __init__(self, sites):
        ...         self.said, self.wait = [None] * sites, Barrier(sites).wait
        ...
        ...     def at(self, place):
        ...         return type("Door", (), {"all_gather_object": lambda _, value: self.meet(place, value)})()
        ...
        ...     def meet(self, place, value):
        ...         self.wait()
        ...         self.said[place] = value
        ...         self.wait()
        ...         return [*self.said]
        >>> room, ages = Room(2), {"north": [*range(30, 40)], "south": [*range(60, 70)]}
        >>> def make(place, site):
        ...     return tasks_of_site(room.at(place), site, {"age": ages[site], "y": [0, 1] * 5})
        >>> north, south = ThreadPoolExecutor().map(make, range(2), ages)
        >>> north.names, north.sizes("train").tolist(), len(north.pools["samples"])
        (('north', 'south'), [6, 6], 10)
    """
    statistics = SiteStatistics(site, meeting, rehearsed, ledger)
    name = statistics.name
    if build is not None:
        with statistics.making(build.__name__, build, settings):
            return build({name: data}, statistics=statistics, **settings)
    if isinstance(data, Dataset) or {"val", "test"} & settings.keys():
        for split in ("val", "test"):
            if settings.get(split) is not None:
                settings[split] = {name: settings[split]}
        with statistics.making("samples", Tasks.from_samples, settings):
            return Tasks.from_samples({name: data}, statistics=statistics, **settings)
    if isinstance(data, tuple) and len(data) == 2:
        with statistics.making("arrays", Tasks.from_arrays, settings):
            inputs, targets = to_tensors(*data)
            if not len(inputs):
                raise EmptyError(f"site {name!r}", "there are no samples")
            return Tasks.from_arrays(inputs, targets, [name] * len(inputs), statistics=statistics, **settings)
    with statistics.making("a table", Tasks.from_frame, settings):
        return Tasks.from_frame({name: data}, statistics=statistics, **settings)


def told_by_site(site: object, data: Any, **settings: Any) -> list[dict[str, Any]]:
    """Return the JSON values that a site would send to others by `tasks_of_site` with these arguments; none leave it.

    Args:
        site: See `tasks_of_site`.
        data: See there.
        settings: See there.

    Example:
        >>> agreement, counts, sizes = told_by_site(
        ...     "north", {"age": [*range(30, 40)], "ill": [0, 1] * 5}, target="ill"
        ... )
        >>> counts["known"], counts["names"]
        ({'age': 10}, {'ill': ['0', '1']})
    """
    rehearsal = _Rehearsal()
    tasks_of_site(rehearsal, site, data, rehearsed=True, **settings)
    return rehearsal.sent


class _Rehearsal:
    """A meeting without other sites."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def all_gather_object(self, value: Any) -> list[Any]:
        self.sent.append(json.loads(json.dumps(value)))
        return [json.loads(json.dumps(value))]
